//! The changes of a call, and the obstacles to their commit.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::attributes::{Attributes, Marks};
use crate::hidden::CopiedFile;
use crate::{Entry, Kind};

/// Changes in an overlay's upper folder, compared with the current workspace.
#[derive(Debug, Default)]
pub struct Changes {
    /// Steps of the commit. A folder that stays comes after its entries.
    pub list: Vec<Change>,
    /// Differences between the commit and the command's own result.
    pub notes: Vec<Note>,
    /// Concurrent changes of others to the same entries. Any conflict prevents the commit.
    pub conflicts: Vec<Conflict>,
    /// Changes that the judge did not allow. Any entry here prevents the commit.
    pub held: Vec<RefusedChange>,
    /// Regenerable folders, and other entries that a commit with saving removed without saving them.
    pub unsaved: Vec<PathBuf>,
    /// Regenerable folders, relative to the workspace.
    pub(crate) regenerable: BTreeSet<PathBuf>,
    /// Files that are left out because they copy the placeholders of hidden files.
    pub(crate) copied: Vec<CopiedFile>,
    /// Entries with overlay marks in folders that come as a whole; the marks are removed after the
    /// swap.
    pub(crate) marked: Vec<(PathBuf, Kind, Marks)>,
}

impl Changes {
    /// Iterates over the paths of new entries; a folder stands for all its contents.
    pub fn coming(&self) -> impl Iterator<Item = &Path> {
        let comes = |change: &&Change| matches!(change.what, StepKind::Create | StepKind::Replace);
        self.list.iter().filter(comes).map(|change| change.path.as_path())
    }
}

/// One step of a commit.
#[derive(Debug, Clone)]
pub struct Change {
    /// Path relative to the workspace; empty for the workspace itself.
    pub path: PathBuf,
    /// Kind of the step.
    pub what: StepKind,
    /// Entry before the step.
    pub old: Option<Entry>,
    /// Entry after the step.
    pub new: Option<Entry>,
    /// True in a regenerable folder: there the last writer wins, and nothing is saved.
    pub regenerable: bool,
    pub(crate) marks: Marks,
    /// Attributes before and after, if they differ, for a folder that stays.
    pub(crate) attributes: Option<(Attributes, Attributes)>,
    /// True if a folder that stays gets the modification time of `new`. False if others changed the
    /// folder meanwhile.
    pub(crate) sets_time: bool,
}

/// Kind of step of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StepKind {
    /// Creates an entry at a free path; a folder comes with all its contents.
    Create,
    /// Replaces an entry by another one; folders come and go with all their contents.
    Replace,
    /// Removes an entry; a folder goes with all its contents.
    Remove,
    /// Changes the mode, owner, attributes or times of a folder that stays.
    Attributes,
    /// Sets a folder's modification time to that of the changes in it.
    Times,
}

impl StepKind {
    /// Returns true if an entry comes or goes, or both.
    pub(crate) fn moves(self) -> bool {
        matches!(self, Self::Create | Self::Replace | Self::Remove)
    }
}

/// A change that a commit cannot reproduce as the command made it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// The file had other names (hard links), which keep the old content.
    LinkBroken {
        /// Name under which the file changed.
        path: PathBuf,
    },
    /// A socket or device is dropped.
    Dropped {
        /// Path of the entry.
        path: PathBuf,
        /// Kind of the entry.
        kind: Kind,
    },
    /// The bits that run a program as its owner or group were removed.
    SetIdRemoved {
        /// Path of the file.
        path: PathBuf,
    },
    /// The command only refreshed stat data in git's index while others changed the index: their
    /// version stays.
    IndexKept {
        /// Path of the index.
        path: PathBuf,
    },
    /// Files that were hidden from the command are removed.
    HiddenRemoved {
        /// Paths of the hidden files.
        paths: Vec<PathBuf>,
    },
    /// Copies of placeholders of hidden files are left out.
    HiddenCopied {
        /// Paths of the copies.
        paths: Vec<PathBuf>,
    },
}

/// An entry that both the command and somebody else changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// Path relative to the workspace, possibly below a folder that the command removed.
    pub path: PathBuf,
    /// Change by somebody else.
    pub meanwhile: LaterChange,
}

/// Change to an entry by somebody else after the command started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LaterChange {
    /// The entry was changed, replaced or created.
    Changed,
    /// The entry was removed or moved away.
    Removed,
    /// The entry was changed during the commit, and the commit was undone.
    ChangedDuringCommit,
}

impl std::fmt::Display for Conflict {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let path = self.path.display();
        match self.meanwhile {
            LaterChange::Changed => write!(formatter, "{path} was changed meanwhile"),
            LaterChange::Removed => write!(formatter, "{path} was removed meanwhile"),
            LaterChange::ChangedDuringCommit => write!(formatter, "{path} was changed during the commit"),
        }
    }
}

/// A change that the judge did not allow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedChange {
    /// Path relative to the workspace.
    pub path: PathBuf,
    /// Action that the judge did not allow.
    pub action: crate::Action,
    /// True if somebody may approve the change. Otherwise it is denied.
    pub may_be_approved: bool,
    /// Reason given by the judge.
    pub reason: String,
}

/// Maximum number of changes in one commit; a folder that comes or goes as a whole counts once. Each
/// takes about 300 bytes.
pub const MAX_CHANGES: usize = 1_000_000;
