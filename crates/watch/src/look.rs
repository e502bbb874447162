//! Looking at the file system, always beneath an open root and never through a link.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat, openat2, statat};
use rustix::io::Errno;

/// Opens the folder at `relative` to be read; the root itself where that is empty.
pub(crate) fn open_folder(root: BorrowedFd<'_>, relative: &[u8]) -> Result<OwnedFd, Errno> {
    open(root, relative, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NONBLOCK)
}

fn open(root: BorrowedFd<'_>, relative: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    let relative = if relative.is_empty() { b"." } else { relative };
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS | ResolveFlags::BENEATH;
    loop {
        match openat2(root, relative, flags | OFlags::CLOEXEC | OFlags::NOFOLLOW, Mode::empty(), resolve) {
            // A rename somewhere raced with the look-up of a path that may not leave the root.
            Err(Errno::INTR | Errno::AGAIN) => {}
            other => return other,
        }
    }
}

/// What lies at `relative`, which is not empty, itself.
pub(crate) fn stat(root: BorrowedFd<'_>, relative: &[u8]) -> Result<Stat, Errno> {
    let (folder, name) = match relative.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => (&relative[..slash], &relative[slash + 1..]),
        None => return stat_in(root, relative),
    };
    let folder = open(root, folder, OFlags::PATH | OFlags::DIRECTORY)?;
    stat_in(folder.as_fd(), name)
}

/// What the entry of a folder is.
pub(crate) fn stat_in(folder: BorrowedFd<'_>, name: &[u8]) -> Result<Stat, Errno> {
    statat(folder, name, AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT)
}

/// Whether nothing can be there, or not what was asked for.
pub(crate) fn is_absence(errno: Errno) -> bool {
    matches!(errno, Errno::NOENT | Errno::NOTDIR | Errno::LOOP)
}

/// The type that a stat tells.
pub(crate) fn type_of(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// What a file is called by the kernel: its device and its number there.
pub(crate) fn identity(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}
