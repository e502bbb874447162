//! Conversations of agents. Each function is one transaction.

use rusqlite::{Connection, OptionalExtension, params};
use store_api::{ConversationEntry, ENTRY_BYTES_MAX, StoreError};

use crate::columns::{amount, stored};
use crate::database::Database;

use super::OPEN;

/// Appends entries; false if the epoch is void.
pub(super) fn append(
    database: &Database,
    id: &str,
    epoch: u32,
    entries: &[ConversationEntry],
) -> Result<bool, StoreError> {
    check_lengths(entries)?;
    database.write(|connection| {
        let Some(agent) = owned(connection, id, epoch)? else {
            return Ok(Ok(false));
        };
        // All are checked before the first is written, because the transaction is committed.
        let mut last = last_entry(connection, agent)?;
        for entry in entries {
            if last.is_some_and(|last| entry.seq <= last) || entry.seq > stored(entry.seq).unsigned_abs() {
                return Ok(Err(StoreError::EntryOutOfOrder { seq: entry.seq, last }));
            }
            last = Some(entry.seq);
        }
        for entry in entries {
            insert(connection, agent, entry.seq, entry)?;
        }
        Ok(Ok(true))
    })?
}

/// Returns the entries from a number on.
pub(super) fn read(
    database: &Database,
    id: &str,
    from_seq: u64,
) -> Result<Vec<ConversationEntry>, StoreError> {
    database.read(|connection| {
        let mut statement = connection.prepare_cached(
            "SELECT seq, json, tokens FROM agent_entries
             WHERE agent = (SELECT number FROM agents WHERE id = ?) AND seq >= ? ORDER BY seq",
        )?;
        let rows = statement.query_map(params![id, stored(from_seq)], |row| {
            Ok(ConversationEntry { seq: amount(row, 0)?, json: row.get(1)?, tokens: amount(row, 2)? })
        })?;
        rows.collect()
    })
}

/// Replaces the entries up to and with a number by one; false if the epoch is void.
pub(super) fn summarise(
    database: &Database,
    id: &str,
    epoch: u32,
    upto_seq: u64,
    entry: &ConversationEntry,
) -> Result<bool, StoreError> {
    check_lengths(std::slice::from_ref(entry))?;
    database.write(|connection| {
        let Some(agent) = owned(connection, id, epoch)? else {
            return Ok(Ok(false));
        };
        let last = last_entry(connection, agent)?;
        if last.is_none_or(|last| upto_seq > last) {
            return Ok(Err(StoreError::EntryOutOfOrder { seq: upto_seq, last }));
        }
        connection
            .prepare_cached("DELETE FROM agent_entries WHERE agent = ? AND seq <= ?")?
            .execute(params![agent, stored(upto_seq)])?;
        insert(connection, agent, upto_seq, entry)?;
        Ok(Ok(true))
    })?
}

fn check_lengths(entries: &[ConversationEntry]) -> Result<(), StoreError> {
    match entries.iter().map(|entry| entry.json.len()).find(|length| *length > ENTRY_BYTES_MAX) {
        Some(bytes) => {
            Err(StoreError::TooLong { what: "entry of the conversation", bytes, most: ENTRY_BYTES_MAX })
        }
        None => Ok(()),
    }
}

/// Returns the number of an open agent, if the epoch is its own.
fn owned(connection: &Connection, id: &str, epoch: u32) -> rusqlite::Result<Option<i64>> {
    let sql = format!("SELECT number FROM agents WHERE id = ? AND epoch = ? AND {OPEN}");
    connection.prepare_cached(&sql)?.query_row(params![id, epoch], |row| row.get(0)).optional()
}

fn last_entry(connection: &Connection, agent: i64) -> rusqlite::Result<Option<u64>> {
    let sql = "SELECT seq FROM agent_entries WHERE agent = ? ORDER BY seq DESC LIMIT 1";
    connection.prepare_cached(sql)?.query_row([agent], |row| amount(row, 0)).optional()
}

fn insert(connection: &Connection, agent: i64, seq: u64, entry: &ConversationEntry) -> rusqlite::Result<()> {
    connection
        .prepare_cached("INSERT INTO agent_entries (agent, seq, json, tokens) VALUES (?, ?, ?, ?)")?
        .execute(params![agent, stored(seq), entry.json, stored(entry.tokens)])
        .map(drop)
}
