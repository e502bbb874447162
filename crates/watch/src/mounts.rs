//! The file systems mounted at or below the roots. Notifications of folders do not report a mount or
//! an unmount.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// The mount table of this process.
#[derive(Debug)]
pub(crate) struct Mounts {
    file: File,
    /// The mounts that concern the roots.
    relevant: Vec<MountPoint>,
}

/// A place at which a file system is mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountPoint {
    /// Path of the mount.
    pub path: PathBuf,
    /// File system type, as the kernel names it.
    pub kind: String,
}

impl MountPoint {
    /// Returns true if only this machine changes the file system, so that no other machine or
    /// program can delay an access to it.
    pub fn is_local(&self) -> bool {
        TOLD.contains(&self.kind.as_str())
    }
}

/// Returns the mounts of this process, a later one after those that it covers. Touches none of them.
///
/// # Errors
/// The mount table cannot be read.
pub fn mount_points() -> io::Result<Vec<MountPoint>> {
    Ok(parse(&std::fs::read("/proc/self/mountinfo")?))
}

fn parse(table: &[u8]) -> Vec<MountPoint> {
    table.split(|byte| *byte == b'\n').filter_map(mount).collect()
}

/// File system types that only this machine changes, so that the kernel sees every change.
const TOLD: &[&str] = &[
    "ext2", "ext3", "ext4", "xfs", "btrfs", "bcachefs", "f2fs", "tmpfs", "ramfs", "zfs", "overlay", "vfat",
    "exfat", "msdos", "ntfs3", "jfs", "nilfs2", "reiserfs", "erofs", "squashfs", "iso9660", "udf",
];

impl Mounts {
    pub(crate) fn open(roots: &[PathBuf]) -> io::Result<Self> {
        let mut mounts = Self { file: File::open("/proc/self/mountinfo")?, relevant: Vec::new() };
        mounts.relevant = mounts.read(roots)?;
        Ok(mounts)
    }

    /// Returns true if the set of mounts that concern the roots has changed.
    pub(crate) fn have_changed(&mut self, roots: &[PathBuf]) -> io::Result<bool> {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        if poll(&mut [PollFd::new(&self.file, PollFlags::PRI)], Some(&now)) == Ok(0) {
            return Ok(false);
        }
        let relevant = self.read(roots)?;
        let changed = relevant != self.relevant;
        self.relevant = relevant;
        Ok(changed)
    }

    /// Returns a mount on which the kernel does not report all changes.
    pub(crate) fn untold(&self) -> Option<(&Path, &str)> {
        let untold = self.relevant.iter().find(|mount| !mount.is_local())?;
        Some((&untold.path, &untold.kind))
    }

    fn read(&mut self, roots: &[PathBuf]) -> io::Result<Vec<MountPoint>> {
        let mut text = Vec::new();
        self.file.rewind()?;
        self.file.read_to_end(&mut text)?;
        let mounts = parse(&text);
        let mut relevant = Vec::new();
        for root in roots {
            // The root lies in the last of the mounts with the longest matching path.
            let holding = mounts.iter().filter(|mount| root.starts_with(&mount.path));
            relevant.extend(holding.max_by_key(|mount| mount.path.components().count()).cloned());
            let below = |mount: &&MountPoint| mount.path != *root && mount.path.starts_with(root);
            relevant.extend(mounts.iter().filter(below).cloned());
        }
        Ok(relevant)
    }
}

/// Parses the mount point and the file system type from one line (`proc_pid_mountinfo(5)`).
fn mount(line: &[u8]) -> Option<MountPoint> {
    let mut fields = line.split(|byte| *byte == b' ');
    let path = PathBuf::from(std::ffi::OsString::from_vec(unescape(fields.nth(4)?)));
    let kind = fields.skip_while(|field| *field != b"-").nth(1)?;
    Some(MountPoint { path, kind: String::from_utf8_lossy(kind).into_owned() })
}

/// Decodes the octal escapes of blanks and backslashes.
fn unescape(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, behind)) = rest.split_first() {
        if byte == b'\\'
            && let Some(digits) = behind.get(..3)
            && let Some(code) =
                std::str::from_utf8(digits).ok().and_then(|text| u8::from_str_radix(text, 8).ok())
        {
            plain.push(code);
            rest = &behind[3..];
        } else {
            plain.push(byte);
            rest = behind;
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_gives_path_and_kind_whatever_optional_fields_it_has() {
        let line = b"36 35 98:0 /mnt1 /mnt/with\\040blank rw,noatime master:1 shared:2 - ext4 /dev/root rw";
        let found = mount(line).unwrap();
        assert_eq!((&*found.path, &*found.kind), (Path::new("/mnt/with blank"), "ext4"));
        let remote = mount(b"1 0 0:1 / / rw - 9p drvfs rw").unwrap();
        assert_eq!(remote.kind, "9p");
        assert!(found.is_local() && !remote.is_local());
        assert_eq!(mount(b""), None);
    }

    #[test]
    fn the_mounts_of_this_machine_can_be_read() {
        let mut mounts = Mounts::open(&[PathBuf::from("/")]).unwrap();
        assert!(!mounts.relevant.is_empty());
        assert!(mounts.relevant.iter().any(|mount| mount.path == Path::new("/proc")), "{mounts:?}");
        let mut found = mounts.read(&[PathBuf::from("/proc/self")]).unwrap();
        assert_eq!(found.remove(0), MountPoint { path: "/proc".into(), kind: "proc".to_owned() });
        assert!(mount_points().unwrap().iter().any(|mount| mount.path == Path::new("/proc")));
    }
}
