//! What the judge of a commit is shown.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::fs::{OFlags, readlinkat};

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
    /// Everything that the commit would touch, this entry included.
    pub among: &'a Touches<'a>,
}

/// Everything that a commit would touch, so that a judge can look at the workspace as it would be.
pub struct Touches<'a> {
    touched: &'a [Touched],
    upper: BorrowedFd<'a>,
    lower: BorrowedFd<'a>,
    /// The places in `touched` in the order of the paths; made when a judge first asks.
    by_path: OnceLock<Vec<usize>>,
}

impl std::fmt::Debug for Touches<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Touches").field("count", &self.touched.len()).finish_non_exhaustive()
    }
}

impl<'a> Touches<'a> {
    /// Takes entries of which none is named twice. `upper` holds what is new, `lower` what is there.
    pub(crate) fn new(touched: &'a [Touched], upper: BorrowedFd<'a>, lower: BorrowedFd<'a>) -> Self {
        Self { touched, upper, lower, by_path: OnceLock::new() }
    }

    /// Tells whether the commit leaves the entry at `path` as it is, takes it away, or puts another one there.
    pub fn at(&self, path: &Path) -> Fate<'_> {
        let (by_path, at) = (self.by_path(), self.first_not_before(path));
        let touched = by_path.get(at).and_then(|index| self.touched.get(*index));
        match touched.filter(|touched| touched.path == path) {
            None | Some(Touched { action: Action::Attributes, .. }) => Fate::Stays,
            Some(Touched { path, new: Some(entry), .. }) => {
                Fate::Becomes(Found { entry: *entry, root: self.upper, path })
            }
            Some(Touched { new: None, .. }) => Fate::Goes,
        }
    }

    /// Lists the names directly in `folder` that the commit touches.
    pub fn names_in(&self, folder: &Path) -> Vec<&OsStr> {
        let behind = self.by_path().iter().skip(self.first_not_before(folder));
        let paths = behind.filter_map(|index| self.touched.get(*index)).map(|touched| touched.path.as_path());
        let below = paths.take_while(|path| path.starts_with(folder));
        below.filter(|path| path.parent() == Some(folder)).filter_map(Path::file_name).collect()
    }

    /// Asks the judge about one of the entries.
    pub(crate) fn verdict<'b>(&'b self, judge: Judge<'_>, touched: &'b Touched) -> Verdict {
        let path = touched.path.as_path();
        let found = |root: BorrowedFd<'b>| move |entry| Found { entry, root, path };
        let (old, new) = (touched.old.map(found(self.lower)), touched.new.map(found(self.upper)));
        judge(&Touch { path, action: touched.action, old, new, among: self })
    }

    fn first_not_before(&self, path: &Path) -> usize {
        let is_before =
            |index: &usize| self.touched.get(*index).is_some_and(|touched| touched.path.as_path() < path);
        self.by_path().partition_point(is_before)
    }

    fn by_path(&self) -> &[usize] {
        self.by_path.get_or_init(|| {
            let mut all: Vec<usize> = (0..self.touched.len()).collect();
            all.sort_unstable_by_key(|index| self.touched.get(*index).map(|touched| touched.path.as_path()));
            all
        })
    }
}

/// What becomes of one entry of the workspace.
#[derive(Debug, Clone, Copy)]
pub enum Fate<'a> {
    /// The commit does not touch it, or changes its attributes alone.
    Stays,
    /// Nothing will be there.
    Goes,
    /// This will be there.
    Becomes(Found<'a>),
}

/// An entry that a commit touches, before anybody is asked about it.
pub(crate) struct Touched {
    pub(crate) path: PathBuf,
    pub(crate) action: Action,
    pub(crate) old: Option<Entry>,
    pub(crate) new: Option<Entry>,
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

    /// Reads where it leads, if it is a symbolic link.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] for anything else.
    pub fn read_link(&self) -> io::Result<PathBuf> {
        let folder = open(self.root, self.path.parent().unwrap_or(Path::new("")), PLACE)?;
        let target = readlinkat(&folder, name_of(self.path), Vec::new())?;
        Ok(PathBuf::from(OsString::from_vec(target.into_bytes())))
    }
}
