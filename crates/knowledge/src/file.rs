//! Index entries of one file, changed in one transaction.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension, params};

use crate::{Chunk, Hash, IndexError, Scope, Stamp};

/// A file in the index.
#[derive(Debug, Clone)]
pub(crate) struct KnownFile {
    pub(crate) id: i64,
    pub(crate) stamp: Stamp,
    pub(crate) hash: Vec<u8>,
    pub(crate) note: Option<String>,
}

/// Returns every file in the index, or the one at `under` and those below it.
pub(crate) fn known(
    connection: &Connection,
    under: Option<&Path>,
) -> rusqlite::Result<HashMap<PathBuf, KnownFile>> {
    let mut statement =
        connection.prepare_cached("SELECT path, id, size, seconds, nanoseconds, hash, note FROM files")?;
    let rows = statement.query_map([], |row| {
        let path: Vec<u8> = row.get(0)?;
        let stamp = Stamp {
            size: row.get::<_, i64>(2)?.cast_unsigned(),
            modified_seconds: row.get(3)?,
            modified_nanoseconds: row.get(4)?,
        };
        let path = PathBuf::from(std::ffi::OsStr::from_bytes(&path));
        Ok((path, KnownFile { id: row.get(1)?, stamp, hash: row.get(5)?, note: row.get(6)? }))
    })?;
    rows.filter(|row| {
        row.as_ref().map_or(true, |(path, _)| under.is_none_or(|under| path.starts_with(under)))
    })
    .collect()
}

/// Removes a file from the index.
pub(crate) fn remove(connection: &Connection, id: i64) -> rusqlite::Result<()> {
    let ids: Vec<i64> = connection
        .prepare_cached("SELECT id FROM chunks WHERE file = ?")?
        .query_map([id], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    for chunk in ids {
        remove_chunk(connection, chunk)?;
    }
    connection.prepare_cached("DELETE FROM files WHERE id = ?")?.execute([id])?;
    Ok(())
}

fn remove_chunk(connection: &Connection, id: i64) -> rusqlite::Result<()> {
    connection.prepare_cached("DELETE FROM words WHERE rowid = ?")?.execute([id])?;
    connection.prepare_cached("DELETE FROM chunks WHERE id = ?")?.execute([id])?;
    connection.prepare_cached("UPDATE state SET removals = removals + 1")?.execute([])?;
    Ok(())
}

/// Updates the stamp of a file with unchanged content.
pub(crate) fn restamp(connection: &Connection, id: i64, stamp: &Stamp) -> rusqlite::Result<()> {
    connection
        .prepare_cached("UPDATE files SET size = ?, seconds = ?, nanoseconds = ? WHERE id = ?")?
        .execute(params![stamp.size.cast_signed(), stamp.modified_seconds, stamp.modified_nanoseconds, id])?;
    Ok(())
}

/// A change of one file within a transaction. New chunks are added one by one, and chunks that no
/// longer exist are removed at the end.
pub(crate) struct Change<'c> {
    connection: &'c Connection,
    file: i64,
    words_of_path: String,
    /// Previous chunks that were not seen yet, by hash.
    before: HashMap<Vec<u8>, Vec<i64>>,
    pub(crate) created: u64,
}

impl<'c> Change<'c> {
    pub(crate) fn begin(connection: &'c Connection, path: &Path) -> rusqlite::Result<Self> {
        let bytes = path.as_os_str().as_bytes();
        let known = connection
            .prepare_cached("SELECT id FROM files WHERE path = ?")?
            .query_row([bytes], |row| row.get(0))
            .optional()?;
        let file = match known {
            Some(file) => file,
            None => {
                connection
                    .prepare_cached(
                        "INSERT INTO files (path, scope, size, seconds, nanoseconds, hash) VALUES (?, ?, 0, -1, 0, x'')",
                    )?
                    .execute(params![bytes, Scope::of(path).number()])?;
                connection.last_insert_rowid()
            }
        };
        let mut before: HashMap<Vec<u8>, Vec<i64>> = HashMap::new();
        let mut statement =
            connection.prepare_cached("SELECT hash, id FROM chunks WHERE file = ? ORDER BY id DESC")?;
        for row in statement.query_map([file], |row| Ok((row.get(0)?, row.get(1)?)))? {
            let (hash, id) = row?;
            before.entry(hash).or_default().push(id);
        }
        let words_of_path = path.with_extension("").to_string_lossy().into_owned();
        Ok(Self { connection, file, words_of_path, before, created: 0 })
    }

    /// Adds a chunk. A chunk with the same text as before stays, with updated line numbers.
    pub(crate) fn chunk(&mut self, chunk: &Chunk) -> Result<(), IndexError> {
        let Hash(hash) = chunk.hash();
        let lines = (number(chunk.lines.0), number(chunk.lines.1));
        let heading = number(chunk.heading);
        if let Some(id) = self.before.get_mut(hash.as_slice()).and_then(Vec::pop) {
            self.connection
                .prepare_cached(
                    "UPDATE chunks SET section = ?, first_line = ?, last_line = ?, text = ?, heading = ? WHERE id = ?",
                )?
                .execute(params![chunk.section, lines.0, lines.1, chunk.text, heading, id])?;
            return Ok(());
        }
        self.connection
            .prepare_cached(
                "INSERT INTO chunks (file, section, first_line, last_line, text, heading, hash) VALUES (?, ?, ?, ?, ?, ?, ?)",
            )?
            .execute(params![self.file, chunk.section, lines.0, lines.1, chunk.text, heading, hash])?;
        let id = self.connection.last_insert_rowid();
        let body = chunk.text.get(chunk.heading..).unwrap_or_default();
        self.connection
            .prepare_cached("INSERT INTO words (rowid, path, section, body) VALUES (?, ?, ?, ?)")?
            .execute(params![id, self.words_of_path, chunk.section, body])?;
        self.created += 1;
        Ok(())
    }

    /// Removes the chunks that no longer exist and updates the entry of the file. Returns the
    /// number of new chunks.
    pub(crate) fn end(self, stamp: &Stamp, hash: &Hash, note: Option<&str>) -> rusqlite::Result<u64> {
        for id in self.before.into_values().flatten() {
            remove_chunk(self.connection, id)?;
        }
        restamp(self.connection, self.file, stamp)?;
        self.connection
            .prepare_cached("UPDATE files SET hash = ?, note = ? WHERE id = ?")?
            .execute(params![hash.0, note, self.file])?;
        self.connection.prepare_cached("UPDATE state SET changes = changes + 1")?.execute([])?;
        Ok(self.created)
    }
}

fn number(value: usize) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
