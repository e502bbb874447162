//! The entries below some folders that a set of rules marks. One walk finds them; notifications of
//! the kernel keep the set up to date.
//!
//! [`Watch::sync`] reads the notifications that were pending when it was called, and returns the
//! marked paths. The answer therefore contains every entry that had its name before the call,
//! without a walk. Without notifications (a network file system, or more folders than one user may
//! watch), each answer comes from a walk. [`MarkedPaths::warning`] then reports that.
//!
//! A walk never follows links. A marked link marks its target. A marked file with further names
//! (hard links) marks these names as well. A folder that cannot be listed is marked hidden as a
//! whole, because its owner could open it again.
//!
//! This crate knows no policy and no cell: the caller's [`Rules`] define the marks.

mod error;
mod folders;
mod local_paths;
mod look;
mod mounts;
mod names;
mod noted;
mod notices;
mod scan;
mod watch;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

pub use error::WatchError;
pub use local_paths::{LocalPaths, Obstacle, ResolvedPath};
pub use mounts::{MountPoint, mount_points};
pub use notices::{Changes, Inotify, Notice};
pub use rustix::fs::inotify::WatchFlags;
pub use watch::Watch;

/// The rules that decide which entries are marked.
pub trait Rules {
    /// State of the rules for a folder, passed on to its entries.
    type FolderMatches: Clone;

    /// Returns the state for a folder at which a walk begins. The path is absolute.
    fn top(&self, folder: &Path) -> Self::FolderMatches;

    /// Returns true if the rules could match `name` in a folder with the state `above`. Without a
    /// possible match, an entry is hidden and frozen like its folder, and has no other marks.
    fn may_match(&self, above: &Self::FolderMatches, name: &OsStr) -> bool;

    /// Returns the state for an entry, from the state of its folder. The path is absolute.
    fn below(&self, above: &Self::FolderMatches, path: &Path, kind: Kind) -> Self::FolderMatches;

    /// Returns the marks of the path that has this state.
    fn marks(&self, known: &Self::FolderMatches) -> Marks;

    /// Returns true if every Unix socket is hidden, regardless of its name.
    fn hide_sockets(&self) -> bool {
        false
    }
}

/// Kind of an entry, as far as the rules distinguish kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A folder.
    Folder,
    /// A symbolic link, to any target.
    Link,
    /// Any other entry.
    File,
}

/// Marks that the rules give to a path.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Marks {
    /// True if the path and everything below it must not be read.
    pub hidden: bool,
    /// True if the path and everything below it must not be written.
    pub frozen: bool,
    /// True if a write to the path must be judged first. Entries below the path are judged
    /// individually.
    pub guarded: bool,
    /// True if [`MarkedPaths::noted`] reports the path when it appears.
    pub noted: bool,
}

impl Marks {
    fn any(self) -> bool {
        self.is_about_content() || self.noted
    }

    /// Returns true if the marks apply to the file under every name that it has.
    fn is_about_content(self) -> bool {
        self.hidden || self.frozen || self.guarded
    }

    fn and(self, other: Marks) -> Marks {
        Marks {
            hidden: self.hidden || other.hidden,
            frozen: self.frozen || other.frozen,
            guarded: self.guarded || other.guarded,
            noted: self.noted || other.noted,
        }
    }
}

/// Choice between repeated and single use of a [`Watch`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchMode {
    /// The caller asks repeatedly, so the set follows changes.
    Fresh,
    /// The caller asks once, and watching would cost more than it saves.
    Once,
}

/// The marked paths, absolute and below the roots as the caller gave them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MarkedPaths {
    /// Paths that must not be read.
    pub hidden: Vec<PathBuf>,
    /// Paths that must not be written, without those in `hidden`.
    pub frozen: Vec<PathBuf>,
    /// Paths whose writes must be judged, without those in `hidden` or `frozen`. Some may no longer
    /// exist.
    pub guarded: Vec<PathBuf>,
    /// Paths of the three lists above that have appeared since the previous answer. A new file under
    /// an old name counts as one. Sockets, hidden for their type alone, are left out.
    pub appeared: Vec<PathBuf>,
    /// Noted paths that have appeared since the previous answer, by their own names, even if the
    /// entry is a link. After a walk, all noted paths.
    pub noted: Vec<PathBuf>,
    /// A message for the user, reported once.
    pub warning: Option<String>,
}
