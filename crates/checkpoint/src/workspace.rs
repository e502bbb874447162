//! The folder into which changes are committed.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, StatxFlags, fstat, openat, statx};
use rustix::io::Errno;

use crate::folder::{PLACE, look, open};
use crate::regenerable::Regenerable;
use crate::{Error, Kind, Result, State};

/// The folder into which changes are committed.
#[derive(Debug)]
pub struct Workspace {
    pub(crate) path: PathBuf,
    pub(crate) folder: OwnedFd,
    /// Device and inode of the folder.
    pub(crate) identity: (u64, u64),
}

impl Workspace {
    /// Opens the folder at `path`. Links on the way are followed, here and never again.
    ///
    /// # Errors
    /// [`Error::System`] if the path is not a folder, or may not be opened.
    pub fn open(path: &Path) -> Result<Self> {
        let flags = PLACE | OFlags::CLOEXEC;
        let folder =
            openat(CWD, path, flags, Mode::empty()).map_err(|errno| Error::system("open", path, errno))?;
        let stat = fstat(&folder).map_err(|errno| Error::system("inspect", path, errno))?;
        Ok(Self { path: path.to_owned(), folder, identity: (stat.st_dev, stat.st_ino) })
    }

    /// Opens a regular file in the workspace for reading, through no link and no mount point.
    /// Returns `None` if there is none.
    ///
    /// # Errors
    /// Returns the system's error if the file cannot be opened.
    pub fn open_file(&self, path: &Path) -> io::Result<Option<File>> {
        let place = match open(self.folder.as_fd(), path, OFlags::PATH) {
            Ok(place) => place,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        };
        if Kind::of(&fstat(&place)?) != Kind::File {
            return Ok(None);
        }
        File::open(beneath::descriptor_path(place.as_fd())).map(Some)
    }

    /// Returns the kind of the entry at a path, or `None` if it is missing or cannot be examined.
    pub fn kind_of(&self, path: &Path) -> Option<Kind> {
        let place = open(self.folder.as_fd(), path.parent().unwrap_or(Path::new("")), PLACE).ok()?;
        look(&place, path.file_name()?).ok().flatten().map(|entry| entry.kind)
    }

    /// Returns true if the entry at a path matches `state`, as far as its kind, and for a file its
    /// size and time, show.
    pub fn looks_like(&self, path: &Path, state: &State) -> bool {
        let look = || {
            let place = open(self.folder.as_fd(), path.parent().unwrap_or(Path::new("")), PLACE).ok()?;
            look(&place, path.file_name()?).ok().flatten()
        };
        look().is_some_and(|now| {
            let is_alike = now.kind != Kind::File || now.has_same_size_and_time(&state.entry);
            now.kind == state.entry.kind && is_alike
        })
    }

    /// Removes the paths that lie in regenerable folders.
    pub fn without_made_again(&self, paths: Vec<PathBuf>) -> Vec<PathBuf> {
        let mut regenerable = Regenerable::of(&self.path);
        let mut is_made_again = |folder: &Path| {
            let (Some(name), Some(holder)) = (folder.file_name(), folder.parent()) else { return false };
            open(self.folder.as_fd(), holder, PLACE)
                .is_ok_and(|holder| regenerable.is(&[&holder], name, folder))
        };
        let mut stays = |path: &Path| !path.ancestors().skip(1).any(&mut is_made_again);
        paths.into_iter().filter(|path| stays(path)).collect()
    }

    /// Returns the path at which the workspace was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the workspace of a journal or of kept changes, if it still is the same folder.
    pub(crate) fn again(path: &Path, identity: (u64, u64)) -> Result<Self> {
        match Self::open(path) {
            Ok(workspace) if workspace.identity == identity => Ok(workspace),
            _ => Err(Error::OtherWorkspace { path: path.to_owned() }),
        }
    }

    /// Returns true if entries can be renamed between the workspace and `other`: both must have the
    /// same mount, not only the same file system.
    pub(crate) fn shares_mount_with(&self, other: &OwnedFd) -> bool {
        let mount = |folder: &OwnedFd| {
            let flags = rustix::fs::AtFlags::EMPTY_PATH;
            let found = statx(folder, "", flags, StatxFlags::BASIC_STATS | StatxFlags::MNT_ID).ok()?;
            let known = found.stx_mask & StatxFlags::MNT_ID.bits() != 0;
            known.then_some((found.stx_mnt_id, found.stx_dev_major, found.stx_dev_minor))
        };
        match (mount(&self.folder), mount(other)) {
            (Some(one), Some(other)) => one == other,
            // Kernels before 5.8 do not report the mount; a copy is correct in any case.
            _ => false,
        }
    }
}
