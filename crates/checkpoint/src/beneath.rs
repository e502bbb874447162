//! The one place that resolves paths: beneath an open folder, through no link and no mount point.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, Dir, IFlags, Mode, OFlags, ResolveFlags, Timespec, Timestamps, UTIME_OMIT, fstat,
    ioctl_getflags, ioctl_setflags, openat2, statat, utimensat,
};
use rustix::io::Errno;

use crate::{Entry, Kind, Time};

/// How often a resolution is tried again that a rename elsewhere disturbed (EAGAIN, `openat2(2)`).
const TRIES: usize = 128;

/// The longest relative path that is handed to the kernel at once, in bytes. `PATH_MAX` is 4,096.
const LONGEST: usize = 3_500;

/// A folder, open as a mere place.
pub(crate) const PLACE: OFlags = OFlags::PATH.union(OFlags::DIRECTORY);
/// A folder, open for listing.
pub(crate) const LIST: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY);

/// Opens what lies at `path`, however long that is. An empty path is the folder itself.
pub(crate) fn open(folder: BorrowedFd<'_>, path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    if path.as_os_str().is_empty() {
        return open_once(folder, Path::new("."), flags);
    }
    if path.as_os_str().len() <= LONGEST {
        return open_once(folder, path, flags);
    }
    let mut opened: Option<OwnedFd> = None;
    let mut part = PathBuf::new();
    for name in path {
        if part.as_os_str().len() + name.len() > LONGEST {
            opened = Some(open_once(opened.as_ref().map_or(folder, AsFd::as_fd), &part, PLACE)?);
            part = PathBuf::new();
        }
        part.push(name);
    }
    open_once(opened.as_ref().map_or(folder, AsFd::as_fd), &part, flags)
}

fn open_once(folder: BorrowedFd<'_>, path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH
        | ResolveFlags::NO_SYMLINKS
        | ResolveFlags::NO_MAGICLINKS
        | ResolveFlags::NO_XDEV;
    let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    for _ in 0..TRIES {
        match openat2(folder, path, flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            done => return done,
        }
    }
    Err(Errno::AGAIN)
}

/// Folders beneath one, opened one after the other; neighbours share theirs.
pub(crate) struct Holders<'a> {
    folder: BorrowedFd<'a>,
    flags: OFlags,
    last: Option<(PathBuf, OwnedFd)>,
}

impl<'a> Holders<'a> {
    pub(crate) fn new(folder: BorrowedFd<'a>, flags: OFlags) -> Self {
        Self { folder, flags, last: None }
    }

    /// The folder that holds `path`.
    pub(crate) fn of(&mut self, path: &Path) -> rustix::io::Result<&OwnedFd> {
        let holder = path.parent().unwrap_or(Path::new(""));
        let last = match self.last.take().filter(|(last, _)| last == holder) {
            Some(last) => last,
            None => (holder.to_owned(), open(self.folder, holder, self.flags)?),
        };
        Ok(&self.last.insert(last).1)
    }

    /// The folder that was asked for last.
    pub(crate) fn into_last(self) -> Option<OwnedFd> {
        self.last.map(|(_, folder)| folder)
    }
}

/// What is called `name` in the folder, if anything is.
pub(crate) fn look(folder: impl AsFd, name: &OsStr) -> rustix::io::Result<Option<Entry>> {
    match statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(Entry::of(&stat))),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// The names in a folder that is open for listing, in the order of the file system.
pub(crate) fn names(folder: &OwnedFd) -> rustix::io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let name = entry?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            names.push(OsString::from_vec(name));
        }
    }
    Ok(names)
}

/// Whether a folder that is open for listing holds nothing.
pub(crate) fn is_empty(folder: &OwnedFd) -> rustix::io::Result<bool> {
    for entry in Dir::read_from(folder)? {
        if !matches!(entry?.file_name().to_bytes(), b"." | b"..") {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The path through which the kernel reaches an open descriptor.
pub(crate) fn descriptor_path(descriptor: BorrowedFd<'_>) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", descriptor.as_raw_fd()))
}

/// The path through which the kernel reaches a name in an open folder, for the calls that know no descriptors.
///
/// Those calls must not follow the last name.
pub(crate) fn path_in(folder: BorrowedFd<'_>, name: &OsStr) -> PathBuf {
    let mut path = format!("/proc/self/fd/{}/", folder.as_raw_fd()).into_bytes();
    path.extend_from_slice(name.as_bytes());
    PathBuf::from(OsString::from_vec(path))
}

/// Opens a regular file or a folder that was looked at, and makes sure that it is still that one.
///
/// ESTALE where it is not.
pub(crate) fn open_known(
    folder: impl AsFd,
    name: &OsStr,
    known: &Entry,
    flags: OFlags,
) -> rustix::io::Result<OwnedFd> {
    let flags = match known.kind {
        Kind::Folder => flags | OFlags::DIRECTORY,
        Kind::File if flags == OFlags::PATH => flags,
        // Where it is something else by now, opening does not block. A device could notice that it was opened, but only root
        // of the host can have put one there.
        Kind::File => flags | OFlags::NOCTTY | OFlags::NONBLOCK,
        _ => return Err(Errno::STALE),
    };
    let opened = match open(folder.as_fd(), Path::new(name), flags) {
        // A folder no more, or a socket.
        Err(Errno::NOTDIR | Errno::NXIO) => return Err(Errno::STALE),
        opened => opened?,
    };
    if Entry::of(&fstat(&opened)?).is_same_object(known) { Ok(opened) } else { Err(Errno::STALE) }
}

/// Sets the mode of what was opened, also where only as a place.
pub(crate) fn set_mode(opened: BorrowedFd<'_>, mode: u32) -> rustix::io::Result<()> {
    rustix::fs::chmod(descriptor_path(opened), Mode::from_raw_mode(mode))
}

/// Sets the modification time of what was opened, also where only as a place. The access time stays.
pub(crate) fn set_modified(opened: BorrowedFd<'_>, modified: Time) -> rustix::io::Result<()> {
    utimensat(CWD, descriptor_path(opened), &times(modified), AtFlags::empty())
}

/// The modification time for `utimensat`, and no access time.
pub(crate) fn times(modified: Time) -> Timestamps {
    Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec: modified.seconds, tv_nsec: modified.nanoseconds.into() },
    }
}

/// Asks the file system to lay the folders that will be made in this one apart from each other (`T` of `chattr(1)`).
///
/// Each call removes as many files as it replaced. ext4 without a journal gives no inode again for a minute or more after its
/// file went, and passes over those one by one for each file that is made in the same group of blocks: 5,000 files took up
/// to ten times as long there. It is a hint, which most file systems do not know. To lay the folders within a call apart as well
/// made that surer, and everything else slower by a fifth, because each group has to be read from the disk.
pub(crate) fn spread(folder: &OwnedFd) {
    if let Ok(flags) = ioctl_getflags(folder)
        && !flags.contains(IFlags::TOPDIR)
    {
        // Refused, it was a hint.
        let _ = ioctl_setflags(folder, flags | IFlags::TOPDIR);
    }
}
