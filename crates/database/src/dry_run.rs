//! Dry runs: a change is run, shown, and rolled back.

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use tempfile::TempPath;

use crate::action::Statement;
use crate::full_copy::{LARGEST_SAVED, differing, schema, size, torn};
use crate::open::{StopCheck, Writer, defend, interrupt_where};
use crate::snapshot::Copy;
use crate::write::too_large_to_undo;
use crate::{Bounds, Change, Database, DatabaseError, Value, WriteOutcome};

/// Bytes that a change may add to a copy.
const ROOM: u64 = 64 * 1024 * 1024;

/// Result of a dry run.
#[derive(Debug, Clone, PartialEq)]
pub struct DryRunResult {
    /// Result that the statement would have.
    pub written: WriteOutcome,
    /// Old rows with the prefix `-`, new ones with `+`.
    pub lines: Vec<String>,
}

impl Database {
    /// Runs a planned statement like [`Database::write`], with every check, and rolls it back.
    ///
    /// The file never contains any part of the change. If the database is in WAL mode, SQLite
    /// writes to the log, where no reader sees the change. Otherwise, or if the file does not
    /// exist, the statement runs on a copy.
    pub fn try_write(
        &self,
        (sql, parameters): (&str, &[Value]),
        planned: &Statement,
        returning: Bounds,
        stopped: &StopCheck,
    ) -> Result<DryRunResult, DatabaseError> {
        let failed = |error| self.error(error);
        let (writer, copied) = self.trier(stopped)?;
        let connection = &writer.connection;
        let tried = || {
            self.wait(stopped, || connection.execute_batch("BEGIN IMMEDIATE"))?;
            let (schema, violations) =
                (schema(connection).map_err(failed)?, violations(connection).map_err(failed)?);
            let (tracked, mut written) = self.change(&writer, (sql, parameters), planned, returning)?;
            // The check that a commit would perform.
            if self::violations(connection).map_err(failed)? > violations {
                return Err(DatabaseError::Constraint("FOREIGN KEY constraint failed".to_owned()));
            }
            let rows = self.rows(connection, tracked.as_deref())?;
            let mut lines = differing(&schema, &self::schema(connection).map_err(failed)?);
            match rows {
                Some(rows) => lines.extend(Change::Rows(rows).lines(false)),
                None => {
                    if written.affected > 0 {
                        lines.push(format!("{} rows, not shown one by one", written.affected));
                    }
                    let is_large = size(connection).map_err(failed)? > LARGEST_SAVED;
                    written.not_undoable = is_large.then(too_large_to_undo);
                }
            }
            Ok(DryRunResult { written, lines })
        };
        match tried() {
            Err(DatabaseError::Full) if copied.is_some() => Err(DatabaseError::TooLarge(format!(
                "it would add more than {} MiB, too much for a dry run on a database without a log",
                ROOM / 1024 / 1024
            ))),
            // Dropping the connection rolls the transaction back.
            done => done,
        }
    }

    /// Opens a connection for a dry run, with the path of the copy if it works on one.
    fn trier(&self, stopped: &StopCheck) -> Result<(Writer, Option<TempPath>), DatabaseError> {
        let failed = |error| self.error(error);
        let is_there = self.look()?.is_some();
        let has_log = || {
            self.with_reader(|reader| {
                let mode = reader.connection.pragma_query_value(None, "journal_mode", |row| row.get(0));
                mode.map_err(failed).map(|mode: String| mode == "wal")
            })
        };
        let copied = if is_there && has_log()? { None } else { Some(self.roomy_copy(stopped)?) };
        let (mut connection, copied) = match copied {
            Some(Copy { connection, path }) => (connection, Some(path)),
            None => {
                let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
                    | OpenFlags::SQLITE_OPEN_NO_MUTEX
                    | OpenFlags::SQLITE_OPEN_NOFOLLOW;
                (Connection::open_with_flags(self.path(), flags).map_err(failed)?, None)
            }
        };
        let watch = defend(&mut connection).map_err(failed)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map_err(failed)?;
        interrupt_where(&mut connection, Some(stopped)).map_err(failed)?;
        Ok((Writer { connection, watch }, copied))
    }

    /// Copies the current content, with a limit on growth.
    fn roomy_copy(&self, stopped: &StopCheck) -> Result<Copy, DatabaseError> {
        let failed = |error| self.error(error);
        let copy = self.with_stoppable_reader(stopped, |reader| self.copy_of(&reader.connection, stopped))?;
        let page: i64 =
            copy.connection.pragma_query_value(None, "page_size", |row| row.get(0)).map_err(failed)?;
        let bytes = size(&copy.connection).map_err(failed)?.saturating_add(ROOM);
        let most = i64::try_from(bytes).unwrap_or(i64::MAX) / page.max(512);
        let set = copy.connection.pragma_update_and_check(None, "max_page_count", most, |_| Ok(()));
        set.map_err(failed)?;
        Ok(copy)
    }
}

/// Counts rows whose referenced row is missing. Only deferred constraints can leave any.
fn violations(connection: &Connection) -> rusqlite::Result<i64> {
    let waits = "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND sql LIKE '%deferred%')";
    if !connection.query_row(waits, [], |row| row.get::<_, bool>(0))? {
        return Ok(0);
    }
    torn(connection)
}
