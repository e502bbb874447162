//! Open folders.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use beneath::Through;
use rustix::fs::{AtFlags, OFlags, statat};

use crate::descriptor::reopen;
use crate::root::OpenEntry;
use crate::{EntryKind, Guard, LastLink, Metadata, OpenedFile, ReadableNames, Result, Roots, RootsError};

/// An open folder. Its direct entries are reached without resolving a path again.
pub struct Folder {
    pub(crate) descriptor: OwnedFd,
    pub(crate) real: PathBuf,
    guard: Arc<dyn Guard>,
}

impl Roots {
    /// Opens a folder for listing.
    ///
    /// # Errors
    /// [`RootsError::WrongKind`] for any other kind.
    pub fn open_folder(&self, path: &Path) -> Result<Folder> {
        let found = self.find(path, LastLink::Follow)?;
        self.may_read(&found.real)?;
        found.expect(EntryKind::Folder, path)?;
        self.folder(found.descriptor.as_fd(), found.real.clone(), path)
    }

    /// Opens the folder behind an `O_PATH` descriptor for listing. The caller has asked the guard
    /// and has checked that it is a folder.
    pub(crate) fn folder(
        &self,
        place: std::os::fd::BorrowedFd<'_>,
        real: PathBuf,
        path: &Path,
    ) -> Result<Folder> {
        let descriptor = reopen(place, OFlags::RDONLY | OFlags::DIRECTORY)
            .map_err(RootsError::while_doing("list", path))?;
        Ok(Folder { descriptor, real, guard: self.guard() })
    }
}

impl Folder {
    /// Returns the real path of the folder.
    pub fn real(&self) -> &Path {
        &self.real
    }

    /// Returns true if the guard allows the entry `name` to be read or shown.
    pub fn may_read(&self, name: &OsStr) -> bool {
        self.guard.may_read(&self.real.join(name)).is_ok()
    }

    /// Returns [`Folder::may_read`] as a closure for many names.
    pub(crate) fn readable_names(&self) -> ReadableNames<'_> {
        self.guard.readable_names(&self.real)
    }

    /// Reads the metadata of the entry `name`, without following a link.
    ///
    /// # Errors
    /// [`RootsError::NotFound`] if the entry does not exist. The guard is not asked.
    pub fn metadata(&self, name: &OsStr) -> Result<Metadata> {
        match statat(&self.descriptor, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Metadata::of(&stat)),
            Err(errno) => Err(RootsError::system("inspect", &self.real.join(name), errno)),
        }
    }

    /// Opens the regular file called `name` for reading. A link is not followed.
    ///
    /// # Errors
    /// Same as [`Roots::open_file`].
    pub fn open_file(&self, name: &OsStr) -> Result<OpenedFile> {
        let found = self.child(name)?;
        OpenedFile::of(&found, &found.real, self.guard.as_ref())
    }

    /// Opens the folder called `name`. A link is not followed.
    ///
    /// # Errors
    /// Same as [`Roots::open_folder`].
    pub fn open_folder(&self, name: &OsStr) -> Result<Folder> {
        let found = self.child(name)?;
        found.expect(EntryKind::Folder, &found.real)?;
        let descriptor = reopen(found.descriptor.as_fd(), OFlags::RDONLY | OFlags::DIRECTORY)
            .map_err(RootsError::while_doing("list", &found.real))?;
        Ok(Folder { descriptor, real: found.real, guard: self.guard.clone() })
    }

    fn child(&self, name: &OsStr) -> Result<OpenEntry> {
        let real = self.real.join(name);
        self.guard.may_read(&real).map_err(|refusal| RootsError::Refused { path: real.clone(), refusal })?;
        let place = beneath::open(
            self.descriptor.as_fd(),
            Path::new(name),
            OFlags::PATH | OFlags::NOFOLLOW,
            Through::InnerLinks,
        )
        .map_err(RootsError::while_doing("open", &real))?;
        let stat = rustix::fs::fstat(&place).map_err(RootsError::while_doing("inspect", &real))?;
        // The name is the real one: no link was followed on the way from this folder.
        Ok(OpenEntry { descriptor: place, stat, real })
    }
}
