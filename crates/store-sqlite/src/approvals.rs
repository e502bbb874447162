//! Questions to humans and their answers, shared by all processes of a state folder.
//!
//! The first answer wins, and an approval for one call is used by one call: each step is one
//! immediate transaction on the row's state. A [`Lease`](store_api::Lease) allows more than one call.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use rusqlite::{Connection, OptionalExtension, Row};
use store_api::{
    AnswerOutcome, ApprovalAnswer, ApprovalRow, ApprovalState, Approvals, EarlierAnswer, StoreError,
};

use crate::database::Database;
use crate::leases::add_lease;

/// Time after which ended questions are deleted, counted from the question. The audit keeps the
/// outcome.
const KEPT_FOR: SignedDuration = SignedDuration::from_hours(30 * 24);

/// Maximum number of waiting questions in all workspaces; a new question expires the oldest. An
/// agent that asks without end therefore fills neither the disk nor the human's list.
const MAX_WAITING: u32 = 200;

/// The questions of one store.
pub(crate) struct SqliteApprovals {
    database: Arc<Database>,
}

impl Approvals for SqliteApprovals {
    fn ask(&self, row: &ApprovalRow) -> Result<ApprovalRow, StoreError> {
        let mut row = row.clone();
        for text in [&mut row.session, &mut row.tool, &mut row.question] {
            self.database.cover(text);
        }
        let row = &row;
        self.database.write(|connection| {
            end_expired(connection, row.asked_at)?;
            let forgotten = row.asked_at.checked_sub(KEPT_FOR).unwrap_or(Timestamp::MIN);
            connection.execute(
                "DELETE FROM approvals WHERE asked_at_us < ? AND state NOT IN ('waiting', 'approved')",
                [forgotten.as_microsecond()],
            )?;
            connection.execute(
                "INSERT INTO approvals (id, call, session, door, workspace, tool, level, plan, request, shape, question,
                    asked_at_us, expires_at_us, state, changes)
                 VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'waiting', ?) ON CONFLICT DO NOTHING",
                rusqlite::params![
                    row.id,
                    row.call,
                    row.session,
                    row.door,
                    bytes(&row.workspace),
                    row.tool,
                    row.level,
                    row.plan,
                    row.request,
                    row.shape,
                    row.question,
                    row.asked_at.as_microsecond(),
                    row.expires_at.as_microsecond(),
                    row.changes,
                ],
            )?;
            connection.execute(
                "UPDATE approvals SET state = 'expired'
                 WHERE state = 'waiting' AND NOT (workspace = ? AND plan = ?) AND id NOT IN (
                    SELECT id FROM approvals WHERE state = 'waiting' ORDER BY asked_at_us DESC, rowid DESC LIMIT ?)",
                rusqlite::params![bytes(&row.workspace), row.plan, MAX_WAITING],
            )?;
            connection.query_row(
                &format!("SELECT {COLUMNS} FROM approvals WHERE workspace = ? AND plan = ? AND state = 'waiting'"),
                rusqlite::params![bytes(&row.workspace), row.plan],
                read,
            )
        })
    }

    fn answer(&self, id: &str, answer: &ApprovalAnswer, now: Timestamp) -> Result<AnswerOutcome, StoreError> {
        let mut answer = answer.clone();
        self.database.cover(&mut answer.by);
        if let Some(message) = &mut answer.message {
            self.database.cover(message);
        }
        if let Some(lease) = &mut answer.lease {
            for text in lease.texts() {
                self.database.cover(text);
            }
        }
        let answer = &answer;
        let answered = self.database.write(|connection| {
            end_expired(connection, now)?;
            let state = if answer.approved { ApprovalState::Approved } else { ApprovalState::Denied };
            let changed = connection.execute(
                "UPDATE approvals SET state = ?, scope = ?, answered_at_us = ?, answered_by = ?, message = ?,
                    expires_at_us = ? WHERE id = ? AND state = 'waiting'",
                rusqlite::params![
                    state.as_str(),
                    answer.scope,
                    now.as_microsecond(),
                    answer.by,
                    answer.message,
                    answer.expires_at.as_microsecond(),
                    id,
                ],
            )?;
            if changed == 1
                && let Some(lease) = answer.lease.as_ref().filter(|_| answer.approved)
            {
                add_lease(connection, lease)?;
            }
            let row = find(connection, id)?;
            Ok(row
                .map(|row| if changed == 1 { AnswerOutcome::First(row) } else { AnswerOutcome::Before(row) }))
        })?;
        answered.ok_or_else(|| StoreError::ApprovalUnknown { id: id.to_owned() })
    }

    fn use_up(&self, id: &str, now: Timestamp) -> Result<bool, StoreError> {
        self.database.write(|connection| {
            end_expired(connection, now)?;
            let sql = "UPDATE approvals SET state = 'used' WHERE id = ? AND state = 'approved'";
            Ok(connection.execute(sql, [id])? == 1)
        })
    }

    fn earlier(
        &self,
        workspace: &Path,
        plan: &str,
        request: &str,
        now: Timestamp,
    ) -> Result<EarlierAnswer, StoreError> {
        let workspace = bytes(workspace);
        // Most calls have no answer, and need not wait for processes that write.
        let any = self.database.read(|connection| {
            let mut statement = connection.prepare(
                "SELECT EXISTS (SELECT 1 FROM approvals WHERE workspace = ? AND request = ?
                    AND state IN ('approved', 'denied'))",
            )?;
            statement.query_row(rusqlite::params![workspace, request], |row| row.get::<_, bool>(0))
        });
        if !any? {
            return Ok(EarlierAnswer::None);
        }
        self.database.write(|connection| {
            end_expired(connection, now)?;
            let newest = |condition: &str, value: &str| {
                let sql = format!(
                    "SELECT {COLUMNS} FROM approvals WHERE workspace = ? AND {condition} ORDER BY answered_at_us DESC LIMIT 1"
                );
                connection.query_row(&sql, rusqlite::params![workspace, value], read).optional()
            };
            let set = |id: &str, change: &str| {
                connection.execute(&format!("UPDATE approvals SET {change} WHERE id = ?"), [id])
            };
            if let Some(row) = newest("plan = ? AND state = 'approved'", plan)? {
                set(&row.id, "state = 'used'")?;
                return Ok(EarlierAnswer::Approved(row));
            }
            if let Some(row) = newest("request = ? AND state = 'approved'", request)? {
                set(&row.id, "state = 'expired'")?;
                return Ok(EarlierAnswer::Drifted(row));
            }
            let untold = "plan = ? AND state = 'denied' AND told = 0 AND expires_at_us > ";
            if let Some(row) = newest(&format!("{untold}{}", now.as_microsecond()), plan)? {
                set(&row.id, "told = 1")?;
                return Ok(EarlierAnswer::Denied(row));
            }
            Ok(EarlierAnswer::None)
        })
    }

    fn take_answers(
        &self,
        workspace: &Path,
        request: &str,
        now: Timestamp,
    ) -> Result<Vec<ApprovalRow>, StoreError> {
        let workspace = bytes(workspace);
        let open = "workspace = ? AND request = ? AND (state = 'approved' OR state = 'denied' AND told = 0)";
        // Most calls have no answer, and need not wait for processes that write.
        let any = self.database.read(|connection| {
            let sql = format!("SELECT EXISTS (SELECT 1 FROM approvals WHERE {open})");
            let mut statement = connection.prepare(&sql)?;
            statement.query_row(rusqlite::params![workspace, request], |row| row.get::<_, bool>(0))
        });
        if !any? {
            return Ok(Vec::new());
        }
        self.database.write(|connection| {
            end_expired(connection, now)?;
            let sql = format!(
                "SELECT {COLUMNS} FROM approvals WHERE {open} AND expires_at_us > ? ORDER BY answered_at_us"
            );
            let mut statement = connection.prepare(&sql)?;
            let until = now.as_microsecond();
            let rows = statement.query_map(rusqlite::params![workspace, request, until], read)?;
            let rows: Vec<ApprovalRow> = rows.collect::<Result<_, _>>()?;
            for row in &rows {
                connection.execute(
                    "UPDATE approvals SET told = 1,
                        state = CASE state WHEN 'approved' THEN 'used' ELSE state END WHERE id = ?",
                    [&row.id],
                )?;
            }
            Ok(rows)
        })
    }

    fn withdraw(&self, workspace: &Path, request: &str) -> Result<(), StoreError> {
        self.database.write(|connection| {
            connection
                .execute(
                    "UPDATE approvals SET state = 'expired'
                     WHERE workspace = ? AND request = ? AND state = 'waiting'",
                    rusqlite::params![bytes(workspace), request],
                )
                .map(drop)
        })
    }

    fn set_answer_received(&self, id: &str) -> Result<(), StoreError> {
        self.database.write(|connection| {
            connection.execute("UPDATE approvals SET told = 1 WHERE id = ?", [id]).map(drop)
        })
    }

    fn hold(&self, id: &str, changes: &str) -> Result<ApprovalRow, StoreError> {
        let row = self.database.write(|connection| {
            connection.execute("UPDATE approvals SET changes = ? WHERE id = ?", [changes, id])?;
            find(connection, id)
        })?;
        row.ok_or_else(|| StoreError::ApprovalUnknown { id: id.to_owned() })
    }

    fn settle_changes(
        &self,
        changes: &str,
        applied: bool,
        by: &str,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let state = if applied { ApprovalState::Used } else { ApprovalState::Denied };
        self.database.write(|connection| {
            connection
                .execute(
                    "UPDATE approvals SET state = ?, answered_at_us = coalesce(answered_at_us, ?),
                        answered_by = coalesce(answered_by, ?), told = 1
                     WHERE changes = ? AND state IN ('waiting', 'approved')",
                    rusqlite::params![state.as_str(), now.as_microsecond(), by, changes],
                )
                .map(drop)
        })
    }

    fn find(&self, id: &str, now: Timestamp) -> Result<Option<ApprovalRow>, StoreError> {
        self.database.read(|connection| Ok(find(connection, id)?.map(|row| row.seen_at(now))))
    }

    fn list(&self, open_only: bool, limit: u32, now: Timestamp) -> Result<Vec<ApprovalRow>, StoreError> {
        self.database.read(|connection| {
            let mut statement = connection.prepare(&format!(
                "SELECT {COLUMNS} FROM approvals WHERE NOT ?1 OR (state IN ('waiting', 'approved') AND expires_at_us > ?2)
                 ORDER BY asked_at_us DESC, id DESC LIMIT ?3"
            ))?;
            let rows = statement.query_map((open_only, now.as_microsecond(), limit), read)?;
            rows.map(|row| Ok(row?.seen_at(now))).collect()
        })
    }

    fn allowed_once(&self, workspace: &Path, shape: &str, since: Timestamp) -> Result<u32, StoreError> {
        self.database.read(|connection| {
            connection.query_row(
                "SELECT count(*) FROM approvals WHERE workspace = ? AND shape = ? AND asked_at_us >= ?
                    AND state IN ('approved', 'used') AND scope = 'once'",
                rusqlite::params![bytes(workspace), shape, since.as_microsecond()],
                |row| row.get(0),
            )
        })
    }
}

impl SqliteApprovals {
    pub(crate) fn new(database: Arc<Database>) -> Self {
        Self { database }
    }
}

const COLUMNS: &str = "id, call, session, door, workspace, tool, level, plan, request, shape, question, asked_at_us, \
     expires_at_us, state, changes, scope, answered_at_us, answered_by, message";

/// INVARIANT: every transaction that answers a question or uses an approval calls this function
/// first, so that neither happens after the expiry.
fn end_expired(connection: &Connection, now: Timestamp) -> rusqlite::Result<()> {
    connection
        .execute(
            "UPDATE approvals SET state = 'expired' WHERE state IN ('waiting', 'approved') AND expires_at_us <= ?",
            [now.as_microsecond()],
        )
        .map(drop)
}

fn find(connection: &Connection, id: &str) -> rusqlite::Result<Option<ApprovalRow>> {
    connection.query_row(&format!("SELECT {COLUMNS} FROM approvals WHERE id = ?"), [id], read).optional()
}

fn read(row: &Row<'_>) -> rusqlite::Result<ApprovalRow> {
    let state: String = row.get("state")?;
    let state = state.parse().map_err(|()| invalid(13, "state"))?;
    let workspace: Vec<u8> = row.get("workspace")?;
    let answered_at: Option<i64> = row.get("answered_at_us")?;
    Ok(ApprovalRow {
        id: row.get("id")?,
        call: row.get("call")?,
        session: row.get("session")?,
        door: row.get("door")?,
        workspace: PathBuf::from(OsStr::from_bytes(&workspace)),
        tool: row.get("tool")?,
        level: row.get("level")?,
        plan: row.get("plan")?,
        request: row.get("request")?,
        shape: row.get("shape")?,
        question: row.get("question")?,
        asked_at: time(11, row.get("asked_at_us")?)?,
        expires_at: time(12, row.get("expires_at_us")?)?,
        state,
        changes: row.get("changes")?,
        scope: row.get("scope")?,
        answered_at: answered_at.map(|at| time(16, at)).transpose()?,
        answered_by: row.get("answered_by")?,
        message: row.get("message")?,
    })
}

pub(crate) fn time(index: usize, microseconds: i64) -> rusqlite::Result<Timestamp> {
    Timestamp::from_microsecond(microseconds).map_err(|_| invalid(index, "time"))
}

fn invalid(index: usize, name: &str) -> rusqlite::Error {
    rusqlite::Error::InvalidColumnType(index, name.to_owned(), rusqlite::types::Type::Integer)
}

pub(crate) fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}
