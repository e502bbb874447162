//! The view of a commit for its judge.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::fs::{OFlags, readlinkat};

use crate::exchange_dirs::name_of;
use crate::folder::{PLACE, open, open_known};
use crate::{Entry, Kind};

/// Judge of every entry that a commit would touch. Several threads call it at once if there are many
/// entries.
pub type Judge<'a> = &'a (dyn Fn(&Touch<'_>) -> Verdict + Sync);

/// One entry of the workspace that a commit would touch.
///
/// A folder that comes or goes as a whole is one touch, and each entry below it is another one.
#[derive(Debug, Clone, Copy)]
pub struct Touch<'a> {
    /// Path relative to the workspace.
    pub path: &'a Path,
    /// Action of the commit.
    pub action: Action,
    /// Entry before the commit.
    pub old: Option<FoundEntry<'a>>,
    /// Entry after the commit.
    pub new: Option<FoundEntry<'a>>,
    /// All touches of the commit, including this one.
    pub among: &'a Touches<'a>,
}

/// All entries that a commit would touch, so that a judge can examine the workspace as it would be.
pub struct Touches<'a> {
    touched: &'a [TouchedEntry],
    upper: BorrowedFd<'a>,
    lower: BorrowedFd<'a>,
    /// Positions in `touched` in path order, computed at the judge's first query.
    by_path: OnceLock<Vec<usize>>,
}

impl std::fmt::Debug for Touches<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Touches").field("count", &self.touched.len()).finish_non_exhaustive()
    }
}

impl<'a> Touches<'a> {
    /// Creates the set from entries with distinct paths. `upper` contains the new entries, `lower`
    /// the old ones.
    pub(crate) fn new(touched: &'a [TouchedEntry], upper: BorrowedFd<'a>, lower: BorrowedFd<'a>) -> Self {
        Self { touched, upper, lower, by_path: OnceLock::new() }
    }

    /// Determines whether the commit leaves the entry at `path` unchanged, removes it, or puts
    /// another one there.
    pub fn at(&self, path: &Path) -> Fate<'_> {
        let (by_path, at) = (self.by_path(), self.first_not_before(path));
        let touched = by_path.get(at).and_then(|index| self.touched.get(*index));
        match touched.filter(|touched| touched.path == path) {
            None | Some(TouchedEntry { action: Action::Attributes, .. }) => Fate::Stays,
            Some(TouchedEntry { path, new: Some(entry), .. }) => {
                Fate::Becomes(FoundEntry { entry: *entry, root: self.upper, path })
            }
            Some(TouchedEntry { new: None, .. }) => Fate::Goes,
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
    pub(crate) fn verdict<'b>(&'b self, judge: Judge<'_>, touched: &'b TouchedEntry) -> Verdict {
        let path = touched.path.as_path();
        let found = |root: BorrowedFd<'b>| move |entry| FoundEntry { entry, root, path };
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

/// Outcome of a commit for one entry of the workspace.
#[derive(Debug, Clone, Copy)]
pub enum Fate<'a> {
    /// The commit does not touch the entry, or only changes its attributes.
    Stays,
    /// The commit removes the entry.
    Goes,
    /// The commit puts this entry there.
    Becomes(FoundEntry<'a>),
}

/// An entry that a commit touches, before the judge is asked.
pub(crate) struct TouchedEntry {
    pub(crate) path: PathBuf,
    pub(crate) action: Action,
    pub(crate) old: Option<Entry>,
    pub(crate) new: Option<Entry>,
}

/// Action of a commit on an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// Create an entry at a free path.
    Create,
    /// Replace the entry: other content, another kind, another mode.
    Replace,
    /// Remove the entry.
    Remove,
    /// Change the mode, the owner or the attributes of a folder that stays.
    Attributes,
}

/// Verdict of the judge about a touch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The action is allowed.
    Allow,
    /// The action needs an approval. The reason is for people.
    Hold(String),
    /// The action is denied. The reason is for people.
    Deny(String),
}

/// An entry below an open folder.
#[derive(Debug, Clone, Copy)]
pub struct FoundEntry<'a> {
    /// Metadata of the entry.
    pub entry: Entry,
    pub(crate) root: BorrowedFd<'a>,
    pub(crate) path: &'a Path,
}

impl FoundEntry<'_> {
    /// Opens the entry for reading, if it is a regular file.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] for any other kind, `ESTALE` if it is another entry by now.
    pub fn open_file(&self) -> io::Result<File> {
        if self.entry.kind != Kind::File {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        let folder = open(self.root, self.path.parent().unwrap_or(Path::new("")), PLACE)?;
        Ok(File::from(open_known(folder, name_of(self.path), &self.entry, OFlags::RDONLY)?))
    }

    /// Reads the target of the entry, if it is a symbolic link.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] for any other kind.
    pub fn read_link(&self) -> io::Result<PathBuf> {
        let folder = open(self.root, self.path.parent().unwrap_or(Path::new("")), PLACE)?;
        let target = readlinkat(&folder, name_of(self.path), Vec::new())?;
        Ok(PathBuf::from(OsString::from_vec(target.into_bytes())))
    }
}
