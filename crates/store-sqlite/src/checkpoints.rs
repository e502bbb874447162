//! Changes made by calls, path by path, so that they can be undone: rows here, the old bytes of
//! files among the blobs.
//!
//! A row exists before anything is changed, and records the progress of the change. A process that
//! finds an unfinished row of a dead process settles the change. The folder named in the row shows
//! whether its process lives.
//!
//! The state of a path is opaque bytes to this module.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use rusqlite::{Connection, OptionalExtension, Row, params};
use store_api::{
    Checkpoint, CheckpointEntry, CheckpointRetention, CheckpointState, Checkpoints, Hash, StoreError,
};

use crate::database::Database;
use crate::packs::refer;

/// The checkpoints of one store.
pub(crate) struct SqliteCheckpoints {
    database: Arc<Database>,
}

const COLUMNS: &str =
    "id, session, tool, workspace, made_at_us, folder, state, undoes, paths, bytes, unsaved, roots";

impl Checkpoints for SqliteCheckpoints {
    fn add(
        &self,
        checkpoint: &Checkpoint,
        entries: &mut dyn Iterator<Item = CheckpointEntry>,
        needed: &[Hash],
    ) -> Result<(), StoreError> {
        self.database.write(|transaction| {
            transaction.execute(
                &format!("INSERT INTO checkpoints ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"),
                params![
                    checkpoint.id,
                    checkpoint.session,
                    checkpoint.tool,
                    checkpoint.workspace.as_os_str().as_bytes(),
                    checkpoint.made_at.as_microsecond(),
                    checkpoint.folder,
                    number(checkpoint.state),
                    checkpoint.undoes,
                    i64::try_from(checkpoint.paths).unwrap_or(i64::MAX),
                    i64::try_from(checkpoint.bytes).unwrap_or(i64::MAX),
                    joined(&checkpoint.unsaved),
                    joined(&checkpoint.roots),
                ],
            )?;
            add_entries(transaction, &checkpoint.id, entries)?;
            refer(transaction, &checkpoint.id, needed)
        })
    }

    fn complete(&self, id: &str) -> Result<(), StoreError> {
        self.database.write(|transaction| {
            transaction.execute("UPDATE checkpoints SET state = 2 WHERE id = ?", [id])?;
            Ok(())
        })
    }

    fn complete_as(
        &self,
        id: &str,
        entries: &mut dyn Iterator<Item = CheckpointEntry>,
        paths: u64,
        unsaved: &[PathBuf],
    ) -> Result<(), StoreError> {
        self.database.write(|transaction| {
            remove_entries(transaction, id)?;
            add_entries(transaction, id, entries)?;
            transaction.execute(
                "UPDATE checkpoints SET state = 2, paths = ?, unsaved = ? WHERE id = ?",
                params![i64::try_from(paths).unwrap_or(i64::MAX), joined(unsaved), id],
            )?;
            Ok(())
        })
    }

    fn extend(
        &self,
        id: &str,
        entry: &CheckpointEntry,
        needed: &[Hash],
        bytes: u64,
    ) -> Result<(), StoreError> {
        self.database.write(|transaction| {
            let next: i64 = transaction.query_row(
                "SELECT coalesce(max(number) + 1, 0) FROM checkpoint_entries WHERE checkpoint = ?",
                [id],
                |row| row.get(0),
            )?;
            add_entries_from(transaction, id, next, &mut std::iter::once(entry.clone()))?;
            refer(transaction, id, needed)?;
            transaction.execute(
                "UPDATE checkpoints SET paths = paths + 1, bytes = bytes + ? WHERE id = ?",
                params![i64::try_from(bytes).unwrap_or(i64::MAX), id],
            )?;
            Ok(())
        })
    }

    fn retract(&self, id: &str, entry: &CheckpointEntry) -> Result<(), StoreError> {
        self.database.write(|transaction| {
            transaction.execute(
                "DELETE FROM checkpoint_entries WHERE checkpoint = ?1 AND path = ?2 AND number =
                    (SELECT max(number) FROM checkpoint_entries WHERE checkpoint = ?1)",
                params![id, entry.path.as_os_str().as_bytes()],
            )?;
            transaction.execute("UPDATE checkpoints SET paths = paths - 1 WHERE id = ?", [id])?;
            Ok(())
        })
    }

    fn remove(&self, id: &str) -> Result<(), StoreError> {
        self.database.write(|transaction| {
            remove_entries(transaction, id)?;
            transaction.execute("DELETE FROM checkpoints WHERE id = ?", [id])?;
            Ok(())
        })
    }

    fn find(&self, id: &str) -> Result<Option<Checkpoint>, StoreError> {
        self.read(|connection| {
            connection
                .query_row(&format!("SELECT {COLUMNS} FROM checkpoints WHERE id = ?"), [id], checkpoint)
                .optional()
        })
    }

    fn of_folder(&self, folder: &str) -> Result<Option<Checkpoint>, StoreError> {
        self.read(|connection| {
            connection
                .query_row(
                    &format!("SELECT {COLUMNS} FROM checkpoints WHERE folder = ?"),
                    [folder],
                    checkpoint,
                )
                .optional()
        })
    }

    fn entries(&self, id: &str) -> Result<Vec<CheckpointEntry>, StoreError> {
        self.read(|connection| {
            let mut statement = connection.prepare(
                "SELECT path, before, after, content FROM checkpoint_entries WHERE checkpoint = ? ORDER BY number",
            )?;
            statement.query_map([id], entry)?.collect()
        })
    }

    fn first_entries(&self, id: &str, limit: u32) -> Result<Vec<CheckpointEntry>, StoreError> {
        self.read(|connection| {
            let mut statement = connection.prepare(
                "SELECT path, before, after, content FROM checkpoint_entries WHERE checkpoint = ? ORDER BY number
                 LIMIT ?",
            )?;
            statement.query_map(params![id, limit], entry)?.collect()
        })
    }

    fn entries_marked(&self, id: &str, before: &[u8]) -> Result<Vec<CheckpointEntry>, StoreError> {
        self.read(|connection| {
            let mut statement = connection.prepare(
                "SELECT path, before, after, content FROM checkpoint_entries WHERE checkpoint = ? AND before = ?
                 ORDER BY number",
            )?;
            statement.query_map(params![id, before], entry)?.collect()
        })
    }

    fn list(&self, workspace: &Path, limit: u32) -> Result<Vec<Checkpoint>, StoreError> {
        let condition = "workspace = ? ORDER BY made_at_us DESC, id DESC LIMIT ?";
        self.finished(condition, params![workspace.as_os_str().as_bytes(), limit])
    }

    fn with_part(&self, workspace: &Path, part: &str, limit: u32) -> Result<Vec<Checkpoint>, StoreError> {
        let end = format!("{part}{}", char::MAX);
        let condition = "workspace = ? AND (id >= ? AND id < ? OR substr(id, -length(?2)) = ?2)
                         ORDER BY id LIMIT ?4";
        self.finished(condition, params![workspace.as_os_str().as_bytes(), part, end, limit])
    }

    fn at_or_below(&self, workspace: &Path, path: &Path) -> Result<Vec<String>, StoreError> {
        let bytes = path.as_os_str().as_bytes();
        // `0` follows `/` in the order of bytes.
        let (first, end) = ([bytes, b"/"].concat(), [bytes, b"0"].concat());
        self.read(|connection| {
            let mut statement = connection.prepare(
                "SELECT id FROM checkpoints WHERE state = 2 AND workspace = ?1 AND (?2 = x'' OR EXISTS (
                    SELECT 1 FROM checkpoint_entries
                    WHERE checkpoint = id AND (path = ?2 OR path >= ?3 AND path < ?4)
                ))",
            )?;
            let values = params![workspace.as_os_str().as_bytes(), bytes, first, end];
            statement.query_map(values, |row| row.get(0))?.collect()
        })
    }

    fn since(&self, workspace: &Path, first: &Checkpoint) -> Result<Vec<Checkpoint>, StoreError> {
        let condition = "workspace = ? AND (made_at_us, id) >= (?, ?) ORDER BY made_at_us, id";
        let made_at = first.made_at.as_microsecond();
        self.finished(condition, params![workspace.as_os_str().as_bytes(), made_at, first.id])
    }

    fn first_since(&self, workspace: &Path, time: Timestamp) -> Result<Option<Checkpoint>, StoreError> {
        let condition = "workspace = ? AND made_at_us >= ? ORDER BY made_at_us, id LIMIT 1";
        let found =
            self.finished(condition, params![workspace.as_os_str().as_bytes(), time.as_microsecond()])?;
        Ok(found.into_iter().next())
    }

    fn first_since_call(&self, workspace: &Path, call: &str) -> Result<Option<Checkpoint>, StoreError> {
        let condition = "workspace = ? AND id >= ? ORDER BY made_at_us, id LIMIT 1";
        let found = self.finished(condition, params![workspace.as_os_str().as_bytes(), call])?;
        Ok(found.into_iter().next())
    }

    fn unfinished(&self) -> Result<Vec<Checkpoint>, StoreError> {
        self.read(|connection| {
            let mut statement = connection
                .prepare(&format!("SELECT {COLUMNS} FROM checkpoints WHERE state <> 2 ORDER BY id"))?;
            statement.query_map([], checkpoint)?.collect()
        })
    }

    fn complete_folder(&self, folder: &str) -> Result<(), StoreError> {
        self.database.write(|transaction| {
            transaction
                .execute("UPDATE checkpoints SET state = 2 WHERE folder = ? AND state = 0", [folder])?;
            Ok(())
        })
    }

    fn prune(&self, retention: &CheckpointRetention, now: Timestamp) -> Result<u64, StoreError> {
        let age = SignedDuration::try_from(retention.max_age).unwrap_or(SignedDuration::MAX);
        let oldest = now.checked_sub(age).unwrap_or(Timestamp::MIN);
        // One transaction, because entries without their checkpoint would keep their blobs forever.
        self.database.write(|transaction| {
            let mut statement = transaction.prepare(
                "DELETE FROM checkpoints WHERE state = 2 AND id IN (
                    SELECT id FROM (
                        SELECT id, made_at_us,
                            row_number() OVER (PARTITION BY workspace ORDER BY made_at_us DESC, id DESC) AS place,
                            sum(bytes) OVER (
                                ORDER BY made_at_us DESC, id DESC ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
                            ) AS total
                        FROM checkpoints
                    )
                    WHERE place > ? AND (made_at_us < ? OR total > ?)
                )
                RETURNING id",
            )?;
            let limits = params![
                retention.keep_newest,
                oldest.as_microsecond(),
                i64::try_from(retention.max_bytes).unwrap_or(i64::MAX)
            ];
            let removed: Vec<String> =
                statement.query_map(limits, |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
            for id in &removed {
                remove_entries(transaction, id)?;
            }
            Ok(removed.len() as u64)
        })
    }
}

impl SqliteCheckpoints {
    fn finished(
        &self,
        condition: &str,
        params: impl rusqlite::Params,
    ) -> Result<Vec<Checkpoint>, StoreError> {
        self.read(|connection| {
            let mut statement = connection
                .prepare(&format!("SELECT {COLUMNS} FROM checkpoints WHERE state = 2 AND {condition}"))?;
            statement.query_map(params, checkpoint)?.collect()
        })
    }

    pub(crate) fn new(database: Arc<Database>) -> Self {
        Self { database }
    }

    fn read<T>(&self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        self.database.with(|connection| work(connection).map_err(|error| self.database.error(error)))
    }
}

fn add_entries(
    transaction: &Connection,
    id: &str,
    entries: &mut dyn Iterator<Item = CheckpointEntry>,
) -> rusqlite::Result<()> {
    add_entries_from(transaction, id, 0, entries)
}

fn add_entries_from(
    transaction: &Connection,
    id: &str,
    first: i64,
    entries: &mut dyn Iterator<Item = CheckpointEntry>,
) -> rusqlite::Result<()> {
    let mut statement = transaction.prepare(
        "INSERT INTO checkpoint_entries (checkpoint, number, path, before, after, content) VALUES (?, ?, ?, ?, ?, ?)",
    )?;
    let mut contents = Vec::new();
    for (number, entry) in (first..).zip(entries) {
        statement.execute(params![
            id,
            number,
            entry.path.as_os_str().as_bytes(),
            entry.before,
            entry.after,
            entry.content.as_ref().map(|hash| &hash.as_bytes()[..]),
        ])?;
        contents.extend(entry.content);
    }
    refer(transaction, id, &contents)
}

/// Removes the entries of a checkpoint, and its list of needed contents.
fn remove_entries(transaction: &Connection, id: &str) -> rusqlite::Result<()> {
    transaction.prepare_cached("DELETE FROM checkpoint_entries WHERE checkpoint = ?")?.execute([id])?;
    transaction.prepare_cached("DELETE FROM checkpoint_contents WHERE checkpoint = ?")?.execute([id])?;
    Ok(())
}

fn number(state: CheckpointState) -> i64 {
    match state {
        CheckpointState::Prepared => 0,
        CheckpointState::Direct => 1,
        CheckpointState::Done => 2,
    }
}

fn checkpoint(row: &Row<'_>) -> rusqlite::Result<Checkpoint> {
    let count = |index| row.get::<_, i64>(index).map(|number| u64::try_from(number).unwrap_or_default());
    Ok(Checkpoint {
        id: row.get(0)?,
        session: row.get(1)?,
        tool: row.get(2)?,
        workspace: path(row.get(3)?),
        made_at: Timestamp::from_microsecond(row.get(4)?).unwrap_or_default(),
        folder: row.get(5)?,
        state: match row.get::<_, i64>(6)? {
            0 => CheckpointState::Prepared,
            1 => CheckpointState::Direct,
            _ => CheckpointState::Done,
        },
        undoes: row.get(7)?,
        paths: count(8)?,
        bytes: count(9)?,
        unsaved: split(&row.get::<_, Vec<u8>>(10)?),
        roots: split(&row.get::<_, Vec<u8>>(11)?),
    })
}

fn entry(row: &Row<'_>) -> rusqlite::Result<CheckpointEntry> {
    let content: Option<Vec<u8>> = row.get(3)?;
    Ok(CheckpointEntry {
        path: path(row.get(0)?),
        before: row.get(1)?,
        after: row.get(2)?,
        content: content.and_then(|bytes| Hash::from_slice(&bytes)),
    })
}

fn path(bytes: Vec<u8>) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes))
}

/// Joins paths with NUL, which no path contains.
fn joined(paths: &[PathBuf]) -> Vec<u8> {
    let bytes: Vec<&[u8]> = paths.iter().map(|path| path.as_os_str().as_bytes()).collect();
    bytes.join(&0)
}

fn split(bytes: &[u8]) -> Vec<PathBuf> {
    let parts = bytes.split(|byte| *byte == 0).filter(|part| !part.is_empty());
    parts.map(|part| path(part.to_vec())).collect()
}

#[cfg(test)]
mod tests;
