//! The audit log: one append-only list of rows in which each row contains the hash of the row before.

mod receipt;
mod recorded;
mod row;
mod verification;

use std::io::Write;

use jiff::Timestamp;

use crate::error::StoreError;
use crate::hash::Hash;

pub use receipt::{Receipt, Sender};
pub use recorded::RecordedRow;
pub use row::{AuditRow, Kind, ROW_BYTES_MAX};
pub use verification::{Fault, HeadFileState, Verification};

/// Condition that an audit row must meet before its receipt resolves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The row survives a power loss: committed and flushed to disk.
    Flushed,
    /// The row survives the end of this process by any signal: committed.
    Committed,
    /// The row is queued, and survives any orderly end of this process. While more than about a
    /// thousand rows wait, or after a failed write, the receipt waits for the commit instead.
    Behind,
}

/// Conditions on the rows of a page. All of them must hold.
#[derive(Clone, Debug)]
pub struct Filter {
    /// Session of the rows.
    pub session: Option<String>,
    /// Workspace of the rows, as their plans name it. Rows whose plans name none match as well.
    pub workspace: Option<String>,
    /// Canonical tool name of the rows.
    pub tool: Option<String>,
    /// Earliest time of the rows.
    pub since: Option<Timestamp>,
    /// Upper bound, exclusive, of the times of the rows.
    pub until: Option<Timestamp>,
    /// Texts that all occur in the rows: in the plan, the tool's name, the rule or the outcome.
    /// ASCII letters match in either case.
    pub containing: Vec<String>,
    /// Upper bound, exclusive, of the row numbers: the last number of one page starts the next page.
    pub before: Option<i64>,
    /// Maximum number of rows; 50 by default.
    pub limit: u32,
}

impl Default for Filter {
    fn default() -> Self {
        Self {
            session: None,
            workspace: None,
            tool: None,
            since: None,
            until: None,
            containing: Vec::new(),
            before: None,
            limit: 50,
        }
    }
}

/// The audit log of a store.
pub trait AuditLog: Send + Sync {
    /// Adds a row. The row is queued when this method returns, whatever happens to the receipt; rows
    /// of one process are written in the order of the calls. Blocks for at most one commit without a
    /// flush, about 0.1 ms, and never for another process.
    ///
    /// An error in the receipt means that the row is not recorded completely: do not perform the
    /// call. Rows written behind that could not be written stay queued. The store retries them with
    /// the next row and at [`Store::close`](crate::Store::close), which reports the rest.
    fn append(&self, row: AuditRow, durability: Durability) -> Receipt;

    /// Returns a page of rows, newest first. Rows that are still queued are not included. Blocks.
    ///
    /// # Errors
    /// Returns an error if the log cannot be read.
    fn list(&self, filter: &Filter) -> Result<Vec<RecordedRow>, StoreError>;

    /// Returns the rows of one call in order, or an empty list for an unknown call. Blocks.
    ///
    /// # Errors
    /// Returns an error if the log cannot be read.
    fn show(&self, call: &str) -> Result<Vec<RecordedRow>, StoreError>;

    /// Lists the ids of calls that start or end with `part`, at most `limit`. Blocks.
    ///
    /// # Errors
    /// Returns an error if the log cannot be read.
    fn calls_with_part(&self, part: &str, limit: u32) -> Result<Vec<String>, StoreError>;

    /// Writes every row as JSON Lines, oldest first, and returns the number of rows. Blocks.
    ///
    /// # Errors
    /// Returns an error if the log cannot be read, or `target` cannot be written.
    fn export(&self, target: &mut dyn Write) -> Result<u64, StoreError>;

    /// Verifies the chain, and checks that it contains the row hash `expect`, if given. A fault is a
    /// finding, not an error. Blocks for about one second per half million rows.
    ///
    /// # Errors
    /// Returns an error if the log cannot be read.
    fn verify(&self, expect: Option<Hash>) -> Result<Verification, StoreError>;
}
