//! What the judge of a commit is shown.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;

use rustix::fs::OFlags;

use crate::beneath::open_known;
use crate::{Entry, Kind};

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

/// An entry in an open folder.
#[derive(Debug, Clone, Copy)]
pub struct Found<'a> {
    /// What is known about it.
    pub entry: Entry,
    pub(crate) folder: BorrowedFd<'a>,
    pub(crate) name: &'a OsStr,
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
        Ok(File::from(open_known(self.folder, self.name, &self.entry, OFlags::RDONLY)?))
    }
}
