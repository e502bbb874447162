//! What the judge of a commit is shown.

use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::beneath::{PLACE, open, open_known};
use crate::sides::name_of;
use crate::{Entry, Kind};

/// Is asked about everything that a commit would touch, by several threads at once where that is much.
pub type Judge<'a> = &'a (dyn Fn(&Touch<'_>) -> Verdict + Sync);

/// One entry of the workspace that a commit would touch.
///
/// A folder that comes or goes as a whole is one touch, and each entry below it another one.
#[derive(Debug, Clone, Copy)]
pub struct Touch<'a> {
    /// Where, relative to the workspace.
    pub path: &'a Path,
    /// What would happen.
    pub action: Action,
    /// What is there now.
    pub old: Option<Found<'a>>,
    /// What would be there.
    pub new: Option<Found<'a>>,
}

/// The same before anybody is asked.
pub(crate) struct Touched {
    pub(crate) path: PathBuf,
    pub(crate) action: Action,
    pub(crate) old: Option<Entry>,
    pub(crate) new: Option<Entry>,
}

impl Touched {
    /// What the judge says. `upper` holds what is new, `lower` what is there.
    pub(crate) fn verdict(&self, judge: Judge<'_>, upper: BorrowedFd<'_>, lower: BorrowedFd<'_>) -> Verdict {
        let path = self.path.as_path();
        let found = |root| move |entry| Found { entry, root, path };
        let (old, new) = (self.old.map(found(lower)), self.new.map(found(upper)));
        judge(&Touch { path, action: self.action, old, new })
    }
}

/// What a commit would do to an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// Make it, where there is nothing.
    Create,
    /// Put something else in its place: other content, another kind, another mode.
    Replace,
    /// Take it away.
    Remove,
    /// Change the mode, the owner or the attributes of a folder that stays.
    Attributes,
}

/// What the judge of a commit says to a touch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It may happen.
    Allow,
    /// It may happen only when somebody approves. The reason is for people.
    Hold(String),
    /// It may not happen. The reason is for people.
    Deny(String),
}

/// An entry below an open folder.
#[derive(Debug, Clone, Copy)]
pub struct Found<'a> {
    /// What is known about it.
    pub entry: Entry,
    pub(crate) root: BorrowedFd<'a>,
    pub(crate) path: &'a Path,
}

impl Found<'_> {
    /// Opens it for reading, if it is a regular file.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] for anything else, `ESTALE` where it is another one by now.
    pub fn open_file(&self) -> io::Result<File> {
        if self.entry.kind != Kind::File {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        let folder = open(self.root, self.path.parent().unwrap_or(Path::new("")), PLACE)?;
        Ok(File::from(open_known(folder, name_of(self.path), &self.entry, OFlags::RDONLY)?))
    }
}
