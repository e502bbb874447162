//! Memories of agents: texts by key, with all their versions and a word index.
//!
//! An agent sees its own memories and those shared in the workspace. A deleted memory disappears
//! from every list, but its history stays. Memories are only written on request of a call.

mod finding;

use parking_lot::Mutex;
use std::collections::HashSet;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, Row, params};
use store_api::{
    ChangeOutcome, Memories, Memory, MemoryCaller, MemoryVersion, StoreError, Unembedded, WordMatches,
};

use crate::approvals::{bytes, time};
use crate::database::Database;

use finding::forget_vectors;

/// Maximum number of one agent's memories that are not deleted.
const MAX_MEMORIES: i64 = 10_000;

/// The memories of one store.
pub(crate) struct SqliteMemories {
    database: Arc<Database>,
    /// Agents that have already adopted the memories of their earlier name.
    adopted: Mutex<HashSet<String>>,
}

const COLUMNS: &str =
    "m.id, m.key, m.content, m.version, m.shared, m.agent, m.created_at_us, m.changed_at_us";
/// Condition for the memories that an agent sees: `?1` is the workspace, `?2` the agent.
const SEEN: &str = "m.workspace = ?1 AND (m.agent = ?2 OR m.shared = 1)";

impl Memories for SqliteMemories {
    fn adopt(&self, earlier: &str, agent: &str) -> Result<(), StoreError> {
        let mut adopted = self.adopted.lock();
        if adopted.contains(agent) {
            return Ok(());
        }
        let there = "SELECT EXISTS (SELECT 1 FROM memories WHERE agent = ?)";
        if self.database.read(|connection| connection.query_row(there, [earlier], |row| row.get(0)))? {
            self.database.write(|connection| {
                connection
                    .execute("UPDATE OR IGNORE memories SET agent = ?2 WHERE agent = ?1", [earlier, agent])?;
                connection
                    .execute("UPDATE memory_versions SET agent = ?2 WHERE agent = ?1", [earlier, agent])
                    .map(drop)
            })?;
        }
        adopted.insert(agent.to_owned());
        Ok(())
    }

    fn create(
        &self,
        who: &MemoryCaller,
        id: &str,
        (key, content): (&str, &str),
        shared: bool,
    ) -> Result<ChangeOutcome, StoreError> {
        self.write(who, |connection| {
            if let Some((_, there)) = find(connection, who, key)? {
                return Ok(ChangeOutcome::Conflict(there));
            }
            let many: i64 = connection.query_row(
                "SELECT count(*) FROM memories WHERE workspace = ? AND agent = ? AND deleted_at_us IS NULL",
                params![bytes(&who.workspace), who.agent],
                |row| row.get(0),
            )?;
            if many >= MAX_MEMORIES {
                return Ok(ChangeOutcome::Full);
            }
            let now = who.now.as_microsecond();
            connection.execute(
                "INSERT INTO memories (id, workspace, agent, shared, key, content, version, created_at_us, changed_at_us)
                 VALUES (?, ?, ?, ?, ?, ?, 1, ?, ?)",
                params![id, bytes(&who.workspace), who.agent, shared, key, content, now, now],
            )?;
            let number = connection.last_insert_rowid();
            connection.execute(
                "INSERT INTO memory_words (rowid, key, content) VALUES (?, ?, ?)",
                params![number, key, content],
            )?;
            note(connection, who, number, 1, "created", content)?;
            now_as(connection, number)
        })
    }

    fn read(&self, who: &MemoryCaller, key: &str) -> Result<Option<Memory>, StoreError> {
        self.database.read(|connection| Ok(find(connection, who, key)?.map(|(_, memory)| memory)))
    }

    fn update(
        &self,
        who: &MemoryCaller,
        key: &str,
        content: &str,
        expected: Option<u64>,
    ) -> Result<ChangeOutcome, StoreError> {
        self.change(who, key, expected, |connection, number, memory| {
            let version = next(memory);
            connection.execute(
                "UPDATE memories SET content = ?, version = ?, changed_at_us = ? WHERE number = ?",
                params![content, version, who.now.as_microsecond(), number],
            )?;
            connection
                .execute("UPDATE memory_words SET content = ? WHERE rowid = ?", params![content, number])?;
            forget_vectors(connection, number)?;
            note(connection, who, number, version, "updated", content)
        })
    }

    fn delete(
        &self,
        who: &MemoryCaller,
        key: &str,
        expected: Option<u64>,
    ) -> Result<ChangeOutcome, StoreError> {
        self.change(who, key, expected, |connection, number, memory| {
            let version = next(memory);
            let now = who.now.as_microsecond();
            connection.execute(
                "UPDATE memories SET version = ?, changed_at_us = ?, deleted_at_us = ? WHERE number = ?",
                params![version, now, now, number],
            )?;
            connection.execute("DELETE FROM memory_words WHERE rowid = ?", [number])?;
            forget_vectors(connection, number)?;
            note(connection, who, number, version, "deleted", &memory.content)
        })
    }

    fn list(
        &self,
        who: &MemoryCaller,
        prefix: &str,
        (skip, limit): (u64, u32),
    ) -> Result<(Vec<Memory>, bool), StoreError> {
        let skip = i64::try_from(skip).unwrap_or(i64::MAX);
        self.database.read(|connection| {
            let sql = format!(
                "SELECT {COLUMNS} FROM memories m
                 WHERE {SEEN} AND substr(m.key, 1, length(?3)) = ?3 AND m.deleted_at_us IS NULL
                 ORDER BY m.key, m.number LIMIT ?4 OFFSET ?5"
            );
            let mut statement = connection.prepare_cached(&sql)?;
            let limits = params![bytes(&who.workspace), who.agent, prefix, i64::from(limit) + 1, skip];
            let mut found: Vec<Memory> =
                statement.query_map(limits, memory)?.collect::<rusqlite::Result<_>>()?;
            let more = found.len() > limit as usize;
            found.truncate(limit as usize);
            Ok((found, more))
        })
    }

    fn history(&self, who: &MemoryCaller, key: &str) -> Result<Vec<MemoryVersion>, StoreError> {
        self.database.read(|connection| {
            let sql = format!(
                "SELECT m.number FROM memories m WHERE {SEEN} AND (m.key = ?3 OR m.id = ?3)
                 ORDER BY m.deleted_at_us IS NOT NULL, m.number DESC LIMIT 1"
            );
            let number: Option<i64> = connection
                .query_row(&sql, params![bytes(&who.workspace), who.agent, key], |row| row.get(0))
                .optional()?;
            let mut statement = connection.prepare_cached(
                "SELECT version, what, content, at_us, agent, session, call FROM memory_versions
                 WHERE memory = ? ORDER BY version",
            )?;
            statement.query_map([number], version)?.collect()
        })
    }

    fn with_words(&self, who: &MemoryCaller, terms: &[String], most: u32) -> Result<WordMatches, StoreError> {
        self.database.read(|connection| finding::with_words(connection, who, terms, most))
    }

    fn vectors(
        &self,
        who: &MemoryCaller,
        model: &[u8; 32],
        visit: &mut dyn FnMut(i64, &[u8]),
    ) -> Result<(), StoreError> {
        self.database.read(|connection| finding::vectors(connection, who, model, visit))
    }

    fn numbered(&self, who: &MemoryCaller, numbers: &[i64]) -> Result<Vec<(i64, Memory)>, StoreError> {
        self.database.read(|connection| finding::numbered(connection, who, numbers))
    }

    fn unembedded(
        &self,
        who: &MemoryCaller,
        model: &[u8; 32],
        most: u32,
    ) -> Result<(u64, Vec<Unembedded>), StoreError> {
        self.database.read(|connection| finding::unembedded(connection, who, model, most))
    }

    fn keep_vectors(&self, model: &[u8; 32], of: &[(&Unembedded, Vec<Vec<u8>>)]) -> Result<(), StoreError> {
        self.database.write(|connection| finding::keep_vectors(connection, model, of))
    }
}

impl SqliteMemories {
    pub(crate) fn new(database: Arc<Database>) -> Self {
        Self { database, adopted: Mutex::default() }
    }

    fn write(
        &self,
        who: &MemoryCaller,
        work: impl FnOnce(&Connection) -> rusqlite::Result<ChangeOutcome>,
    ) -> Result<ChangeOutcome, StoreError> {
        if who.only_tries { self.database.try_write(work) } else { self.database.write(work) }
    }

    fn change(
        &self,
        who: &MemoryCaller,
        key: &str,
        expected: Option<u64>,
        change: impl FnOnce(&Connection, i64, &Memory) -> rusqlite::Result<()>,
    ) -> Result<ChangeOutcome, StoreError> {
        self.write(who, |connection| {
            let Some((number, memory)) = find(connection, who, key)? else {
                return Ok(ChangeOutcome::Unknown);
            };
            if expected.is_some_and(|expected| expected != memory.version) {
                return Ok(ChangeOutcome::Conflict(memory));
            }
            change(connection, number, &memory)?;
            now_as(connection, number)
        })
    }
}

/// Finds the memory that an agent means by a key or id: its own memory comes before a shared one.
fn find(connection: &Connection, who: &MemoryCaller, key: &str) -> rusqlite::Result<Option<(i64, Memory)>> {
    let sql = format!(
        "SELECT {COLUMNS}, m.number FROM memories m
         WHERE {SEEN} AND (m.key = ?3 OR m.id = ?3) AND m.deleted_at_us IS NULL ORDER BY m.shared LIMIT 1"
    );
    let found = |row: &Row<'_>| Ok((row.get(8)?, memory(row)?));
    connection.query_row(&sql, params![bytes(&who.workspace), who.agent, key], found).optional()
}

fn now_as(connection: &Connection, number: i64) -> rusqlite::Result<ChangeOutcome> {
    let sql = format!("SELECT {COLUMNS} FROM memories m WHERE m.number = ?");
    connection.query_row(&sql, [number], memory).map(ChangeOutcome::Done)
}

fn note(
    connection: &Connection,
    who: &MemoryCaller,
    number: i64,
    version: i64,
    what: &str,
    content: &str,
) -> rusqlite::Result<()> {
    let now = who.now.as_microsecond();
    connection.execute(
        "INSERT INTO memory_versions (memory, version, what, content, at_us, agent, session, call)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        params![number, version, what, content, now, who.agent, who.session, who.call],
    )?;
    Ok(())
}

fn next(memory: &Memory) -> i64 {
    i64::try_from(memory.version).unwrap_or(i64::MAX).saturating_add(1)
}

fn memory(row: &Row<'_>) -> rusqlite::Result<Memory> {
    Ok(Memory {
        id: row.get(0)?,
        key: row.get(1)?,
        content: row.get(2)?,
        version: u64::try_from(row.get::<_, i64>(3)?).unwrap_or_default(),
        shared: row.get(4)?,
        agent: row.get(5)?,
        created_at: time(6, row.get(6)?)?,
        changed_at: time(7, row.get(7)?)?,
    })
}

fn version(row: &Row<'_>) -> rusqlite::Result<MemoryVersion> {
    Ok(MemoryVersion {
        version: u64::try_from(row.get::<_, i64>(0)?).unwrap_or_default(),
        what: row.get(1)?,
        content: row.get(2)?,
        at: time(3, row.get(3)?)?,
        agent: row.get(4)?,
        session: row.get(5)?,
        call: row.get(6)?,
    })
}
