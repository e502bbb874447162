//! Agents, shared by all processes of a state folder.
//!
//! Every statement of an owner names its epoch and an open state, so that a process whose agent was
//! taken, stopped or given up changes nothing.

mod conversations;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use rusqlite::{Connection, OptionalExtension, Row, ToSql, params};
use store_api::{
    AgentAddOutcome, AgentFilter, AgentRow, AgentState, AgentStore, ConversationEntry, StoreError,
};

use crate::approvals::{bytes, time};
use crate::columns::{amount, optional_time, stored, word};
use crate::database::Database;

/// Columns of an agent, in the order of the indices in [`read`].
const COLUMNS: &str = "id, workspace, parent, name, task, model, state, settings, created_by, owner, epoch, \
     held_until_us, created_at_us, ended_at_us, outcome, spent_micro_usd, spent_tokens";

/// Condition of an open agent, which the indexes have word for word.
const OPEN: &str = "state IN ('running', 'idle')";

/// The agents of one store.
pub(crate) struct SqliteAgents {
    database: Arc<Database>,
}

impl AgentStore for SqliteAgents {
    fn add(&self, row: &AgentRow, most_open: u32) -> Result<AgentAddOutcome, StoreError> {
        let mut row = row.clone();
        for text in [Some(&mut row.name), Some(&mut row.task), row.outcome.as_mut()].into_iter().flatten() {
            self.database.cover(text);
        }
        self.database.write(|connection| {
            if connection.prepare_cached("SELECT 1 FROM agents WHERE id = ?")?.exists([&row.id])? {
                return Ok(AgentAddOutcome::Taken);
            }
            let count = format!("SELECT count(*) FROM agents WHERE workspace = ? AND {OPEN}");
            let open: u32 = connection
                .prepare_cached(&count)?
                .query_row([bytes(&row.workspace)], |found| found.get(0))?;
            if open >= most_open {
                return Ok(AgentAddOutcome::Full);
            }
            insert(connection, &row)?;
            Ok(AgentAddOutcome::Added)
        })
    }

    fn find(&self, id: &str) -> Result<Option<AgentRow>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM agents WHERE id = ?");
        self.database.read(|connection| connection.prepare_cached(&sql)?.query_row([id], read).optional())
    }

    fn list(&self, workspace: &Path, filter: AgentFilter, limit: u32) -> Result<Vec<AgentRow>, StoreError> {
        let chosen = match filter {
            AgentFilter::Open => OPEN,
            AgentFilter::All => "1",
        };
        let sql = format!(
            "SELECT {COLUMNS} FROM agents WHERE workspace = ? AND {chosen}
             ORDER BY created_at_us DESC, number DESC LIMIT ?"
        );
        self.rows(&sql, params![bytes(workspace), limit])
    }

    fn children(&self, id: &str) -> Result<Vec<AgentRow>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM agents WHERE parent = ? ORDER BY created_at_us, number");
        self.rows(&sql, params![id])
    }

    fn latest(&self, workspace: &Path, name: Option<&str>) -> Result<Option<AgentRow>, StoreError> {
        let named = if name.is_some() { "name = ?2" } else { "?2 IS NULL" };
        let sql = format!(
            "SELECT {COLUMNS} FROM agents WHERE workspace = ?1 AND {named} AND parent IS NULL
             ORDER BY created_at_us DESC, number DESC LIMIT 1"
        );
        Ok(self.rows(&sql, params![bytes(workspace), name])?.pop())
    }

    fn take(
        &self,
        id: &str,
        owner: &str,
        now: Timestamp,
        lease: SignedDuration,
    ) -> Result<Option<u32>, StoreError> {
        let held_until = now.checked_add(lease).unwrap_or(Timestamp::MAX);
        let sql = format!(
            "UPDATE agents SET owner = ?2, epoch = epoch + 1, held_until_us = ?4,
                state = CASE WHEN {OPEN} THEN state ELSE 'running' END,
                ended_at_us = CASE WHEN {OPEN} THEN ended_at_us END,
                outcome = CASE WHEN {OPEN} THEN outcome END
             WHERE id = ?1 AND (owner = ?2 OR held_until_us <= ?3 OR NOT {OPEN}) RETURNING epoch"
        );
        self.database.write(|connection| {
            let values = params![id, owner, now.as_microsecond(), held_until.as_microsecond()];
            connection.prepare_cached(&sql)?.query_row(values, |row| row.get(0)).optional()
        })
    }

    fn renew(&self, id: &str, epoch: u32, held_until: Timestamp) -> Result<bool, StoreError> {
        let sql = format!("UPDATE agents SET held_until_us = ? WHERE id = ? AND epoch = ? AND {OPEN}");
        self.change(&sql, params![held_until.as_microsecond(), id, epoch])
    }

    fn set_state(
        &self,
        id: &str,
        epoch: u32,
        state: AgentState,
        outcome: Option<&str>,
        ended_at: Option<Timestamp>,
    ) -> Result<bool, StoreError> {
        let mut outcome = outcome.map(str::to_owned);
        if let Some(text) = &mut outcome {
            self.database.cover(text);
        }
        let sql = format!(
            "UPDATE agents SET state = ?, outcome = ?, ended_at_us = ? WHERE id = ? AND epoch = ? AND {OPEN}"
        );
        let ended_at = ended_at.map(Timestamp::as_microsecond);
        self.change(&sql, params![state.as_str(), outcome, ended_at, id, epoch])
    }

    fn add_spending(&self, id: &str, micro_usd: u64, tokens: u64) -> Result<bool, StoreError> {
        // A sum beyond the greatest integer would become a fraction, which the table refuses.
        let sql = "UPDATE agents SET spent_micro_usd = spent_micro_usd + min(?2, ?4 - spent_micro_usd),
                spent_tokens = spent_tokens + min(?3, ?4 - spent_tokens) WHERE id = ?1";
        self.change(sql, params![id, stored(micro_usd), stored(tokens), i64::MAX])
    }

    fn expire(&self, now: Timestamp) -> Result<Vec<AgentRow>, StoreError> {
        let now = now.as_microsecond();
        let expired = format!("{OPEN} AND held_until_us <= ?1");
        // Most of the time there is none, and the caller need not wait for processes that write.
        let any = format!("SELECT 1 FROM agents WHERE {expired}");
        if !self.database.read(|connection| connection.prepare_cached(&any)?.exists([now]))? {
            return Ok(Vec::new());
        }
        let sql = format!(
            "UPDATE agents SET state = 'interrupted', ended_at_us = ?1 WHERE {expired} RETURNING {COLUMNS}"
        );
        self.database.write(|connection| connection.prepare_cached(&sql)?.query_map([now], read)?.collect())
    }

    fn append(&self, id: &str, epoch: u32, entries: &[ConversationEntry]) -> Result<bool, StoreError> {
        conversations::append(&self.database, id, epoch, entries)
    }

    fn conversation(&self, id: &str, from_seq: u64) -> Result<Vec<ConversationEntry>, StoreError> {
        conversations::read(&self.database, id, from_seq)
    }

    fn summarise(
        &self,
        id: &str,
        epoch: u32,
        upto_seq: u64,
        entry: &ConversationEntry,
    ) -> Result<bool, StoreError> {
        conversations::summarise(&self.database, id, epoch, upto_seq, entry)
    }

    fn prune(&self, before: Timestamp, newest: u32) -> Result<u64, StoreError> {
        let open_child = "SELECT 1 FROM agents AS child WHERE child.parent = agents.id
             AND child.state IN ('running', 'idle')";
        let sql = format!(
            "SELECT number FROM agents WHERE number IN (
                SELECT number FROM agents WHERE NOT {OPEN} ORDER BY ended_at_us DESC, number DESC LIMIT -1 OFFSET ?)
             AND ended_at_us < ? AND NOT EXISTS ({open_child})"
        );
        self.database.write(|connection| {
            let mut chosen = connection.prepare_cached(&sql)?;
            let numbers: Vec<i64> = chosen
                .query_map(params![newest, before.as_microsecond()], |row| row.get(0))?
                .collect::<Result<_, _>>()?;
            for number in &numbers {
                connection.prepare_cached("DELETE FROM agent_entries WHERE agent = ?")?.execute([number])?;
                connection.prepare_cached("DELETE FROM agents WHERE number = ?")?.execute([number])?;
            }
            Ok(numbers.len() as u64)
        })
    }
}

impl SqliteAgents {
    pub(crate) fn new(database: Arc<Database>) -> Self {
        Self { database }
    }

    fn rows(&self, sql: &str, values: &[&dyn ToSql]) -> Result<Vec<AgentRow>, StoreError> {
        self.database.read(|connection| connection.prepare_cached(sql)?.query_map(values, read)?.collect())
    }

    /// Runs a statement that changes at most one agent, and returns true if it has changed one.
    fn change(&self, sql: &str, values: &[&dyn ToSql]) -> Result<bool, StoreError> {
        self.database.write(|connection| Ok(connection.prepare_cached(sql)?.execute(values)? == 1))
    }
}

fn insert(connection: &Connection, row: &AgentRow) -> rusqlite::Result<()> {
    let sql =
        format!("INSERT INTO agents ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
    let values = params![
        row.id,
        bytes(&row.workspace),
        row.parent,
        row.name,
        row.task,
        row.model,
        row.state.as_str(),
        row.settings,
        row.created_by,
        row.owner,
        row.epoch,
        row.held_until.as_microsecond(),
        row.created_at.as_microsecond(),
        row.ended_at.map(Timestamp::as_microsecond),
        row.outcome,
        stored(row.spent_micro_usd),
        stored(row.spent_tokens),
    ];
    connection.prepare_cached(&sql)?.execute(values).map(drop)
}

fn read(row: &Row<'_>) -> rusqlite::Result<AgentRow> {
    let workspace: Vec<u8> = row.get(1)?;
    Ok(AgentRow {
        id: row.get(0)?,
        workspace: PathBuf::from(OsStr::from_bytes(&workspace)),
        parent: row.get(2)?,
        name: row.get(3)?,
        task: row.get(4)?,
        model: row.get(5)?,
        state: word(row, 6, "state")?,
        settings: row.get(7)?,
        created_by: row.get(8)?,
        owner: row.get(9)?,
        epoch: row.get(10)?,
        held_until: time(11, row.get(11)?)?,
        created_at: time(12, row.get(12)?)?,
        ended_at: optional_time(row, 13)?,
        outcome: row.get(14)?,
        spent_micro_usd: amount(row, 15)?,
        spent_tokens: amount(row, 16)?,
    })
}
