//! Trying a change: run as it would be, shown, and taken back.

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::action::Statement;
use crate::open::{Stopped, Writer, defend, interrupt_where};
use crate::whole::{LARGEST_SAVED, image, in_memory, size};
use crate::write::too_large_to_undo;
use crate::{Bounds, Change, Database, DatabaseError, Value, Written};

/// Bytes that a change may add to a copy in memory.
const ROOM: usize = 64 * 1024 * 1024;

/// What a change would come to.
#[derive(Debug, Clone, PartialEq)]
pub struct Tried {
    /// What it would answer.
    pub written: Written,
    /// What was behind `-`, what would be behind `+`.
    pub lines: Vec<String>,
}

impl Database {
    /// Runs a planned statement as [`Database::write`] would, with every check, and takes it back.
    ///
    /// Nothing of it is ever in the file: where that has a log, SQLite writes there and nobody sees it; where it has none yet, or is
    /// not there, the statement runs on a copy in memory.
    pub fn try_write(
        &self,
        (sql, parameters): (&str, &[Value]),
        planned: &Statement,
        returning: Bounds,
        stopped: &Stopped,
    ) -> Result<Tried, DatabaseError> {
        let failed = |error| self.error(error);
        let (writer, is_copy) = self.trier(stopped)?;
        let connection = &writer.connection;
        let tried = || {
            self.wait(stopped, || connection.execute_batch("BEGIN IMMEDIATE"))?;
            let (schema, violations) =
                (schema(connection).map_err(failed)?, violations(connection).map_err(failed)?);
            let (tracked, mut written) = self.change(&writer, (sql, parameters), planned, returning)?;
            // What a commit would look at.
            if self::violations(connection).map_err(failed)? > violations {
                return Err(DatabaseError::Constraint("FOREIGN KEY constraint failed".to_owned()));
            }
            let rows = self.rows(connection, tracked.as_deref())?;
            let mut lines = differing(&schema, &self::schema(connection).map_err(failed)?);
            match rows {
                Some(rows) => lines.extend(Change::Rows(rows).lines(false)),
                None => {
                    if written.affected > 0 {
                        lines.push(format!("{} rows, which are not shown one by one", written.affected));
                    }
                    let is_large = size(connection).map_err(failed)? > LARGEST_SAVED;
                    written.not_undoable = is_large.then(too_large_to_undo);
                }
            }
            Ok(Tried { written, lines })
        };
        match tried() {
            Err(DatabaseError::Full) if is_copy => Err(DatabaseError::TooLarge(format!(
                "it would add more than {} MiB, and cannot be tried on a database without a log",
                ROOM / 1024 / 1024
            ))),
            // The connection goes, and the transaction with it.
            done => done,
        }
    }

    /// A connection to try changes on, and whether that is on a copy.
    fn trier(&self, stopped: &Stopped) -> Result<(Writer, bool), DatabaseError> {
        let failed = |error| self.error(error);
        let is_there = self.look()?.is_some();
        let has_log = || {
            self.with_reader(|reader| {
                let mode = reader.connection.pragma_query_value(None, "journal_mode", |row| row.get(0));
                mode.map_err(failed).map(|mode: String| mode == "wal")
            })
        };
        let is_copy = !is_there || !has_log()?;
        let mut connection = if is_copy {
            self.copy()?
        } else {
            let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
                | OpenFlags::SQLITE_OPEN_NO_MUTEX
                | OpenFlags::SQLITE_OPEN_NOFOLLOW;
            Connection::open_with_flags(self.path(), flags).map_err(failed)?
        };
        let watch = defend(&mut connection).map_err(failed)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map_err(failed)?;
        interrupt_where(&mut connection, Some(stopped)).map_err(failed)?;
        Ok((Writer { connection, watch }, is_copy))
    }

    /// What the file holds, in memory, with some room.
    fn copy(&self) -> Result<Connection, DatabaseError> {
        let failed = |error| self.error(error);
        let image = self.with_reader(|reader| {
            if size(&reader.connection).map_err(failed)? > LARGEST_SAVED {
                return Err(DatabaseError::TooLarge(format!(
                    "the database is larger than {} MiB and has no log yet, so nothing can be tried on it",
                    LARGEST_SAVED / 1024 / 1024
                )));
            }
            image(&reader.connection).map_err(failed)
        })?;
        let copy = in_memory(&image).map_err(failed)?;
        let page: i64 = copy.pragma_query_value(None, "page_size", |row| row.get(0)).map_err(failed)?;
        let most = i64::try_from(image.len() + ROOM).unwrap_or(i64::MAX) / page.max(512);
        let set = copy.pragma_update_and_check(None, "max_page_count", most, |_| Ok(()));
        set.map_err(failed)?;
        Ok(copy)
    }
}

/// The statements that made all there is.
fn schema(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut statement =
        connection.prepare("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY type, name")?;
    statement.query_map([], |row| row.get(0))?.collect()
}

/// Rows that belong to rows which are not there. Only constraints that wait for the commit leave any to be counted.
fn violations(connection: &Connection) -> rusqlite::Result<i64> {
    let waits = "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND sql LIKE '%deferred%')";
    if !connection.query_row(waits, [], |row| row.get::<_, bool>(0))? {
        return Ok(0);
    }
    connection.query_row("SELECT count(*) FROM pragma_foreign_key_check", [], |row| row.get(0))
}

fn differing(before: &[String], after: &[String]) -> Vec<String> {
    let only = |sign, these: &[String], those: &[String]| {
        let these = these.iter().filter(|statement| !those.contains(statement));
        these.map(|statement| format!("{sign}{statement}")).collect::<Vec<_>>()
    };
    [only('-', before, after), only('+', after, before)].concat()
}
