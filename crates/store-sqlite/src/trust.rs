//! Files that the user trusts, each with its exact content at the time.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use rusqlite::OptionalExtension;
use store_api::{Hash, StoreError, Trust};

use crate::database::Database;

/// The trusted files of one store. Paths are compared byte for byte; the caller makes them absolute
/// and resolves their links first.
pub(crate) struct SqliteTrust {
    database: Arc<Database>,
}

impl Trust for SqliteTrust {
    fn trust(&self, path: &Path, hash: &Hash, at: Timestamp) -> Result<(), StoreError> {
        self.database.write(|transaction| {
            transaction.execute(
                "INSERT INTO trust (path, hash, trusted_at_us) VALUES (?, ?, ?)
                 ON CONFLICT (path) DO UPDATE SET hash = excluded.hash, trusted_at_us = excluded.trusted_at_us",
                (path.as_os_str().as_bytes(), hash.as_bytes(), at.as_microsecond()),
            )?;
            Ok(())
        })
    }

    fn trusted_hash(&self, path: &Path) -> Result<Option<Hash>, StoreError> {
        self.database.with(|connection| {
            let found: Option<Vec<u8>> = connection
                .query_row("SELECT hash FROM trust WHERE path = ?", [path.as_os_str().as_bytes()], |row| {
                    row.get(0)
                })
                .optional()
                .map_err(|error| self.database.error(error))?;
            Ok(found.and_then(|bytes| Hash::from_slice(&bytes)))
        })
    }

    fn distrust(&self, path: &Path) -> Result<bool, StoreError> {
        self.database.write(|transaction| {
            Ok(transaction.execute("DELETE FROM trust WHERE path = ?", [path.as_os_str().as_bytes()])? > 0)
        })
    }
}

impl SqliteTrust {
    pub(crate) fn new(database: Arc<Database>) -> Self {
        Self { database }
    }
}
