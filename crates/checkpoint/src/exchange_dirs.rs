//! The folders between which a commit exchanges entries.

use std::ffi::{OsStr, OsString};
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use rustix::fs::{OFlags, fstat};
use rustix::io::Errno;

use crate::folder::{PLACE, look, open, open_known, set_mode};
use crate::{Entry, Error, Result};

/// Folders between which a commit exchanges entries. All lie on one file system.
pub(crate) struct Sides {
    /// Folder of the new entries, by their paths in the workspace.
    pub(crate) stage: OwnedFd,
    /// Folder for removed entries, by the number of their change.
    pub(crate) taken: OwnedFd,
    pub(crate) workspace: OwnedFd,
}

/// Parent folders of one entry on both sides.
pub(crate) struct Parents {
    pub(crate) stage: OwnedFd,
    pub(crate) workspace: OwnedFd,
}

/// Opens the parent folders of changes in sequence; neighbouring changes share them.
pub(crate) struct Walker<'a> {
    pub(crate) sides: &'a Sides,
    last: Option<(PathBuf, Rc<Parents>)>,
    /// True if this process must loosen folders before it can change their entries.
    ordinary: bool,
}

impl<'a> Walker<'a> {
    pub(crate) fn new(sides: &'a Sides) -> Self {
        Self { sides, last: None, ordinary: !rustix::process::geteuid().is_root() }
    }

    /// Opens the parent folders of `path` on both sides.
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
            // The journal knows the true mode, because it lists every folder of this kind as one
            // that stays.
            if mode & 0o300 != 0o300 {
                set_mode(parents.workspace.as_fd(), mode | 0o300)?;
            }
        }
        self.last = Some((parent.to_owned(), parents.clone()));
        Ok(parents)
    }

    /// Makes a folder movable by an ordinary user: a move writes to the folder, because its `..`
    /// changes.
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

/// Returns the last component of a change's path.
pub(crate) fn name_of(path: &Path) -> &OsStr {
    path.file_name().unwrap_or(OsStr::new("."))
}

/// Returns the name of a removed entry in the `taken` folder.
pub(crate) fn taken_name(number: usize) -> OsString {
    OsString::from(number.to_string())
}

/// Looks up an entry. A missing parent folder counts as a missing entry.
pub(crate) fn look_or_none(folder: impl AsFd, name: &OsStr) -> rustix::io::Result<Option<Entry>> {
    match look(folder, name) {
        Err(Errno::NOTDIR) => Ok(None),
        found => found,
    }
}

/// Callback before every system call that changes anything; [`ControlFlow::Break`] leaves everything
/// unchanged from there on.
///
/// Several threads call it at once if many files are swapped.
pub type OnStep<'a> = &'a (dyn Fn() -> ControlFlow<()> + Sync);

pub(crate) fn step(on_step: OnStep<'_>) -> Result<()> {
    match on_step() {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(Error::BrokenOff),
    }
}
