//! Changes made by calls, path by path, so that they can be undone.

use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;

use crate::error::StoreError;
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

/// The checkpoints of a store.
///
/// A row exists before anything is changed, and records the progress of the change. A process that
/// finds an unfinished row of a dead process settles the change. The folder named in the row shows
/// whether its process lives. The state of a path is opaque bytes to the store.
///
/// Every method blocks, and returns an error if the state cannot be read or written.
pub trait Checkpoints: Send + Sync {
    /// Adds a checkpoint with all its entries, whose contents need the contents `needed` in turn.
    /// The id must be new.
    ///
    /// `entries` may be lazy, so that a change of many paths is never in memory twice.
    fn add(
        &self,
        checkpoint: &Checkpoint,
        entries: &mut dyn Iterator<Item = CheckpointEntry>,
        needed: &[Hash],
    ) -> Result<(), StoreError>;

    /// Marks the prepared change as done.
    fn complete(&self, id: &str) -> Result<(), StoreError>;

    /// Marks a direct change as done, and replaces the entries that it was saved with.
    fn complete_as(
        &self,
        id: &str,
        entries: &mut dyn Iterator<Item = CheckpointEntry>,
        paths: u64,
        unsaved: &[PathBuf],
    ) -> Result<(), StoreError>;

    /// Marks the change that was prepared in this folder as done.
    fn complete_folder(&self, folder: &str) -> Result<(), StoreError>;

    /// Adds an entry to an existing checkpoint, with its number of bytes and the further contents
    /// that it needs.
    fn extend(
        &self,
        id: &str,
        entry: &CheckpointEntry,
        needed: &[Hash],
        bytes: u64,
    ) -> Result<(), StoreError>;

    /// Removes the last added entry, because its change did not happen. The content stays as long as
    /// the checkpoint.
    fn retract(&self, id: &str, entry: &CheckpointEntry) -> Result<(), StoreError>;

    /// Removes a checkpoint whose change did not happen.
    fn remove(&self, id: &str) -> Result<(), StoreError>;

    /// Returns the checkpoint with this id, whatever its state.
    fn find(&self, id: &str) -> Result<Option<Checkpoint>, StoreError>;

    /// Returns the checkpoint of the change that went through this folder, whatever its state.
    fn of_folder(&self, folder: &str) -> Result<Option<Checkpoint>, StoreError>;

    /// Lists the changed paths, in the order in which they were added.
    fn entries(&self, id: &str) -> Result<Vec<CheckpointEntry>, StoreError>;

    /// Lists the first changed paths, at most `limit`, in the order in which they were added.
    fn first_entries(&self, id: &str, limit: u32) -> Result<Vec<CheckpointEntry>, StoreError>;

    /// Lists the entries whose `before` state equals `before`; callers mark their own entries this
    /// way.
    fn entries_marked(&self, id: &str, before: &[u8]) -> Result<Vec<CheckpointEntry>, StoreError>;

    /// Lists the finished checkpoints of a workspace, newest first, at most `limit`.
    fn list(&self, workspace: &Path, limit: u32) -> Result<Vec<Checkpoint>, StoreError>;

    /// Lists the finished checkpoints of a workspace whose id starts or ends with `part`, at most
    /// `limit`.
    fn with_part(&self, workspace: &Path, part: &str, limit: u32) -> Result<Vec<Checkpoint>, StoreError>;

    /// Lists the ids of the finished checkpoints of a workspace that have an entry at `path` or
    /// below it, relative to the workspace. An empty path matches all of them.
    fn at_or_below(&self, workspace: &Path, path: &Path) -> Result<Vec<String>, StoreError>;

    /// Lists the finished checkpoints of a workspace from this one on, oldest first.
    fn since(&self, workspace: &Path, first: &Checkpoint) -> Result<Vec<Checkpoint>, StoreError>;

    /// Returns the first finished checkpoint of a workspace that was made at or after `time`.
    fn first_since(&self, workspace: &Path, time: Timestamp) -> Result<Option<Checkpoint>, StoreError>;

    /// Returns the first finished checkpoint of a workspace whose call is `call` or a later one.
    fn first_since_call(&self, workspace: &Path, call: &str) -> Result<Option<Checkpoint>, StoreError>;

    /// Lists the unfinished checkpoints: their processes are at work, or were killed.
    fn unfinished(&self) -> Result<Vec<Checkpoint>, StoreError>;

    /// Removes the checkpoints beyond the limits of `retention`, and returns their number. Pruning
    /// of outputs removes their blobs.
    fn prune(&self, retention: &CheckpointRetention, now: Timestamp) -> Result<u64, StoreError>;
}
