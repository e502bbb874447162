//! A whole database: as bytes, as the digest of what is in it, and put in the place of another.

use std::io::Cursor;

use rusqlite::backup::{Backup, StepResult};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, MAIN_DB};

use crate::open::{Reader, Stopped, Writer};
use crate::track::quoted;
use crate::{Database, DatabaseError};

/// The largest database that is saved as a whole, in bytes.
pub(crate) const LARGEST_SAVED: u64 = 64 * 1024 * 1024;

/// A database in memory with this content.
pub(crate) fn in_memory(image: &[u8]) -> rusqlite::Result<Connection> {
    let mut connection = Connection::open_in_memory()?;
    if !image.is_empty() {
        connection.deserialize_read_exact(MAIN_DB, Cursor::new(image), image.len(), false)?;
    }
    Ok(connection)
}

/// All that a database holds, as the file of it; nothing where it is empty.
pub(crate) fn image(connection: &Connection) -> rusqlite::Result<Vec<u8>> {
    let mut copy = Connection::open_in_memory()?;
    if Backup::new(connection, &mut copy)?.step(-1)? != StepResult::Done {
        return Err(busy());
    }
    let data = copy.serialize(MAIN_DB)?;
    let mut bytes = data.to_vec();
    drop(data);
    // A database in memory cannot be opened where its header says that it has a log beside it (bytes 18 and 19 of the file format).
    for version in bytes.iter_mut().take(20).skip(18) {
        *version = 1;
    }
    Ok(bytes)
}

/// How many bytes the database has.
pub(crate) fn size(connection: &Connection) -> rusqlite::Result<u64> {
    let number = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let (pages, size) = (number("page_count")?, number("page_size")?);
    Ok(u64::try_from(pages.saturating_mul(size)).unwrap_or(u64::MAX))
}

/// A digest of the schema and of every row: the same for the same content, however the file has it.
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

/// Whether `_rowid_` is no column of the table's own.
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
    while let Some(row) = rows.next()? {
        hasher.update(b"row");
        for index in 0..count {
            let (kind, bytes): (u8, std::borrow::Cow<'_, [u8]>) = match row.get_ref(index)? {
                ValueRef::Null => (0, [].as_slice().into()),
                ValueRef::Integer(number) => (1, number.to_le_bytes().to_vec().into()),
                ValueRef::Real(number) => (2, number.to_bits().to_le_bytes().to_vec().into()),
                ValueRef::Text(text) => (3, text.into()),
                ValueRef::Blob(bytes) => (4, bytes.into()),
            };
            hasher.update(&[kind]);
            hasher.update(&(bytes.len() as u64).to_le_bytes());
            hasher.update(&bytes);
        }
    }
    Ok(())
}

impl Database {
    /// Puts `from` into the place of all that the database holds, in one step, where that still is `expected`; `before` it is done,
    /// with others locked out.
    pub(crate) fn replace(
        &self,
        writer: &mut Writer,
        from: &Connection,
        expected: &[u8; 32],
        stopped: &Stopped,
        before: impl FnOnce() -> Result<(), DatabaseError>,
    ) -> Result<(), DatabaseError> {
        let backup = Backup::new(from, &mut writer.connection).map_err(|error| self.error(error))?;
        // Without a page to copy, this takes the lock on what is written to, and holds it until the last step.
        self.wait(stopped, || match backup.step(0)? {
            StepResult::Busy | StepResult::Locked => Err(busy()),
            _ => Ok(()),
        })?;
        let found = self.with_reader(|reader: &mut Reader| {
            digest(&reader.connection).map_err(|error| self.error(error))
        })?;
        if found != *expected {
            return Err(DatabaseError::Conflict { what: "the database".to_owned() });
        }
        before()?;
        self.wait(stopped, || match backup.step(-1)? {
            StepResult::Done => Ok(()),
            _ => Err(busy()),
        })
    }
}

fn busy() -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY), None)
}
