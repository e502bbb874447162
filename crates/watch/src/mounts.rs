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
    /// Path and file system type of the mounts that concern the roots.
    relevant: Vec<(PathBuf, String)>,
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
        let untold = |(_, kind): &&(PathBuf, String)| !TOLD.contains(&kind.as_str());
        self.relevant.iter().find(untold).map(|(path, kind)| (path.as_path(), kind.as_str()))
    }

    fn read(&mut self, roots: &[PathBuf]) -> io::Result<Vec<(PathBuf, String)>> {
        let mut text = Vec::new();
        self.file.rewind()?;
        self.file.read_to_end(&mut text)?;
        let mounts: Vec<(PathBuf, String)> = text.split(|byte| *byte == b'\n').filter_map(mount).collect();
        let mut relevant = Vec::new();
        for root in roots {
            // The root lies in the last of the mounts with the longest matching path.
            let holding = mounts.iter().filter(|(path, _)| root.starts_with(path));
            relevant.extend(holding.max_by_key(|(path, _)| path.components().count()).cloned());
            relevant
                .extend(mounts.iter().filter(|(path, _)| path != root && path.starts_with(root)).cloned());
        }
        Ok(relevant)
    }
}

/// Parses the mount point and the file system type from one line (`proc_pid_mountinfo(5)`).
fn mount(line: &[u8]) -> Option<(PathBuf, String)> {
    let mut fields = line.split(|byte| *byte == b' ');
    let path = PathBuf::from(std::ffi::OsString::from_vec(unescape(fields.nth(4)?)));
    let kind = fields.skip_while(|field| *field != b"-").nth(1)?;
    Some((path, String::from_utf8_lossy(kind).into_owned()))
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
        assert_eq!(mount(line), Some((PathBuf::from("/mnt/with blank"), "ext4".to_owned())));
        assert_eq!(mount(b"1 0 0:1 / / rw - 9p drvfs rw").map(|(_, kind)| kind), Some("9p".to_owned()));
        assert_eq!(mount(b""), None);
    }

    #[test]
    fn the_mounts_of_this_machine_can_be_read() {
        let mut mounts = Mounts::open(&[PathBuf::from("/")]).unwrap();
        assert!(!mounts.relevant.is_empty());
        assert!(mounts.relevant.iter().any(|(path, _)| path == Path::new("/proc")), "{mounts:?}");
        let mut found = mounts.read(&[PathBuf::from("/proc/self")]).unwrap();
        assert_eq!(found.remove(0), (PathBuf::from("/proc"), "proc".to_owned()));
    }
}
