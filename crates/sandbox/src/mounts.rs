//! Mount points of the host, cached for as long as they do not change.

use std::ffi::OsString;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::error::SandboxError;

/// The mount points of this process, and the file that reports their changes.
struct MountPoints {
    mounts: File,
    points: Vec<PathBuf>,
}

/// Returns the outermost mount points below `folder`, which must be a resolved path, without
/// `folder` itself.
pub(crate) fn below(folder: &Path) -> Result<Vec<PathBuf>, SandboxError> {
    static KNOWN: Mutex<Option<MountPoints>> = Mutex::new(None);
    // A thread that panicked with the lock left a consistent list behind.
    let mut known = KNOWN.lock();
    let current = match known.take() {
        Some(known) if !changed(&known.mounts) => known,
        Some(MountPoints { mounts, .. }) => MountPoints { points: points(&mounts)?, mounts },
        None => {
            // Open the file before reading it, so that no change is missed.
            let mounts = File::open("/proc/self/mountinfo").map_err(reading)?;
            MountPoints { points: points(&mounts)?, mounts }
        }
    };
    let inside: Vec<&PathBuf> =
        current.points.iter().filter(|point| point.starts_with(folder) && *point != folder).collect();
    let outermost = inside
        .iter()
        .filter(|point| !inside.iter().any(|other| point.starts_with(other) && other != *point))
        .map(|&point| point.clone())
        .collect();
    *known = Some(current);
    Ok(outermost)
}

fn changed(mounts: &File) -> bool {
    poll(&mut [PollFd::from_borrowed_fd(mounts.as_fd(), PollFlags::PRI)], Some(&Timespec::default())) != Ok(0)
}

fn points(mounts: &File) -> Result<Vec<PathBuf>, SandboxError> {
    let (mut table, mut chunk) = (Vec::new(), vec![0_u8; 64 * 1024]);
    loop {
        let length = mounts.read_at(&mut chunk, table.len() as u64).map_err(reading)?;
        if length == 0 {
            return Ok(parse(&table));
        }
        table.extend_from_slice(chunk.get(..length).unwrap_or_default());
    }
}

fn parse(table: &[u8]) -> Vec<PathBuf> {
    let points =
        table.split(|&byte| byte == b'\n').filter_map(|line| line.split(|&byte| byte == b' ').nth(4));
    let mut points: Vec<PathBuf> = points.map(unescape).collect();
    points.sort();
    points.dedup();
    points
}

/// Decodes a path in which a backslash and three octal digits stand for space, tab, newline and
/// backslash.
fn unescape(text: &[u8]) -> PathBuf {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        let code = after
            .get(..3)
            .filter(|_| byte == b'\\')
            .and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        plain.push(code.unwrap_or(byte));
        rest = if code.is_some() { after.get(3..).unwrap_or_default() } else { after };
    }
    PathBuf::from(OsString::from_vec(plain))
}

fn reading(source: std::io::Error) -> SandboxError {
    SandboxError::Io { doing: "reading the mounts", source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_are_read_with_their_escapes() {
        let table = b"1 2 8:1 / / rw - ext4 x rw\n3 1 8:1 / /a\\040b\\134 rw shared:1 - ext4 x rw\n";
        assert_eq!(parse(table), [PathBuf::from("/"), PathBuf::from("/a b\\")]);
    }

    #[test]
    fn the_mounts_of_this_machine_are_found_below_its_root_and_none_below_a_file() {
        assert!(below(Path::new("/")).unwrap().contains(&PathBuf::from("/proc")));
        assert_eq!(below(Path::new("/proc/self/stat")).unwrap(), Vec::<PathBuf>::new());
    }
}
