//! Operations on open entries.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use beneath::descriptor_path;
use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags, Stat, accessat, statat};
use rustix::io::Errno;

use crate::metadata::same;

/// Opens the file or folder behind an `O_PATH` descriptor. The caller has checked its type.
pub(crate) fn reopen(place: BorrowedFd<'_>, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    // NOCTTY and NONBLOCK change nothing for files and folders; they protect against a caller that
    // skips the check.
    let flags = flags | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
    rustix::fs::open(descriptor_path(place), flags, Mode::empty())
}

/// Returns the current path of an open entry, absolute and without links.
///
/// The error is ESTALE if the entry has no name any more.
pub(crate) fn name_of(descriptor: BorrowedFd<'_>, stat: &Stat) -> rustix::io::Result<PathBuf> {
    let name = rustix::fs::readlink(descriptor_path(descriptor), Vec::new())?.into_bytes();
    // The kernel appends this to the last name of an unlinked entry, but a file may really have this
    // name.
    let perhaps_gone = name.ends_with(b" (deleted)");
    let path = PathBuf::from(OsString::from_vec(name));
    if !path.is_absolute() {
        return Err(Errno::STALE);
    }
    if perhaps_gone {
        let there = statat(CWD, &path, AtFlags::SYMLINK_NOFOLLOW).map_err(|_| Errno::STALE)?;
        if !same(&there, stat) {
            return Err(Errno::STALE);
        }
    }
    Ok(path)
}

/// Checks that this process could create and remove entries in a folder.
pub(crate) fn may_change(folder: BorrowedFd<'_>) -> rustix::io::Result<()> {
    accessat(folder, ".", Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS)
}

/// Flushes the entries of a folder to disk, so that they survive a power loss.
pub(crate) fn flush_folder(folder: BorrowedFd<'_>) -> io::Result<()> {
    let opened = match rustix::fs::openat(
        folder,
        ".",
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    ) {
        // If a folder may be written but not listed, only its owner can flush it.
        Err(Errno::ACCESS) => return Ok(()),
        opened => opened?,
    };
    match File::from(opened).sync_all() {
        // Some file systems have nothing to flush here, and report it with this error.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        done => done,
    }
}
