//! Operations beneath an open folder, through no link and no mount point.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use beneath::{Through, descriptor_path};
pub(crate) use beneath::{is_empty, names};
use rustix::fs::{
    AtFlags, CWD, IFlags, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT, fstat, ioctl_getflags,
    ioctl_setflags, statat, utimensat,
};
use rustix::io::Errno;

use crate::{Entry, Kind, Time};

/// Flags to open a folder with `O_PATH`.
pub(crate) const PLACE: OFlags = OFlags::PATH.union(OFlags::DIRECTORY);
/// Flags to open a folder for listing.
pub(crate) const LIST: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY);

/// Opens the entry at `path`, however long the path is. An empty path is the folder itself.
pub(crate) fn open(folder: BorrowedFd<'_>, path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    beneath::open(folder, path, flags | OFlags::NOFOLLOW, Through::Nothing)
}

/// Cache for opening folders beneath one folder in sequence; neighbouring paths share their parent.
pub(crate) struct Holders<'a> {
    folder: BorrowedFd<'a>,
    flags: OFlags,
    last: Option<(PathBuf, OwnedFd)>,
}

impl<'a> Holders<'a> {
    pub(crate) fn new(folder: BorrowedFd<'a>, flags: OFlags) -> Self {
        Self { folder, flags, last: None }
    }

    /// Opens the parent folder of `path`.
    pub(crate) fn of(&mut self, path: &Path) -> rustix::io::Result<&OwnedFd> {
        let holder = path.parent().unwrap_or(Path::new(""));
        let last = match self.last.take().filter(|(last, _)| last == holder) {
            Some(last) => last,
            None => (holder.to_owned(), open(self.folder, holder, self.flags)?),
        };
        Ok(&self.last.insert(last).1)
    }

    /// Returns the folder that was opened last.
    pub(crate) fn into_last(self) -> Option<OwnedFd> {
        self.last.map(|(_, folder)| folder)
    }
}

/// Reads the metadata of the entry `name` in the folder, or returns `None` if it does not exist.
pub(crate) fn look(folder: impl AsFd, name: &OsStr) -> rustix::io::Result<Option<Entry>> {
    match statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(Entry::of(&stat))),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Returns the path through which the kernel reaches a name in an open folder, for system calls
/// without descriptors.
///
/// Those calls must not follow the last name.
pub(crate) fn path_in(folder: BorrowedFd<'_>, name: &OsStr) -> PathBuf {
    let mut path = format!("/proc/self/fd/{}/", folder.as_raw_fd()).into_bytes();
    path.extend_from_slice(name.as_bytes());
    PathBuf::from(OsString::from_vec(path))
}

/// Opens a regular file or a folder, and checks that it still is the entry `known`.
///
/// The error is ESTALE if it is another entry.
pub(crate) fn open_known(
    folder: impl AsFd,
    name: &OsStr,
    known: &Entry,
    flags: OFlags,
) -> rustix::io::Result<OwnedFd> {
    let flags = match known.kind {
        Kind::Folder => flags | OFlags::DIRECTORY,
        Kind::File if flags == OFlags::PATH => flags,
        // If the entry is another kind by now, opening does not block. A device could notice the
        // open, but only root of the host can have put one there.
        Kind::File => flags | OFlags::NOCTTY | OFlags::NONBLOCK,
        _ => return Err(Errno::STALE),
    };
    let opened = match open(folder.as_fd(), Path::new(name), flags) {
        // The entry is no longer a folder, or is a socket.
        Err(Errno::NOTDIR | Errno::NXIO) => return Err(Errno::STALE),
        opened => opened?,
    };
    if Entry::of(&fstat(&opened)?).is_same_object(known) { Ok(opened) } else { Err(Errno::STALE) }
}

/// Sets the mode of an open entry, even of one opened with `O_PATH`.
pub(crate) fn set_mode(opened: BorrowedFd<'_>, mode: u32) -> rustix::io::Result<()> {
    rustix::fs::chmod(descriptor_path(opened), Mode::from_raw_mode(mode))
}

/// Sets the modification time of an open entry, even of one opened with `O_PATH`. The access time
/// stays.
pub(crate) fn set_modified(opened: BorrowedFd<'_>, modified: Time) -> rustix::io::Result<()> {
    utimensat(CWD, descriptor_path(opened), &times(modified), AtFlags::empty())
}

/// Returns the modification time for `utimensat`, and no access time.
pub(crate) fn times(modified: Time) -> Timestamps {
    Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec: modified.seconds, tv_nsec: modified.nanoseconds.into() },
    }
}

/// Asks the file system to place folders that are created in this one apart from each other (`T` of
/// `chattr(1)`).
///
/// Each call removes as many files as it replaced. ext4 without a journal does not reuse the inode
/// of a removed file for a minute or more. For each new file in the same block group, it skips those
/// inodes one by one: 5,000 files took up to ten times as long there. The flag is a hint, which most
/// file systems ignore. Placing the folders within a call apart as well made the effect more
/// certain, but slowed everything else by a fifth: each group must then be read from the disk.
pub(crate) fn spread(folder: &OwnedFd) {
    if let Ok(flags) = ioctl_getflags(folder)
        && !flags.contains(IFlags::TOPDIR)
    {
        // A refusal does no harm, because the flag is a hint.
        let _ = ioctl_setflags(folder, flags | IFlags::TOPDIR);
    }
}
