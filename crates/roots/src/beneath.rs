//! Resolution of paths; no other module resolves them.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags, ResolveFlags, Stat, accessat, openat2, statat};
use rustix::io::Errno;

use crate::metadata::same;

/// Maximum number of attempts at a resolution that a rename elsewhere disturbs (EAGAIN,
/// `openat2(2)`).
///
/// A command that renames in a loop can disturb several attempts in a row, but each one costs it a
/// rename.
const TRIES: usize = 128;

/// Choice of the links that a path may contain.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Links {
    /// Links whose targets stay beneath the folder.
    Inside,
    /// Refusal of every link.
    None,
}

/// Opens the entry that `path` leads to, all of it beneath `folder`. An empty path is the folder
/// itself.
///
/// EXDEV means that a link, or a `..`, leads out of the folder.
pub(crate) fn open_beneath(
    folder: BorrowedFd<'_>,
    path: &Path,
    flags: OFlags,
    links: Links,
) -> rustix::io::Result<OwnedFd> {
    let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    if matches!(links, Links::None) {
        resolve |= ResolveFlags::NO_SYMLINKS;
    }
    retrying(folder, path, flags, resolve)
}

/// Opens an entry of a folder, unless it is a link (ELOOP) or a mount point (EXDEV).
pub(crate) fn open_child_on_same_file_system(
    folder: BorrowedFd<'_>,
    name: &OsStr,
    flags: OFlags,
) -> rustix::io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    retrying(folder, Path::new(name), flags, resolve)
}

/// Opens an absolute path anywhere, always with `O_PATH`, to find its real name.
pub(crate) fn open_anywhere(path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    retrying(CWD, path, flags | OFlags::PATH, ResolveFlags::NO_MAGICLINKS)
}

fn retrying(
    folder: BorrowedFd<'_>,
    path: &Path,
    flags: OFlags,
    resolve: ResolveFlags,
) -> rustix::io::Result<OwnedFd> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    for _ in 0..TRIES {
        match openat2(folder, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            done => return done,
        }
    }
    Err(Errno::AGAIN)
}

/// Opens the file or folder behind an `O_PATH` descriptor. The caller has checked its type.
pub(crate) fn reopen(place: BorrowedFd<'_>, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    // NOCTTY and NONBLOCK change nothing for files and folders; they protect against a caller that
    // skips the check.
    let flags = flags | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
    rustix::fs::open(descriptor_path(place), flags, Mode::empty())
}

/// Returns the path through which the kernel reaches an open descriptor.
pub(crate) fn descriptor_path(descriptor: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", descriptor.as_raw_fd())
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
