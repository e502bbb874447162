use std::ffi::{OsStr, OsString};
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use rustix::fs::{OFlags, fstat};
use rustix::io::Errno;

use crate::beneath::{PLACE, look, open, open_known, set_mode};
use crate::{Entry, Error, Result};

/// The folders between which a commit exchanges entries. All lie on one file system.
pub(crate) struct Sides {
    /// Where the new entries lie, by their paths in the workspace.
    pub(crate) stage: OwnedFd,
    /// Where removed entries go, by the number of their change.
    pub(crate) taken: OwnedFd,
    pub(crate) workspace: OwnedFd,
}

/// The folders that hold one entry on both sides.
pub(crate) struct Parents {
    pub(crate) stage: OwnedFd,
    pub(crate) workspace: OwnedFd,
}

/// Opens the folders of one change after the other; neighbours share them.
pub(crate) struct Walker<'a> {
    pub(crate) sides: &'a Sides,
    last: Option<(PathBuf, Rc<Parents>)>,
    /// Whether this process must loosen folders before it can change what is in them.
    ordinary: bool,
}

impl<'a> Walker<'a> {
    pub(crate) fn new(sides: &'a Sides) -> Self {
        Self { sides, last: None, ordinary: !rustix::process::geteuid().is_root() }
    }

    /// The folders that hold `path`, on both sides.
    pub(crate) fn parents(&mut self, path: &Path) -> rustix::io::Result<Rc<Parents>> {
        let parent = path.parent().unwrap_or(Path::new(""));
        if let Some((_, parents)) = self.last.as_ref().filter(|(last, _)| last == parent) {
            return Ok(parents.clone());
        }
        let parents = Rc::new(Parents {
            stage: open(self.sides.stage.as_fd(), parent, PLACE)?,
            workspace: open(self.sides.workspace.as_fd(), parent, PLACE)?,
        });
        if self.ordinary {
            let mode = Entry::of(&fstat(&parents.workspace)?).mode;
            // The journal knows the true mode: every such folder is in it as one that stays.
            if mode & 0o300 != 0o300 {
                set_mode(parents.workspace.as_fd(), mode | 0o300)?;
            }
        }
        self.last = Some((parent.to_owned(), parents.clone()));
        Ok(parents)
    }

    /// Lets an ordinary user move a folder: it is written to, because its `..` changes.
    pub(crate) fn make_movable(
        &self,
        parent: impl AsFd,
        name: &OsStr,
        entry: &Entry,
    ) -> rustix::io::Result<()> {
        if self.ordinary && entry.kind == crate::Kind::Folder && entry.mode & 0o700 != 0o700 {
            let place = open_known(parent, name, entry, OFlags::PATH)?;
            set_mode(place.as_fd(), entry.mode | 0o700)?;
        }
        Ok(())
    }
}

/// The last name of a change's path.
pub(crate) fn name_of(path: &Path) -> &OsStr {
    path.file_name().unwrap_or(OsStr::new("."))
}

/// Under which name a removed entry lies among those that were taken.
pub(crate) fn taken_name(number: usize) -> OsString {
    OsString::from(number.to_string())
}

/// What is called so, or nothing where even the folder is gone.
pub(crate) fn look_or_none(folder: impl AsFd, name: &OsStr) -> rustix::io::Result<Option<Entry>> {
    match look(folder, name) {
        Err(Errno::NOTDIR) => Ok(None),
        found => found,
    }
}

/// Asked before every system call that changes something; [`ControlFlow::Break`] leaves everything as it is.
///
/// Several threads ask at once where many files are swapped.
pub type OnStep<'a> = &'a (dyn Fn() -> ControlFlow<()> + Sync);

pub(crate) fn step(on_step: OnStep<'_>) -> Result<()> {
    match on_step() {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(Error::BrokenOff),
    }
}
