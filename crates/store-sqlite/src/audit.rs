//! The audit log: one append-only table in which each row contains the hash of the row before.
//!
//! This module does not decide which rows are recorded, and redacts nothing: callers pass finished
//! rows.

mod chain;
mod encoding;
mod head;
mod queue;
mod read;
mod recorded;
mod verify;
mod writer;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use store_api::{AuditRow, Durability, Filter, Hash, Receipt, RecordedRow, StoreError, Verification};

use crate::database::Database;

/// The audit log of one store.
pub struct Audit {
    database: Arc<Database>,
    head: PathBuf,
    writer: writer::Writer,
}

impl Audit {
    /// Adds a row. The row is queued when this method returns, whatever happens to the receipt; rows
    /// of one process are written in the order of the calls. Blocks for at most one commit without a
    /// flush, about 0.1 ms, and never for another process.
    ///
    /// An error in the receipt means that the row is not recorded, or that `audit.head` could not be
    /// updated: do not perform the call. Rows written behind that could not be written stay queued.
    /// The writer retries them with the next row and at [`Store::close`](crate::Store::close), which
    /// reports the rest.
    pub fn append(&self, row: AuditRow, durability: Durability) -> Receipt {
        let mut row = row;
        for text in row.texts() {
            self.database.cover(text);
        }
        self.writer.append(row, durability)
    }

    /// Returns a page of rows, newest first. Rows that are still queued are not included. Blocks on
    /// the disk.
    pub fn list(&self, filter: &Filter) -> Result<Vec<RecordedRow>, StoreError> {
        read::list(&self.database, filter)
    }

    /// Returns the rows of one call in order, or an empty list for an unknown call. Blocks on the
    /// disk.
    pub fn show(&self, call: &str) -> Result<Vec<RecordedRow>, StoreError> {
        read::show(&self.database, call)
    }

    /// Writes every row as JSON Lines, oldest first, and returns the number of rows. Blocks on the
    /// disk and on `target`.
    pub fn export(&self, target: &mut dyn Write) -> Result<u64, StoreError> {
        read::export(&self.database, target)
    }

    /// Verifies the chain, and checks that it contains the row hash `expect`, if given. A fault is a
    /// finding, not an error. Blocks for about one second per half million rows.
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
