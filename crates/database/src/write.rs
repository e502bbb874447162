//! Changes: one statement in one transaction, whose undo record is stored before the commit.

use std::path::Path;

use rusqlite::Connection;

use crate::action::{Phase, Statement};
use crate::change::TableRows;
use crate::full_copy::{LARGEST_SAVED, differing, digest, schema, size};
use crate::memory::{Counts, LimitedConnection};
use crate::open::{StopCheck, Writer};
use crate::read::refused;
use crate::row_tracking::{ForeignKeyActions, TrackedTable};
use crate::{Bounds, Change, Database, DatabaseError, Page, Value};

/// Reason why an undo record could not be stored.
pub type KeepError = Box<dyn std::error::Error + Send + Sync>;

/// A store of undo records. [`Keep::keep`] is called first, then one of the other two methods. If
/// the process is killed in between, neither is called.
pub trait Keep: Send + Sync {
    /// Stores the record. The change follows, completely or not at all.
    fn keep(&self, database: &Path, change: &Change) -> Result<(), KeepError>;
    /// Reports that the change was committed.
    fn happened(&self);
    /// Reports that the change was not committed.
    fn forget(&self);
}

/// Result of a changing statement.
#[derive(Debug, Clone, PartialEq)]
pub struct WriteOutcome {
    /// Number of rows that the statement itself inserted, changed or deleted, without those of
    /// triggers and foreign keys.
    pub affected: u64,
    /// `rowid` of the last inserted row.
    pub last_insert_id: Option<i64>,
    /// Rows of the `RETURNING` clause.
    pub returned: Page,
    /// Reason why the change cannot be undone.
    pub not_undoable: Option<String>,
}

impl Database {
    /// Runs a planned statement in its own transaction.
    pub fn write(
        &self,
        (sql, parameters): (&str, &[Value]),
        planned: &Statement,
        returning: Bounds,
        keep: &dyn Keep,
        stopped: &StopCheck,
    ) -> Result<WriteOutcome, DatabaseError> {
        let writer = self.writer(stopped)?;
        self.wait(stopped, || writer.connection.execute_batch("BEGIN IMMEDIATE"))?;
        let (tracked, mut written) = self.change(&writer, (sql, parameters), planned, returning)?;
        let (change, not_undoable) = self.end(&writer.connection, tracked.as_deref(), stopped)?;
        self.commit(&writer, change.as_ref(), keep)?;
        written.not_undoable = not_undoable;
        Ok(written)
    }

    /// Runs the statement in the open transaction, and tracks the touched rows if they can be identified.
    pub(crate) fn change(
        &self,
        writer: &Writer,
        (sql, parameters): (&str, &[Value]),
        planned: &Statement,
        returning: Bounds,
    ) -> Result<(Option<Vec<TrackedTable>>, WriteOutcome), DatabaseError> {
        if self.judge(&writer.connection, &writer.watch, sql)? != *planned {
            return Err(DatabaseError::Drifted);
        }
        let tracked = self.begin(&writer.connection, planned)?;
        let written = self.run(writer, sql, parameters, planned, returning)?;
        Ok((tracked, written))
    }

    /// Starts tracking of the statement's tables. Returns `None` if the change can be undone only
    /// by saving the whole database.
    fn begin(
        &self,
        connection: &Connection,
        planned: &Statement,
    ) -> Result<Option<Vec<TrackedTable>>, DatabaseError> {
        if !planned.only_rows() {
            return Ok(None);
        }
        let followers = ForeignKeyActions::of(connection).map_err(|error| self.error(error))?;
        let tables = followers.with(&planned.tables());
        self.track(connection, tables.iter().map(String::as_str))
    }

    /// Starts tracking of these tables. Returns `None` if one of them cannot be tracked.
    pub(crate) fn track<'a>(
        &self,
        connection: &Connection,
        tables: impl Iterator<Item = &'a str>,
    ) -> Result<Option<Vec<TrackedTable>>, DatabaseError> {
        let failed = |error| self.error(error);
        let mut tracked = Vec::new();
        for (number, table) in tables.enumerate() {
            let Some(table) = TrackedTable::of(connection, table, number).map_err(failed)? else {
                return Ok(None);
            };
            tracked.push(table);
        }
        for table in &tracked {
            table.begin(connection).map_err(failed)?;
        }
        // Without this pragma, a row that another one replaces fires no delete trigger. The tracked
        // tables have no other triggers.
        connection.pragma_update(None, "recursive_triggers", true).map_err(failed)?;
        Ok(Some(tracked))
    }

    fn run(
        &self,
        writer: &Writer,
        sql: &str,
        parameters: &[Value],
        planned: &Statement,
        returning: Bounds,
    ) -> Result<WriteOutcome, DatabaseError> {
        let Writer { connection, watch } = writer;
        watch.enter(Phase::Own);
        let limited =
            LimitedConnection::of(connection, sql, &Counts::default()).map_err(|error| self.error(error))?;
        watch.enter(Phase::Run);
        let failed = |error| refused(watch, self.error(error));
        let mut statement = connection.prepare(sql).map_err(failed)?;
        let page = self.page(&mut statement, parameters, returning).map_err(|e| refused(watch, e));
        limited.end().map_err(|error| self.error(error))?;
        let mut returned = page?;
        if returned.has_more {
            // The first row comes after the statement has made all its changes. The remaining rows
            // are only not returned.
            drop(statement);
        }
        if returned.columns.is_empty() {
            returned = Page::default();
        }
        watch.enter(Phase::Own);
        let affected = if planned.only_rows() { connection.changes() } else { 0 };
        let inserted = planned.inserts() && affected > 0;
        let last_insert_id = inserted.then(|| connection.last_insert_rowid());
        Ok(WriteOutcome { affected, last_insert_id, returned, not_undoable: None })
    }

    /// Returns the undo record; `None` if nothing has changed, or, with a reason, if the change
    /// cannot be undone.
    pub(crate) fn end(
        &self,
        connection: &Connection,
        tracked: Option<&[TrackedTable]>,
        stopped: &StopCheck,
    ) -> Result<(Option<Change>, Option<String>), DatabaseError> {
        match self.rows(connection, tracked)? {
            Some(rows) => Ok(((!rows.is_empty()).then_some(Change::Rows(rows)), None)),
            None => self.whole(connection, stopped),
        }
    }

    /// Returns the changed rows, possibly none; `None` if they are not tracked or too many.
    pub(crate) fn rows(
        &self,
        connection: &Connection,
        tracked: Option<&[TrackedTable]>,
    ) -> Result<Option<Vec<TableRows>>, DatabaseError> {
        let Some(tracked) = tracked else { return Ok(None) };
        let mut bytes = 0;
        let mut all = Vec::new();
        for table in tracked {
            match table.end(connection, &mut bytes).map_err(|error| self.error(error))? {
                Some(rows) => all.push(rows),
                None => return Ok(None),
            }
        }
        all.retain(|table| !table.rows.is_empty());
        Ok(Some(all))
    }

    /// Takes a snapshot of the database before the transaction, as other connections still see it.
    fn whole(
        &self,
        connection: &Connection,
        stopped: &StopCheck,
    ) -> Result<(Option<Change>, Option<String>), DatabaseError> {
        let failed = |error| self.error(error);
        // Full-text search writes to its tables only at the end of a transaction or at a savepoint.
        connection.execute_batch("SAVEPOINT divided; RELEASE divided").map_err(failed)?;
        self.with_stoppable_reader(stopped, |reader| {
            let saved = &reader.connection;
            if size(saved).map_err(failed)? > LARGEST_SAVED {
                return Ok((None, Some(too_large_to_undo())));
            }
            let (before, after) = (digest(saved).map_err(failed)?, digest(connection).map_err(failed)?);
            if before == after {
                return Ok((None, None));
            }
            let schema = differing(&schema(saved).map_err(failed)?, &schema(connection).map_err(failed)?);
            let image = self.image(saved, before, stopped)?;
            Ok((Some(Change::Whole { image, after, schema }), None))
        })
    }

    /// Stores the undo record, then commits.
    pub(crate) fn commit(
        &self,
        writer: &Writer,
        change: Option<&Change>,
        keep: &dyn Keep,
    ) -> Result<(), DatabaseError> {
        if let Some(change) = change {
            keep.keep(self.path(), change).map_err(DatabaseError::Unkept)?;
        }
        let committed = writer.connection.execute_batch("COMMIT").map_err(|error| self.error(error));
        if change.is_some() {
            match committed {
                Ok(()) => keep.happened(),
                Err(_) => keep.forget(),
            }
        }
        committed
    }
}

/// Returns the reason why a database is too large for the undo of a change that needs a snapshot.
pub(crate) fn too_large_to_undo() -> String {
    let most = LARGEST_SAVED >> 30;
    format!(
        "the database is larger than {most} GiB, and to undo a change of its schema, of very many rows, or of a \
         table with triggers or without rowid, all of it must be restored"
    )
}
