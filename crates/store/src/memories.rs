//! Memories of agents: texts by key, with all their versions and a word index.
//!
//! An agent sees its own memories and those shared in the workspace. A deleted memory disappears
//! from every list, but its history stays. Memories are only written on request of a call.

mod finding;

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::approvals::{bytes, time};
use crate::database::Database;
use crate::error::StoreError;

use finding::forget_vectors;
pub use finding::{FoundMemories, QueryVector, Unembedded};

/// Maximum number of one agent's memories that are not deleted.
const MAX_MEMORIES: i64 = 10_000;

/// A memory, in its current version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Id of the memory, which never changes.
    pub id: String,
    /// Key of the memory.
    pub key: String,
    /// Text of the memory.
    pub content: String,
    /// Version, from 1, incremented with each change.
    pub version: u64,
    /// True if every agent of the workspace sees it.
    pub shared: bool,
    /// Agent that created it.
    pub agent: String,
    /// Time of creation, in whole microseconds.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub changed_at: Timestamp,
}

/// One version of a memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryVersion {
    /// Number of the version, from 1.
    pub version: u64,
    /// `created`, `updated` or `deleted`.
    pub what: String,
    /// Text of this version; for a deletion, the last text.
    pub content: String,
    /// Time of the change.
    pub at: Timestamp,
    /// Agent that made the change.
    pub agent: String,
    /// Session of the change.
    pub session: String,
    /// Call of the change.
    pub call: String,
}

/// Identity of the agent and its call.
#[derive(Clone, Debug)]
pub struct MemoryCaller {
    /// Folder that the memories belong to.
    pub workspace: PathBuf,
    /// Name of the agent.
    pub agent: String,
    /// Session of the agent.
    pub session: String,
    /// Id of the call.
    pub call: String,
    /// Time of the call.
    pub now: Timestamp,
    /// True for a dry run: a change is computed and returned, but not made.
    pub only_tries: bool,
}

/// Outcome of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeOutcome {
    /// The change was made.
    Done(Memory),
    /// The key or id is unknown.
    Unknown,
    /// The memory already exists, or has another version than expected.
    Conflict(Memory),
    /// The agent has reached its maximum number of memories.
    Full,
}

/// The memories of one store.
pub struct Memories {
    database: Arc<Database>,
    /// Agents that have already adopted the memories of their earlier name.
    adopted: Mutex<HashSet<String>>,
}

const COLUMNS: &str =
    "m.id, m.key, m.content, m.version, m.shared, m.agent, m.created_at_us, m.changed_at_us";
/// Condition for the memories that an agent sees: `?1` is the workspace, `?2` the agent.
const SEEN: &str = "m.workspace = ?1 AND (m.agent = ?2 OR m.shared = 1)";

impl Memories {
    /// Gives an agent the memories under the name that an earlier version used for it. On a key
    /// conflict, the agent keeps its own memory.
    pub fn adopt(&self, earlier: &str, agent: &str) -> Result<(), StoreError> {
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

    /// Creates a memory under a key that is new to every agent that would see it.
    pub fn create(
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

    /// Returns the memory with this key or id.
    pub fn read(&self, who: &MemoryCaller, key: &str) -> Result<Option<Memory>, StoreError> {
        self.database.read(|connection| Ok(find(connection, who, key)?.map(|(_, memory)| memory)))
    }

    /// Replaces the text of a memory, if it still has the expected version.
    pub fn update(
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

    /// Deletes a memory from every list; its history stays.
    pub fn delete(
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

    /// Lists the memories whose key begins with `prefix`, by key, from position `skip` on, and
    /// whether more follow.
    pub fn list(
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

    /// Lists all versions of the memory with this id or key, oldest first, even if the memory is
    /// deleted.
    pub fn history(&self, who: &MemoryCaller, key: &str) -> Result<Vec<MemoryVersion>, StoreError> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Store;

    pub(super) fn who(agent: &str) -> MemoryCaller {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let text = |text: &str| text.to_owned();
        MemoryCaller {
            workspace: "/w".into(),
            agent: text(agent),
            session: text("s"),
            call: text("c"),
            now,
            only_tries: false,
        }
    }

    pub(super) fn done(remembered: ChangeOutcome) -> Memory {
        let ChangeOutcome::Done(memory) = remembered else { panic!("{remembered:?}") };
        memory
    }

    #[test]
    fn an_agent_has_its_own_and_what_is_shared_and_nothing_of_another() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let memories = store.memories();
        let (one, two) = (who("one"), who("two"));
        done(memories.create(&one, "i1", ("color", "blue"), false).unwrap());
        done(memories.create(&one, "i2", ("port", "8080 is the port"), true).unwrap());
        assert_eq!(memories.read(&two, "color").unwrap(), None);
        assert_eq!(memories.read(&two, "i1").unwrap(), None);
        assert_eq!(memories.read(&two, "port").unwrap().unwrap().agent, "one");
        assert_eq!(memories.update(&two, "color", "red", None).unwrap(), ChangeOutcome::Unknown);
        assert!(memories.history(&two, "i1").unwrap().is_empty());
        let keys = |who: &MemoryCaller| {
            let (found, _) = memories.list(who, "", (0, 10)).unwrap();
            found.into_iter().map(|memory| memory.key).collect::<Vec<_>>()
        };
        let by_words = |who: &MemoryCaller, words: &str| {
            let found = memories.search(who, words, None, (0, 10)).unwrap().memories;
            found.into_iter().map(|(memory, _)| memory.key).collect::<Vec<_>>()
        };
        assert_eq!(keys(&one), ["color", "port"]);
        assert_eq!(keys(&two), ["port"]);
        assert_eq!(by_words(&two, "blue ports"), ["port"]);
        assert_eq!(by_words(&one, "blue"), ["color"]);
        let elsewhere = MemoryCaller { workspace: "/other".into(), ..one.clone() };
        assert!(keys(&elsewhere).is_empty());
        // An agent's own memory wins over a shared one with the same key, if it existed first.
        assert!(matches!(
            memories.create(&two, "i3", ("port", "x"), false).unwrap(),
            ChangeOutcome::Conflict(_)
        ));
    }

    #[test]
    fn a_change_expects_a_version_and_every_version_stays() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let memories = store.memories();
        let one = who("one");
        done(memories.create(&one, "i", ("k", "first"), false).unwrap());
        let changed = done(memories.update(&one, "k", "second", Some(1)).unwrap());
        assert_eq!((changed.version, changed.content.as_str()), (2, "second"));
        let stale = memories.update(&one, "k", "third", Some(1)).unwrap();
        assert!(matches!(stale, ChangeOutcome::Conflict(Memory { version: 2, .. })));
        done(memories.delete(&one, "k", Some(2)).unwrap());
        assert_eq!(memories.read(&one, "k").unwrap(), None);
        assert_eq!(memories.search(&one, "second", None, (0, 10)).unwrap().memories, []);
        let versions = memories.history(&one, "k").unwrap();
        let told: Vec<_> =
            versions.iter().map(|v| (v.version, v.what.as_str(), v.content.as_str())).collect();
        assert_eq!(told, [(1, "created", "first"), (2, "updated", "second"), (3, "deleted", "second")]);
        assert_eq!((versions[0].call.as_str(), versions[0].agent.as_str()), ("c", "one"));
        // The key is free again.
        done(memories.create(&one, "i2", ("k", "anew"), false).unwrap());
    }

    #[test]
    fn what_an_earlier_version_kept_under_another_name_is_the_agents_own() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let (before, now, other) = (who("subject abc"), who("subject abcdef"), who("subject abx"));
        for (id, key) in [("i", "k"), ("j", "gone"), ("l", "both")] {
            done(store.memories().create(&before, id, (key, "boats"), false).unwrap());
        }
        done(store.memories().delete(&before, "gone", None).unwrap());
        done(store.memories().create(&now, "m", ("both", "newer"), false).unwrap());
        store.memories().adopt("subject abc", "subject abcdef").unwrap();
        assert_eq!(store.memories().read(&now, "k").unwrap().unwrap().content, "boats");
        assert_eq!(store.memories().read(&now, "both").unwrap().unwrap().content, "newer");
        assert_eq!(store.memories().search(&now, "boats", None, (0, 10)).unwrap().memories.len(), 1);
        assert_eq!(store.memories().history(&now, "j").unwrap().len(), 2);
        assert_eq!(store.memories().read(&other, "k").unwrap(), None);
        assert_eq!(store.memories().read(&before, "k").unwrap(), None);
    }

    #[test]
    fn what_is_only_tried_comes_to_the_same_and_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let memories = store.memories();
        let one = who("one");
        let tries = MemoryCaller { only_tries: true, ..one.clone() };
        let first = done(memories.create(&one, "i", ("k", "first"), false).unwrap());
        assert_eq!(done(memories.create(&tries, "j", ("new", "text"), true).unwrap()).key, "new");
        let updated = done(memories.update(&tries, "k", "second", Some(1)).unwrap());
        assert_eq!((updated.version, updated.content.as_str()), (2, "second"));
        assert!(matches!(
            memories.create(&tries, "j", ("k", "x"), false).unwrap(),
            ChangeOutcome::Conflict(_)
        ));
        assert!(matches!(memories.update(&tries, "k", "x", Some(7)).unwrap(), ChangeOutcome::Conflict(_)));
        assert_eq!(memories.delete(&tries, "none", None).unwrap(), ChangeOutcome::Unknown);
        done(memories.delete(&tries, "k", None).unwrap());
        let (all, _) = memories.list(&one, "", (0, 10)).unwrap();
        assert_eq!(all, [first]);
        assert_eq!(memories.history(&one, "k").unwrap().len(), 1);
        assert_eq!(memories.search(&one, "second text", None, (0, 10)).unwrap().memories, []);
    }
}
