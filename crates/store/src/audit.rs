//! The audit log: one append-only table in which each row carries the hash of the row before.
//!
//! Decides nothing about what is recorded and redacts nothing: rows come in as they are to be kept.

mod chain;
mod encoding;
mod head;
mod queue;
mod read;
mod receipt;
mod recorded;
mod row;
mod verify;
mod writer;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::database::Database;
use crate::error::StoreError;
use crate::hash::Hash;

pub use read::Filter;
pub use receipt::Receipt;
pub use recorded::Recorded;
pub use row::{AuditRow, Kind, ROW_BYTES_MAX};
pub use verify::{Fault, HeadFileState, Verification};

/// What has to be true of a row before its receipt says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// It outlives a power loss: committed and flushed to disk.
    Flushed,
    /// It outlives the end of this process by any signal: committed.
    Committed,
    /// It is queued, and outlives any orderly end of this process. While more than about a thousand rows
    /// wait, or after a failed attempt to write, the receipt waits for the commit instead.
    Behind,
}

/// The log of one store.
pub struct Audit {
    database: Arc<Database>,
    head: PathBuf,
    writer: writer::Writer,
}

impl Audit {
    /// Adds a row. It is queued when this returns, whatever becomes of the receipt; rows of one process are
    /// written in the order in which they were added. Blocks at most for one commit without a flush, of the order of 0.1 ms,
    /// and never for another process.
    ///
    /// An error in the receipt means that the row is not recorded, or that `audit.head` could not follow
    /// it: do not act on it. Rows written behind that could not be written are kept and tried again with
    /// the next row and at [`Store::close`](crate::Store::close), which reports what is left.
    pub fn append(&self, row: AuditRow, durability: Durability) -> Receipt {
        let mut row = row;
        for text in row.texts() {
            self.database.cover(text);
        }
        self.writer.append(row, durability)
    }

    /// A page of rows, newest first. Rows that still wait behind are not seen. Blocks on the disk.
    pub fn list(&self, filter: &Filter) -> Result<Vec<Recorded>, StoreError> {
        read::list(&self.database, filter)
    }

    /// The rows of one call in order; none where there is no such call. Blocks on the disk.
    pub fn show(&self, call: &str) -> Result<Vec<Recorded>, StoreError> {
        read::show(&self.database, call)
    }

    /// Writes every row as JSON Lines, oldest first, and gives how many. Blocks on the disk and on `target`.
    pub fn export(&self, target: &mut dyn Write) -> Result<u64, StoreError> {
        read::export(&self.database, target)
    }

    /// Proves the chain, and that it holds `expect`, the hash of some row, where one is given. A fault is a
    /// finding, not an error. Blocks for about a second for every half million rows.
    pub fn verify(&self, expect: Option<Hash>) -> Result<Verification, StoreError> {
        verify::verify(&self.database, &self.head, expect)
    }

    pub(crate) fn new(database: Arc<Database>, head: PathBuf) -> Self {
        let writer = writer::Writer::new(Arc::clone(&database), head.clone());
        Self { database, head, writer }
    }

    pub(crate) fn create_head(path: &Path) -> Result<(), StoreError> {
        head::HeadFile::create(path)
    }

    pub(crate) fn close(&self) -> Result<(), StoreError> {
        self.writer.close()
    }
}

#[cfg(test)]
mod tests;
