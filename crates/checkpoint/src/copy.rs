//! Copies of entries on the file system of the workspace, for changes on another one.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, Uid, chownat, linkat, mkdirat, mknodat, openat, readlinkat,
    symlinkat, utimensat,
};
use rustix::io::Errno;

use crate::exchange_dirs::{OnStep, step};
use crate::folder::{LIST, look, names, open, open_known, set_mode, times};
use crate::{Entry, Error, Kind, Result, attributes};

/// A copier of entries that preserves hard links.
pub(crate) struct Copier<'a> {
    /// First copy of each inode with several names: its open folder and its name.
    copied: HashMap<(u64, u64), (OwnedFd, OsString)>,
    on_step: OnStep<'a>,
}

impl<'a> Copier<'a> {
    pub(crate) fn new(on_step: OnStep<'a>) -> Self {
        Self { copied: HashMap::new(), on_step }
    }

    /// Copies the entry `name` with all its contents, owner, mode, times and attributes.
    ///
    /// Hard links among the copied entries stay hard links. The overlay's marks are left out.
    pub(crate) fn copy(
        &mut self,
        from: &OwnedFd,
        to: &OwnedFd,
        name: &OsStr,
        path: &Path,
        entry: &Entry,
    ) -> Result<()> {
        step(self.on_step)?;
        let inode = (entry.device, entry.inode);
        if entry.has_other_names {
            if let Some((folder, first)) = self.copied.get(&inode) {
                return linkat(folder, first, to, name, AtFlags::empty())
                    .map_err(|errno| Error::system("copy", path, errno));
            }
            let kept = to.try_clone().map_err(|source| Error::system("copy", path, source))?;
            self.copied.insert(inode, (kept, name.to_owned()));
        }
        let made = self.make(from, to, name, path, entry);
        made.map_err(|error| match error {
            Failure::Io(source) => Error::system("copy", path, source),
            Failure::Below(error) => error,
        })
    }

    fn make(
        &mut self,
        from: &OwnedFd,
        to: &OwnedFd,
        name: &OsStr,
        path: &Path,
        entry: &Entry,
    ) -> Result<(), Failure> {
        let private = Mode::from_raw_mode(0o600);
        match entry.kind {
            Kind::File => {
                let mut source = File::from(open_known(from, name, entry, OFlags::RDONLY)?);
                let flags =
                    OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
                let mut copy = File::from(openat(to, name, flags, private)?);
                io::copy(&mut source, &mut copy).map_err(Failure::Io)?;
            }
            Kind::Folder => {
                mkdirat(to, name, Mode::from_raw_mode(0o700))?;
                let source = open_known(from, name, entry, LIST)?;
                let copy = open(to.as_fd(), Path::new(name), LIST)?;
                for name in names(&source)? {
                    let Some(entry) = look(&source, &name)? else { continue };
                    self.copy(&source, &copy, &name, &path.join(&name), &entry).map_err(Failure::Below)?;
                }
            }
            Kind::Link => symlinkat(readlinkat(from, name, Vec::new())?, to, name)?,
            Kind::Fifo => mknodat(to, name, FileType::Fifo, private, 0)?,
            Kind::Socket | Kind::Device | Kind::Whiteout => return Err(Errno::INVAL.into()),
        }
        keep(from, to, name, entry)?;
        Ok(())
    }
}

enum Failure {
    Io(io::Error),
    Below(Error),
}

impl From<Errno> for Failure {
    fn from(errno: Errno) -> Self {
        Self::Io(errno.into())
    }
}

/// Copies owner, attributes, mode and times. The owner comes first, because changing it clears mode
/// bits; the times come last, because every other step sets them.
pub(crate) fn keep(from: &OwnedFd, to: &OwnedFd, name: &OsStr, entry: &Entry) -> rustix::io::Result<()> {
    let made = look(to, name)?.ok_or(Errno::STALE)?;
    if (made.owner, made.group) != (entry.owner, entry.group) {
        let (owner, group) = (Uid::from_raw(entry.owner), Gid::from_raw(entry.group));
        chownat(to, name, Some(owner), Some(group), AtFlags::SYMLINK_NOFOLLOW)?;
    }
    if matches!(entry.kind, Kind::File | Kind::Folder) {
        attributes::set(to.as_fd(), name, &attributes::kept(from.as_fd(), name)?)?;
    }
    if entry.kind != Kind::Link {
        let place = open(to.as_fd(), Path::new(name), OFlags::PATH)?;
        set_mode(place.as_fd(), entry.mode & if entry.kind == Kind::File { 0o1777 } else { 0o7777 })?;
    }
    utimensat(to, name, &times(entry.modified), AtFlags::SYMLINK_NOFOLLOW)
}
