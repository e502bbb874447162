//! Result of a walk over the audit log.

use serde::Serialize;

use crate::hash::Hash;

/// Result of a walk over the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verification {
    /// Number of verified rows: all of them, or those before the fault.
    pub rows: i64,
    /// Hash of the last verified row; keep it elsewhere for a later `expect`.
    pub head: Hash,
    /// State of the head file relative to the log; `None` if a fault was found first.
    pub head_file: Option<HeadFileState>,
    /// Number of the row with the expected hash.
    pub expected_at: Option<i64>,
    /// First fault.
    pub fault: Option<Fault>,
}

/// State of the head file relative to a log without fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum HeadFileState {
    /// The head file names the last row.
    Current,
    /// The log has further rows: a process was killed right after a commit, or is between a commit
    /// and the update of the file.
    Behind {
        /// Number of further rows.
        rows: i64,
    },
    /// The machine was restarted, and rows that were committed but not flushed are missing. A power
    /// loss causes this state; a cut of exactly those rows looks the same.
    UnflushedLost {
        /// Number of missing rows that the file names.
        rows: i64,
    },
}

/// First fault of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Fault {
    /// A row whose hash does not match its content.
    #[error("audit row {sequence} was changed: its hash is not that of its content")]
    ChangedRow {
        /// Number of the row.
        sequence: i64,
    },
    /// A row that does not follow its predecessor.
    #[error("audit row {sequence} does not follow row {}: one of them was replaced, moved or inserted", sequence - 1)]
    BrokenLink {
        /// Number of the later row of the two.
        sequence: i64,
    },
    /// A missing row number, although later ones exist.
    #[error("audit row {sequence} is missing although later rows are there")]
    MissingRow {
        /// Missing number.
        sequence: i64,
    },
    /// A log with fewer rows than the head file names.
    #[error(
        "the log ends at row {rows} although audit.head names row {recorded}: the last rows were removed"
    )]
    CutTail {
        /// Number of the last row in the log.
        rows: i64,
        /// Number of the row that the head file names.
        recorded: i64,
    },
    /// A log with other rows than the head file names.
    #[error("audit row {sequence} has another hash than audit.head names: the log was rewritten")]
    Rewritten {
        /// Number of the row that the head file names.
        sequence: i64,
    },
    /// A log without a head file.
    #[error("the file audit.head is missing, which would show whether the last rows were removed")]
    HeadFileMissing,
    /// A head file with damage that an interrupted write cannot cause.
    #[error("the file audit.head is damaged, which would show whether the last rows were removed")]
    HeadFileBroken,
    /// An expected hash that belongs to no row.
    #[error("no audit row has the expected hash {hash}: the log was cut before it or rewritten")]
    ExpectedAbsent {
        /// Expected hash.
        hash: Hash,
    },
}
