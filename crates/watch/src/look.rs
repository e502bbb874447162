//! Access to the file system, always beneath an open root and never through a link.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use beneath::Through;
use rustix::fs::{AtFlags, FileType, OFlags, Stat, statat};
use rustix::io::Errno;

/// Opens the folder at `relative` for reading. An empty path opens the root itself.
pub(crate) fn open_folder(root: BorrowedFd<'_>, relative: &[u8]) -> Result<OwnedFd, Errno> {
    open(root, relative, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NONBLOCK)
}

fn open(root: BorrowedFd<'_>, relative: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    let relative = Path::new(OsStr::from_bytes(relative));
    loop {
        match beneath::open(root, relative, flags | OFlags::NOFOLLOW, Through::Mounts) {
            // Renames elsewhere have disturbed every attempt. No answer may miss an entry for that.
            Err(Errno::AGAIN) => {}
            other => return other,
        }
    }
}

/// Reads the metadata of the entry at `relative`, without following a link. `relative` must not be
/// empty.
pub(crate) fn stat(root: BorrowedFd<'_>, relative: &[u8]) -> Result<Stat, Errno> {
    let (folder, name) = match relative.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => (&relative[..slash], &relative[slash + 1..]),
        None => return stat_in(root, relative),
    };
    let folder = open(root, folder, OFlags::PATH | OFlags::DIRECTORY)?;
    stat_in(folder.as_fd(), name)
}

/// Reads the metadata of an entry in an open folder, without following a link.
pub(crate) fn stat_in(folder: BorrowedFd<'_>, name: &[u8]) -> Result<Stat, Errno> {
    statat(folder, name, AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT)
}

/// Returns true if the error means that the entry is absent or of another type.
pub(crate) fn is_absence(errno: Errno) -> bool {
    matches!(errno, Errno::NOENT | Errno::NOTDIR | Errno::LOOP)
}

/// Returns the file type in a stat result.
pub(crate) fn type_of(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// Returns the device and the inode number, which identify a file to the kernel.
pub(crate) fn identity(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}
