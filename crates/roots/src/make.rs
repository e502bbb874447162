//! Creation of parent folders.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use beneath::Through;
use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, openat, unlinkat};
use rustix::io::Errno;

use crate::descriptor::{flush_folder, may_change};
use crate::root::OpenEntry;
use crate::{EntryKind, LastLink, Result, Right, Roots, RootsError, attributes, real_path};

/// Folders that were created on the way to an entry, so that they can be removed again.
#[derive(Default)]
pub struct CreatedFolders {
    /// Parent, name and real path of each folder, outermost first.
    made: Vec<(OwnedFd, OsString, PathBuf)>,
    are_planned: bool,
}

impl CreatedFolders {
    /// Iterates over the real paths of the new folders, outermost first.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.made.iter().map(|(_, _, real)| real.as_path())
    }

    /// Returns true if a dry run would create folders: no entry can exist in them yet.
    pub fn are_planned(&self) -> bool {
        self.are_planned
    }

    /// Removes the folders that are still empty, after the operation that needed them failed.
    pub fn take_back(self) {
        for (parent, name, _) in self.made.iter().rev() {
            // A folder that another process uses meanwhile stays, and so do its parents.
            if unlinkat(parent, name, AtFlags::REMOVEDIR).is_err() {
                return;
            }
        }
    }
}

impl Roots {
    /// Creates the missing parent folders of `path`. Links on the way are followed.
    ///
    /// # Errors
    /// [`RootsError::WrongKind`] if a parent is not a folder. After any error, the folders created
    /// so far are removed.
    pub fn create_parents(&self, path: &Path) -> Result<CreatedFolders> {
        let mut created = CreatedFolders::default();
        match self.slot(path, LastLink::Follow) {
            Ok(_) => return Ok(created),
            Err(RootsError::NoFolder { .. }) => {}
            Err(error) => return Err(error),
        }
        match self.create_missing(path, &mut created) {
            Ok(()) => Ok(created),
            Err(error) => {
                created.take_back();
                Err(error)
            }
        }
    }

    fn create_missing(&self, path: &Path, created: &mut CreatedFolders) -> Result<()> {
        let target = real_path(path, LastLink::Follow)?;
        let spot = self
            .locate(&target)
            .map_err(|_| RootsError::LeadsOutside { path: path.to_owned(), target: target.clone() })?;
        let mut folder = spot
            .root
            .descriptor
            .as_fd()
            .try_clone_to_owned()
            .map_err(|source| RootsError::Io { doing: "open", path: path.to_owned(), source })?;
        let mut names = spot.relative.iter();
        let Some(last) = names.next_back() else { return Ok(()) };
        while let Some(name) = names.next() {
            folder = match open_child(&folder, name, path) {
                Err(RootsError::NotFound { .. }) if self.dry_run => {
                    created.are_planned = true;
                    let missing = [name].into_iter().chain(names).chain([last]);
                    return self.could_create(&folder, missing, path);
                }
                Err(RootsError::NotFound { .. }) => self.create_child(&folder, name, path, created)?,
                opened => opened?,
            };
        }
        Ok(())
    }

    /// Checks that these folders could be created, each in the previous one, and an entry in the
    /// last.
    fn could_create<'a>(
        &self,
        folder: &OwnedFd,
        names: impl Iterator<Item = &'a OsStr>,
        path: &Path,
    ) -> Result<()> {
        may_change(folder.as_fd()).map_err(RootsError::while_doing("create", path))?;
        let mut real = look_at(folder, path)?.real;
        for name in names {
            real.push(name);
            self.may_make(path, &real)?;
        }
        Ok(())
    }

    fn may_make(&self, path: &Path, real: &Path) -> Result<()> {
        // The parents of a single listed path may be created for it, although their other entries
        // are out of reach.
        if !self.lies_around_a_writable_root(real) {
            self.reach(path, real, Right::Write)?;
        }
        self.may_write(real)
    }

    fn create_child(
        &self,
        folder: &OwnedFd,
        name: &OsStr,
        path: &Path,
        created: &mut CreatedFolders,
    ) -> Result<OwnedFd> {
        let doing = || RootsError::while_doing("create", path);
        let parent = look_at(folder, path)?;
        let real = parent.real.join(name);
        self.may_make(path, &real)?;
        match mkdirat(folder, name, Mode::from_raw_mode(0o777)) {
            Ok(()) => {}
            // Another process created the folder first.
            Err(Errno::EXIST) => return open_child(folder, name, path),
            Err(errno) => return Err(doing()(errno)),
        }
        let made = open_child(folder, name, path)?;
        let stat = parent.stat;
        created.made.push((parent.descriptor, name.to_owned(), real));
        let opened = openat(&made, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .map_err(doing())?;
        attributes::belong_to_folder(&opened, &stat).map_err(doing())?;
        flush_folder(folder.as_fd()).map_err(|source| RootsError::Io {
            doing: "flush the folder of",
            path: path.to_owned(),
            source,
        })?;
        Ok(made)
    }
}

fn look_at(folder: &OwnedFd, path: &Path) -> Result<OpenEntry> {
    let folder = folder.try_clone().map_err(|source| RootsError::Io {
        doing: "create",
        path: path.to_owned(),
        source,
    })?;
    OpenEntry::look(folder, path)
}

fn open_child(folder: &OwnedFd, name: &OsStr, path: &Path) -> Result<OwnedFd> {
    let opened = beneath::open(folder.as_fd(), Path::new(name), OFlags::PATH, Through::Mounts)
        .map_err(RootsError::while_doing("create", path))?;
    let found = OpenEntry::look(opened, path)?;
    found.expect(EntryKind::Folder, path)?;
    Ok(found.descriptor)
}
