//! Extends the chain on one connection, whichever process wrote the previous row.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, ToSql, params_from_iter, types::ToSqlOutput};
use store_api::{AuditRow, Hash, StoreError};

use crate::audit::encoding::{COLUMNS, digest, values};
use crate::audit::head::{CommitDurability, HeadFile, Point};
use crate::database::Database;

const BEGIN: &str = "BEGIN IMMEDIATE";
const COMMIT: &str = "COMMIT";
const TAIL: &str = "SELECT sequence, hash FROM audit ORDER BY sequence DESC LIMIT 1";
const AT: &str = "SELECT hash FROM audit WHERE sequence = ?";

/// A connection that adds rows. Its statements are prepared once.
pub(crate) struct Chain {
    database: Arc<Database>,
    connection: Connection,
    insert: String,
    full: CommitDurability,
}

impl Chain {
    /// Opens a connection that waits while another process writes.
    pub(crate) fn open(database: &Arc<Database>) -> Result<Self, StoreError> {
        let marks = vec!["?"; COLUMNS.len() + 2].join(", ");
        let insert = format!("INSERT INTO audit ({}, previous, hash) VALUES ({marks})", COLUMNS.join(", "));
        let connection = database.connect()?;
        Ok(Self { database: Arc::clone(database), connection, insert, full: CommitDurability::No })
    }

    /// Opens a connection that fails instead of waiting for another process or for the disk. The
    /// connection never runs a WAL checkpoint; other connections must do that.
    pub(crate) fn open_without_waiting(database: &Arc<Database>) -> Result<Self, StoreError> {
        let chain = Self::open(database)?;
        chain
            .connection
            .busy_timeout(std::time::Duration::ZERO)
            .and_then(|()| {
                chain.connection.pragma_update_and_check(None, "wal_autocheckpoint", 0, |_| Ok(()))
            })
            .map_err(|error| database.error(error))?;
        Ok(chain)
    }

    /// Appends the rows after the last one in the log, and commits.
    pub(crate) fn extend<'r>(
        &mut self,
        rows: impl IntoIterator<Item = &'r AuditRow>,
        flushed: CommitDurability,
    ) -> Result<Point, StoreError> {
        let point = self.begin(flushed).and_then(|()| {
            // A process that migrated the database meanwhile has changed the meaning of a row.
            self.database.is_known(&self.connection)?;
            self.add(rows).map_err(|error| self.database.error(error))
        });
        if point.is_err() && !self.connection.is_autocommit() {
            // If the rollback fails too, the caller closes the connection, which rolls back as well.
            let _ = self.connection.execute_batch("ROLLBACK");
        }
        point
    }

    fn begin(&mut self, flushed: CommitDurability) -> Result<(), StoreError> {
        let outward = |error| self.database.error(error);
        if self.full != flushed {
            let level = if flushed == CommitDurability::Yes { "FULL" } else { "NORMAL" };
            self.connection.pragma_update(None, "synchronous", level).map_err(outward)?;
            self.full = flushed;
        }
        let begun = self.connection.prepare_cached(BEGIN).and_then(|mut begin| begin.raw_execute());
        begun.map(drop).map_err(outward)
    }

    fn add<'r>(&self, rows: impl IntoIterator<Item = &'r AuditRow>) -> rusqlite::Result<Point> {
        let tail = self
            .connection
            .prepare_cached(TAIL)?
            .query_row([], |row| Ok(Point { rows: row.get(0)?, hash: hash(row, 1)? }))
            .optional()?;
        let mut point = tail.unwrap_or(Point::START);
        let mut insert = self.connection.prepare_cached(&self.insert)?;
        for row in rows {
            let previous = point.hash;
            let sequence = point.rows + 1;
            let values = values(row, sequence);
            point = Point { rows: sequence, hash: digest(&previous, values) };
            let values = values.map(ToSqlOutput::Borrowed);
            let hashes = [&previous.as_bytes()[..], &point.hash.as_bytes()[..]];
            let columns = values.iter().map(|value| value as &dyn ToSql);
            insert.execute(params_from_iter(columns.chain(hashes.iter().map(|hash| hash as &dyn ToSql))))?;
        }
        self.connection.prepare_cached(COMMIT)?.raw_execute()?;
        Ok(point)
    }

    /// Returns true if the log contains this row with this hash.
    pub(crate) fn holds(&self, point: Point) -> Result<bool, StoreError> {
        if point.rows == 0 {
            return Ok(point == Point::START);
        }
        let found = self
            .connection
            .prepare_cached(AT)
            .and_then(|mut at| at.query_row([point.rows], |row| hash(row, 0)).optional());
        Ok(found.map_err(|error| self.database.error(error))? == Some(point.hash))
    }

    /// Makes every committed row survive a power loss, as far as other processes do not prevent it,
    /// and records that in the head file.
    pub(crate) fn finish(&self, head: &HeadFile) -> Result<(), StoreError> {
        let Some(said) = head.read()? else { return Ok(()) };
        if said.committed.rows <= said.flushed.rows {
            return head.flush();
        }
        let complete = self
            .connection
            .query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| {
                let (busy, in_log, moved): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
                Ok(busy == 0 && in_log == moved)
            })
            .map_err(|error| self.database.error(error))?;
        if complete {
            head.turn()?.advance(said.committed, CommitDurability::Yes, |point| self.holds(point))?;
        }
        head.flush()
    }
}

fn hash(row: &rusqlite::Row<'_>, index: usize) -> rusqlite::Result<Hash> {
    let value = row.get_ref(index)?;
    // A hash of another length matches no row: verification finds the break there.
    Ok(value.as_blob().ok().and_then(Hash::from_slice).unwrap_or(Hash::GENESIS))
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use store_api::Kind;

    use super::*;

    #[test]
    fn a_flushed_commit_is_made_under_full_synchronisation_and_others_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let database =
            Arc::new(Database::open(folder.path(), crate::database::Access::Write, || Ok(())).unwrap());
        let mut chain = Chain::open(&database).unwrap();
        let row = AuditRow::new(Kind::Call, Timestamp::UNIX_EPOCH, "1", "cli", "handfast", "file_read");
        let asked = |chain: &Chain, what: &str| -> i64 {
            chain.connection.query_row(&format!("PRAGMA {what}"), [], |row| row.get(0)).unwrap()
        };
        // SQLite's values: 1 is NORMAL, which flushes no commit; 2 is FULL, which flushes each.
        for (flushed, expected) in
            [(CommitDurability::No, 1), (CommitDurability::Yes, 2), (CommitDurability::No, 1)]
        {
            chain.extend([&row], flushed).unwrap();
            assert_eq!(asked(&chain, "synchronous"), expected);
        }
        let mode: String = chain.connection.query_row("PRAGMA journal_mode", [], |row| row.get(0)).unwrap();
        assert_eq!(mode, "wal");
        assert_ne!(asked(&chain, "wal_autocheckpoint"), 0);
        assert_eq!(asked(&Chain::open_without_waiting(&database).unwrap(), "wal_autocheckpoint"), 0);
    }
}
