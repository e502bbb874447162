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

use store_api::{
    AuditLog, AuditRow, Durability, Filter, Hash, Receipt, RecordedRow, StoreError, Verification,
};

use crate::database::Database;

/// The audit log of one store.
pub(crate) struct SqliteAudit {
    database: Arc<Database>,
    head: PathBuf,
    writer: writer::Writer,
}

impl AuditLog for SqliteAudit {
    fn append(&self, row: AuditRow, durability: Durability) -> Receipt {
        let mut row = row;
        for text in row.texts() {
            self.database.cover(text);
        }
        self.writer.append(row, durability)
    }

    fn list(&self, filter: &Filter) -> Result<Vec<RecordedRow>, StoreError> {
        read::list(&self.database, filter)
    }

    fn show(&self, call: &str) -> Result<Vec<RecordedRow>, StoreError> {
        read::show(&self.database, call)
    }

    fn calls_with_part(&self, part: &str, limit: u32) -> Result<Vec<String>, StoreError> {
        read::calls_with_part(&self.database, part, limit)
    }

    fn export(&self, target: &mut dyn Write) -> Result<u64, StoreError> {
        read::export(&self.database, target)
    }

    fn verify(&self, expect: Option<Hash>) -> Result<Verification, StoreError> {
        verify::verify(&self.database, &self.head, expect)
    }
}

impl SqliteAudit {
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
