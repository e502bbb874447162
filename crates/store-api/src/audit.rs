//! The audit log: one append-only list of rows in which each row contains the hash of the row before.

mod receipt;
mod recorded;
mod row;
mod verification;

use jiff::Timestamp;

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
    /// Canonical tool name of the rows.
    pub tool: Option<String>,
    /// Earliest time of the rows.
    pub since: Option<Timestamp>,
    /// Upper bound, exclusive, of the row numbers: the last number of one page starts the next page.
    pub before: Option<i64>,
    /// Maximum number of rows; 50 by default.
    pub limit: u32,
}

impl Default for Filter {
    fn default() -> Self {
        Self { session: None, tool: None, since: None, before: None, limit: 50 }
    }
}
