//! Whole databases: digest of the content, and replacement by another one.

use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};
use rusqlite::types::ValueRef;

use crate::open::{StopCheck, Writer};
use crate::row_tracking::quoted;
use crate::{Database, DatabaseError};

/// Size of the largest database that is saved as a whole, in bytes: the limit of all saved data
/// before the oldest is removed.
pub(crate) const LARGEST_SAVED: u64 = 4 * 1024 * 1024 * 1024;

/// Bytes that are collected before they are hashed. Hashing row by row would take several times as long.
const HASHED_AT_ONCE: usize = 64 * 1024;

/// Returns the size of the database in bytes.
pub(crate) fn size(connection: &Connection) -> rusqlite::Result<u64> {
    let number = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let (pages, size) = (number("page_count")?, number("page_size")?);
    Ok(u64::try_from(pages.saturating_mul(size)).unwrap_or(u64::MAX))
}

/// Returns the SQL statements of the schema.
pub(crate) fn schema(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut statement =
        connection.prepare("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY type, name")?;
    statement.query_map([], |row| row.get(0))?.collect()
}

/// Counts the rows whose referenced row is missing.
pub(crate) fn torn(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("SELECT count(*) FROM pragma_foreign_key_check", [], |row| row.get(0))
}

/// Returns the removed statements with the prefix `-`, and the added ones with `+`.
pub(crate) fn differing(before: &[String], after: &[String]) -> Vec<String> {
    let only = |sign, these: &[String], those: &[String]| {
        let these = these.iter().filter(|statement| !those.contains(statement));
        these.map(|statement| format!("{sign}{statement}")).collect::<Vec<_>>()
    };
    [only('-', before, after), only('+', after, before)].concat()
}

/// Computes a digest of the schema and every row. Equal content has equal digests, regardless of
/// its layout in the file.
pub(crate) fn digest(connection: &Connection) -> rusqlite::Result<[u8; 32]> {
    let mut hasher = blake3::Hasher::new();
    add_rows(
        connection,
        "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name, tbl_name",
        &mut hasher,
    )?;
    let mut tables = connection.prepare(
        "SELECT l.name, l.wr FROM pragma_table_list l
         WHERE l.schema = 'main' AND l.type IN ('table', 'shadow') AND l.name <> 'sqlite_schema' ORDER BY l.name",
    )?;
    let tables: Vec<(String, bool)> =
        tables.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<Result<_, _>>()?;
    for (table, without_id) in tables {
        hasher.update(table.as_bytes());
        hasher.update(&[0]);
        let id = if without_id || !has_id(connection, &table)? { "" } else { "_rowid_, " };
        add_rows(connection, &format!("SELECT {id}* FROM main.{}", quoted(&table)), &mut hasher)?;
    }
    Ok(*hasher.finalize().as_bytes())
}

/// Returns true if no column of the table is named `_rowid_`.
fn has_id(connection: &Connection, table: &str) -> rusqlite::Result<bool> {
    connection.query_row(
        "SELECT NOT EXISTS (SELECT 1 FROM pragma_table_xinfo(?) WHERE name = '_rowid_' COLLATE NOCASE)",
        [table],
        |row| row.get(0),
    )
}

fn add_rows(connection: &Connection, sql: &str, hasher: &mut blake3::Hasher) -> rusqlite::Result<()> {
    let mut statement = connection.prepare(sql)?;
    let count = statement.column_count();
    let mut rows = statement.query([])?;
    let mut gathered: Vec<u8> = Vec::with_capacity(2 * HASHED_AT_ONCE);
    while let Some(row) = rows.next()? {
        gathered.extend(b"row");
        for index in 0..count {
            let mut add = |kind: u8, bytes: &[u8]| {
                gathered.push(kind);
                gathered.extend((bytes.len() as u64).to_le_bytes());
                gathered.extend(bytes);
            };
            match row.get_ref(index)? {
                ValueRef::Null => add(0, &[]),
                ValueRef::Integer(number) => add(1, &number.to_le_bytes()),
                ValueRef::Real(number) => add(2, &number.to_bits().to_le_bytes()),
                ValueRef::Text(text) => add(3, text),
                ValueRef::Blob(bytes) => add(4, bytes),
            }
            if gathered.len() >= HASHED_AT_ONCE {
                hasher.update(&gathered);
                gathered.clear();
            }
        }
    }
    hasher.update(&gathered);
    Ok(())
}

impl Database {
    /// Replaces the content of the database with that of `from`, in one step, if its digest is
    /// still `expected`. `before` runs under the write lock, ahead of the replacement.
    pub(crate) fn replace(
        &self,
        writer: &mut Writer,
        from: &Connection,
        expected: &[u8; 32],
        stopped: &StopCheck,
        before: impl FnOnce() -> Result<(), DatabaseError>,
    ) -> Result<(), DatabaseError> {
        let backup = Backup::new(from, &mut writer.connection).map_err(|error| self.error(error))?;
        // A step of zero pages takes the write lock of the destination, and holds it until the last step.
        self.wait(stopped, || match backup.step(0)? {
            StepResult::Busy | StepResult::Locked => Err(busy()),
            _ => Ok(()),
        })?;
        let found = self.with_stoppable_reader(stopped, |reader| {
            digest(&reader.connection).map_err(|error| self.error(error))
        })?;
        if found != *expected {
            return Err(DatabaseError::Conflict { what: "the database".to_owned() });
        }
        before()?;
        self.step(&backup, stopped)
    }
}

pub(crate) fn busy() -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY), None)
}
