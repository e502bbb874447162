use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::attributes::{Attributes, Marks};
use crate::hidden::Copied;
use crate::{Entry, Kind};

/// What an overlay's upper folder says, compared with the workspace as it is now.
#[derive(Debug, Default)]
pub struct Changes {
    /// What would change. A folder that stays comes behind what lies in it.
    pub list: Vec<Change>,
    /// What does not come out as the command left it.
    pub notes: Vec<Note>,
    /// What others did meanwhile to the same entries. While there is one, nothing is committed.
    pub conflicts: Vec<Conflict>,
    /// What the judge did not allow. While there is one, nothing is committed.
    pub held: Vec<Held>,
    /// Folders that tools make again, and what else a commit took away without saving it, where it saved anything.
    pub unsaved: Vec<PathBuf>,
    /// Folders that tools make again, relative to the workspace.
    pub(crate) regenerable: BTreeSet<PathBuf>,
    /// What is left out, because it copies the placeholders of hidden files.
    pub(crate) copied: Vec<Copied>,
    /// What carries marks of the overlay, in the folders that come as a whole: they are taken off after the swap.
    pub(crate) marked: Vec<(PathBuf, Kind, Marks)>,
}

impl Changes {
    /// Where something new comes; of a folder, with all that is in it.
    pub fn coming(&self) -> impl Iterator<Item = &Path> {
        let comes = |change: &&Change| matches!(change.what, What::Create | What::Replace);
        self.list.iter().filter(comes).map(|change| change.path.as_path())
    }
}

/// One step of a commit.
#[derive(Debug, Clone)]
pub struct Change {
    /// Where, relative to the workspace; empty for the workspace itself.
    pub path: PathBuf,
    /// What happens there.
    pub what: What,
    /// What is there now.
    pub old: Option<Entry>,
    /// What will be there.
    pub new: Option<Entry>,
    /// Set in a folder that tools make again: there the last writer wins, and nothing is saved.
    pub regenerable: bool,
    pub(crate) marks: Marks,
    /// Of a folder that stays: its attributes before and after, where they differ.
    pub(crate) attributes: Option<(Attributes, Attributes)>,
    /// Of a folder that stays: whether it gets the modification time of `new`. Not where others changed it meanwhile.
    pub(crate) sets_time: bool,
}

/// What a step of a commit does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum What {
    /// Something is put where nothing is; of a folder, all that is in it.
    Create,
    /// Something is put in the place of something else, which goes; of folders, with all that is in them.
    Replace,
    /// Something goes; of a folder, with all that is in it.
    Remove,
    /// A folder stays and gets another mode, owner, attributes or times.
    Attributes,
    /// A folder stays, and gets the modification time that the changes in it gave it.
    Times,
}

impl What {
    /// Whether something comes or goes, or both.
    pub(crate) fn moves(self) -> bool {
        matches!(self, Self::Create | Self::Replace | Self::Remove)
    }
}

/// Something that a commit cannot do as the command did it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// The file had other names (hard links). They keep its old content.
    LinkBroken {
        /// The name under which it changed.
        path: PathBuf,
    },
    /// A socket or device was left behind, and is dropped.
    Dropped {
        /// Where it lay.
        path: PathBuf,
        /// Which of them.
        kind: Kind,
    },
    /// The bits that let a program run as its owner or group were taken off.
    SetIdRemoved {
        /// The file.
        path: PathBuf,
    },
    /// The command refreshed nothing but stat data in git's index while others changed it: theirs stays.
    IndexKept {
        /// The index.
        path: PathBuf,
    },
    /// Files that were hidden from the command are removed.
    HiddenRemoved {
        /// Which.
        paths: Vec<PathBuf>,
    },
    /// Copies of what the command saw in the place of hidden files, which are left out.
    HiddenCopied {
        /// Where they lay.
        paths: Vec<PathBuf>,
    },
}

/// An entry that both the command and somebody else changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// Where, relative to the workspace. It may lie below a folder that the command removed.
    pub path: PathBuf,
    /// What somebody else did.
    pub meanwhile: Meanwhile,
}

/// What somebody else did to an entry since the command started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Meanwhile {
    /// It was changed, replaced or made.
    Changed,
    /// It was removed or moved away.
    Removed,
    /// It was changed while the commit was under way, and the commit was taken back.
    ChangedDuringCommit,
}

impl std::fmt::Display for Conflict {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let path = self.path.display();
        match self.meanwhile {
            Meanwhile::Changed => write!(formatter, "{path} was changed meanwhile"),
            Meanwhile::Removed => write!(formatter, "{path} was removed meanwhile"),
            Meanwhile::ChangedDuringCommit => write!(formatter, "{path} was changed during the commit"),
        }
    }
}

/// Something that the judge did not allow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// Where, relative to the workspace.
    pub path: PathBuf,
    /// What would have happened.
    pub action: crate::Action,
    /// Whether somebody may approve it. Otherwise it is denied.
    pub may_be_approved: bool,
    /// The judge's reason.
    pub reason: String,
}

/// How many changes are handled at once; a folder that comes or goes as a whole is one. Each takes some 300 bytes.
pub const MOST_CHANGES: usize = 1_000_000;
