//! Changes made by calls, path by path, so that they can be undone.

use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;

use crate::hash::Hash;

/// Changes of one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Id of the call.
    pub id: String,
    /// Session of the call.
    pub session: Option<String>,
    /// Name of the tool.
    pub tool: String,
    /// Folder that the paths are relative to.
    pub workspace: PathBuf,
    /// Time by the caller's clock, in whole microseconds.
    pub made_at: Timestamp,
    /// Name of the folder that contains the changes of the call.
    pub folder: String,
    /// Progress of the change.
    pub state: CheckpointState,
    /// First and last checkpoint that this one undid.
    pub undoes: Option<String>,
    /// Number of changed paths.
    pub paths: u64,
    /// Number of bytes of the saved files.
    pub bytes: u64,
    /// Paths that were not saved, relative to the workspace.
    pub unsaved: Vec<PathBuf>,
    /// Paths below which a direct change may change anything.
    pub roots: Vec<PathBuf>,
}

/// Progress of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointState {
    /// Everything is saved, and an all-or-nothing commit follows.
    Prepared,
    /// Everything is saved, and a tool is changing the workspace directly.
    Direct,
    /// The change has happened.
    Done,
}

/// One path of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointEntry {
    /// Path relative to the workspace.
    pub path: PathBuf,
    /// State of the path before the change.
    pub before: Option<Vec<u8>>,
    /// State of the path after the change.
    pub after: Option<Vec<u8>>,
    /// Hash of the blob with the file's bytes before the change.
    pub content: Option<Hash>,
}

/// Limits for finished checkpoints. Pruning removes those older than `max_age`. The oldest go until
/// the remaining ones have saved at most `max_bytes` in all. The `keep_newest` newest of each
/// workspace always stay.
#[derive(Clone, Copy, Debug)]
pub struct CheckpointRetention {
    /// Maximum number of bytes of all saved files; shared blobs count once per checkpoint.
    pub max_bytes: u64,
    /// Age at which a checkpoint is removed.
    pub max_age: Duration,
    /// Number of the newest checkpoints of each workspace that stay whatever their size and age.
    pub keep_newest: u32,
}
