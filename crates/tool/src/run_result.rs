//! The result of a run: the tool's output, and the facts that the layers after the run need.

use std::fs::File;
use std::time::SystemTime;

use schemars::JsonSchema;
use serde::Serialize;

use crate::ToolError;

/// Result of a run. A run that has data and no further facts is made of its output by `from`.
#[derive(Debug)]
pub struct RunResult<T> {
    /// Output of the tool, or the error that the call ends with. The other fields count in both
    /// cases.
    pub output: Result<T, ToolError>,
    /// Limits that the cell of the call enforced, for `meta.sandbox` and the audit. `None` if the
    /// call used no cell.
    pub sandbox: Option<Vec<String>>,
    /// Use of the snapshot, if the run changed files there. Every process that could change the
    /// snapshot has ended. With `None`, the engine commits nothing.
    pub snapshot: Option<SnapshotUse>,
    /// Full texts of fields that the output holds in a shortened form.
    pub full_outputs: Vec<FullOutput>,
    /// Hosts that a command could not reach, or an empty list for an unnamed host. `None` if the
    /// command missed no host.
    pub missed_hosts: Option<Vec<String>>,
}

/// Record of a run on a snapshot of the workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotUse {
    /// Time of the snapshot by the clock of the file system. Changes that others made at this time
    /// or later are not in it.
    pub taken_at: SystemTime,
    /// True if the run could change files in its snapshot alone.
    pub nothing_else: bool,
    /// Treatment of the changes in the snapshot.
    pub changes: ChangeTreatment,
}

impl SnapshotUse {
    /// Returns the record of a draft that began at this time and is to be committed.
    pub fn draft(begun: SystemTime) -> Self {
        Self { taken_at: begun, nothing_else: true, changes: ChangeTreatment::Commit }
    }
}

/// Treatment of the changes in a snapshot after the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeTreatment {
    /// The changes are committed to the workspace, all or none.
    Commit,
    /// The changes are discarded.
    Discard,
    /// The changes are kept aside without a commit, and their diff becomes the field `diff` of the
    /// output.
    Show,
}

/// Full text of a shortened output field, stored in a file because it did not fit into memory.
#[derive(Debug)]
pub struct FullOutput {
    /// Field of the output that holds the shortened text.
    pub field: &'static str,
    /// File with the full text, positioned at its start.
    pub file: File,
    /// Number of bytes that were produced; larger than the file if the disk limit was reached.
    pub bytes: u64,
    /// Number of lines that were produced. A last line without a newline counts.
    pub lines: u64,
    /// Number of bytes in the file.
    pub kept_bytes: u64,
}

impl<T> RunResult<T> {
    /// Adds the use of the snapshot.
    #[must_use]
    pub fn on_snapshot(self, used: SnapshotUse) -> Self {
        Self { snapshot: Some(used), ..self }
    }

    /// Converts the output, and keeps the facts about the run.
    pub fn and_then<U>(self, convert: impl FnOnce(T) -> Result<U, ToolError>) -> RunResult<U> {
        let Self { output, sandbox, snapshot, full_outputs, missed_hosts } = self;
        RunResult { output: output.and_then(convert), sandbox, snapshot, full_outputs, missed_hosts }
    }
}

impl<T> From<Result<T, ToolError>> for RunResult<T> {
    fn from(output: Result<T, ToolError>) -> Self {
        Self { output, sandbox: None, snapshot: None, full_outputs: Vec::new(), missed_hosts: None }
    }
}

impl<T> From<T> for RunResult<T> {
    fn from(output: T) -> Self {
        Ok(output).into()
    }
}

/// Output of a tool: the data itself, or a [`RunResult`] with further facts about the run.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no output of a tool",
    note = "an output is a type with `serde::Serialize` and `schemars::JsonSchema`"
)]
pub trait ToolOutput {
    /// Data of the response.
    type Data: Serialize + JsonSchema;

    /// Returns the result of a run with this output.
    fn into_result(self) -> RunResult<Self::Data>;
}

impl<T: Serialize + JsonSchema> ToolOutput for T {
    type Data = T;

    fn into_result(self) -> RunResult<T> {
        self.into()
    }
}

impl<T: Serialize + JsonSchema> ToolOutput for RunResult<T> {
    type Data = T;

    fn into_result(self) -> Self {
        self
    }
}
