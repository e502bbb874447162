use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, openat, unlinkat};
use rustix::io::Errno;

use crate::beneath::{Links, flush_folder, may_change, open_beneath};
use crate::root::Found;
use crate::{EntryKind, LastLink, Result, Right, Roots, RootsError, attributes, real_path};

/// Folders that were made on the way to one, so that they can be taken back.
#[derive(Default)]
pub struct CreatedFolders {
    /// The parent, the name in it and where that lies, outermost first.
    made: Vec<(OwnedFd, OsString, PathBuf)>,
    are_planned: bool,
}

impl CreatedFolders {
    /// Where the new folders lie, outermost first.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.made.iter().map(|(_, _, real)| real.as_path())
    }

    /// Whether some would be made, in a dry run: nothing can lie in them yet.
    pub fn are_planned(&self) -> bool {
        self.are_planned
    }

    /// Removes those that are still empty, because what they were made for failed.
    pub fn take_back(self) {
        for (parent, name, _) in self.made.iter().rev() {
            // A folder that something else uses meanwhile stays, and so do those around it.
            if unlinkat(parent, name, AtFlags::REMOVEDIR).is_err() {
                return;
            }
        }
    }
}

impl Roots {
    /// Makes the folders in which `path` lies, as far as they are missing. Links on the way are followed.
    ///
    /// # Errors
    /// [`RootsError::WrongKind`] where something on the way is no folder; what was made until an error is taken back.
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

    /// That these folders could be made, each in the one before, and something in the last of them.
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
        // The folders around a single listed path may be made for it, although nothing else in them is in reach.
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
            // Somebody else was quicker.
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

fn look_at(folder: &OwnedFd, path: &Path) -> Result<Found> {
    let folder = folder.try_clone().map_err(|source| RootsError::Io {
        doing: "create",
        path: path.to_owned(),
        source,
    })?;
    Found::look(folder, path)
}

fn open_child(folder: &OwnedFd, name: &OsStr, path: &Path) -> Result<OwnedFd> {
    let opened = open_beneath(folder.as_fd(), Path::new(name), OFlags::PATH, Links::None)
        .map_err(RootsError::while_doing("create", path))?;
    let found = Found::look(opened, path)?;
    found.expect(EntryKind::Folder, path)?;
    Ok(found.descriptor)
}
