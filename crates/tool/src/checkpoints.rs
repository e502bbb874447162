//! Interface of the runtime for the tools that undo calls.

use std::path::PathBuf;
use std::time::SystemTime;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::ToolError;

/// Changes of one call that can be undone.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct CheckpointSummary {
    /// Id of the checkpoint.
    pub id: String,
    /// Tool that made the changes.
    pub tool: String,
    /// Time of the checkpoint.
    #[schemars(with = "String")]
    pub made_at: Timestamp,
    /// Number of changed paths.
    pub paths: u64,
    /// Number of bytes saved.
    pub bytes: u64,
    /// Id of the checkpoint that this call undid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undoes: Option<String>,
}

/// Request to undo a checkpoint.
#[derive(Debug, Clone, Default)]
pub struct UndoRequest {
    /// Id of the checkpoint, its beginning or its end.
    pub checkpoint: String,
    /// True to undo all later checkpoints as well, in one step.
    pub and_later: bool,
    /// Absolute paths to undo; empty for all paths of the checkpoint.
    pub paths: Vec<PathBuf>,
    /// Absolute paths that are overwritten although they changed after the checkpoint.
    pub force: Vec<PathBuf>,
}

/// Changes that are swapped in when the call has ended.
#[derive(Debug, Clone)]
pub struct UndoReport {
    /// Number of paths that change.
    pub paths: u64,
    /// Paths that stay or cannot be restored, with the reason, one line each.
    pub notes: Vec<String>,
    /// Time since which changes made by others are conflicts.
    pub taken_at: SystemTime,
}

/// Checkpoints of the workspace. A call that runs on a snapshot can undo one of them.
pub trait Checkpoints: Send + Sync {
    /// Lists the checkpoints, newest first.
    ///
    /// # Errors
    /// Returns an error if the checkpoints cannot be read.
    fn list(&self, limit: u32) -> Result<Vec<CheckpointSummary>, ToolError>;

    /// Returns the changes since the checkpoint, as a unified diff from the saved state to the
    /// current one.
    ///
    /// # Errors
    /// `ENOTFOUND` if no checkpoint has this id.
    fn diff(&self, checkpoint: &str, paths: &[PathBuf]) -> Result<String, ToolError>;

    /// Returns the changes that undoing would make, as a unified diff from the current state to the
    /// saved one. Stages no files.
    ///
    /// # Errors
    /// `ENOTFOUND` if no checkpoint has this id.
    fn preview(&self, request: &UndoRequest) -> Result<String, ToolError>;

    /// Stages the saved files, which are swapped in when the call has ended.
    ///
    /// # Errors
    /// `ENOTFOUND` if no checkpoint has this id, `ECONFLICT` if paths changed after the checkpoint.
    fn undo(&self, request: &UndoRequest) -> Result<UndoReport, ToolError>;
}
