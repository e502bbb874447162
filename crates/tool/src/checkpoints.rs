//! What the tools about undo need of the runtime.

use std::path::PathBuf;
use std::time::SystemTime;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::ToolError;

/// One call's changes that can be undone.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct CheckpointSummary {
    /// Its id.
    pub id: String,
    /// The tool.
    pub tool: String,
    /// When.
    #[schemars(with = "String")]
    pub made_at: Timestamp,
    /// Changed.
    pub paths: u64,
    /// Bytes that were saved.
    pub bytes: u64,
    /// What it undid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undoes: Option<String>,
}

/// What is to be undone.
#[derive(Debug, Clone, Default)]
pub struct UndoRequest {
    /// The checkpoint, or the first part of its id.
    pub checkpoint: String,
    /// Everything that was done since then as well, as one.
    pub and_later: bool,
    /// Only these paths, absolute; all of it where this is empty.
    pub paths: Vec<PathBuf>,
    /// Paths, absolute, that are overwritten although they were changed since.
    pub force: Vec<PathBuf>,
}

/// What will be undone once the call has ended.
#[derive(Debug, Clone)]
pub struct UndoReport {
    /// How many paths change.
    pub paths: u64,
    /// What stays or does not come back, one line each.
    pub notes: Vec<String>,
    /// Since when changes of others are conflicts.
    pub taken_at: SystemTime,
}

/// The checkpoints of the workspace. A call that runs on a snapshot can undo one of them.
pub trait Checkpoints: Send + Sync {
    /// The newest first.
    ///
    /// # Errors
    /// Where they cannot be read.
    fn list(&self, limit: u32) -> Result<Vec<CheckpointSummary>, ToolError>;

    /// What changed, as a unified diff from then to now.
    ///
    /// # Errors
    /// `ENOTFOUND` where there is no such checkpoint.
    fn diff(&self, checkpoint: &str, paths: &[PathBuf]) -> Result<String, ToolError>;

    /// What undoing it would change, as a unified diff from now to then. Lays nothing out.
    ///
    /// # Errors
    /// `ENOTFOUND` where there is no such checkpoint.
    fn preview(&self, request: &UndoRequest) -> Result<String, ToolError>;

    /// Lays out what undoes it, to be swapped in when the call has ended.
    ///
    /// # Errors
    /// `ENOTFOUND` where there is no such checkpoint, `ECONFLICT` where paths were changed since.
    fn undo(&self, request: &UndoRequest) -> Result<UndoReport, ToolError>;
}
