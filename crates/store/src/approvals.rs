//! Questions to humans and their answers, shared by every process of a state folder.
//!
//! The first answer wins, and a yes for one call is used by one call: each step is one immediate transaction on the
//! row's state. What is allowed beyond one call is a [`Lease`](crate::Lease).

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use rusqlite::{Connection, OptionalExtension, Row};
use serde::Serialize;

use crate::Lease;
use crate::database::Database;
use crate::error::StoreError;
use crate::leases::add_lease;

/// Ended questions are forgotten this long after they were asked; the audit keeps what came of them.
const KEPT_FOR: SignedDuration = SignedDuration::from_hours(30 * 24);

/// Questions that may wait at a time, of all workspaces; the oldest expires for a new one. An agent that asks without end
/// fills neither the disk nor the list that a human looks at.
const MOST_WAITING: u32 = 200;

/// A question to a human, and what became of it. Nothing in it may be text that the redaction has not seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ApprovalRow {
    /// The id that an `EAPPROVAL` error carries.
    pub id: String,
    /// The call that asked.
    pub call: String,
    /// Its session.
    pub session: String,
    /// The door that it came through.
    pub door: String,
    /// The workspace that it would act in.
    #[serde(serialize_with = "as_text")]
    pub workspace: PathBuf,
    /// The tool.
    pub tool: String,
    /// The level of the call.
    pub level: String,
    /// The digest of the exact plan: a yes is for this and nothing else.
    pub plan: String,
    /// The digest of what the caller asked for: the plan without what the machine adds to it.
    pub request: String,
    /// What calls of this kind have in common, for counting them.
    pub shape: String,
    /// JSON: what the human is shown.
    pub question: String,
    /// When it was asked; kept in whole microseconds, as every time here.
    pub asked_at: Timestamp,
    /// From when on it can be neither answered nor, where it was approved, used.
    pub expires_at: Timestamp,
    /// What became of it.
    pub state: ApprovalState,
    /// The id under which changes of a command lie aside until it is answered.
    pub changes: Option<String>,
    /// How far the yes reaches.
    pub scope: Option<String>,
    /// When it was answered.
    pub answered_at: Option<Timestamp>,
    /// Who answered.
    pub answered_by: Option<String>,
    /// A word for the agent.
    pub message: Option<String>,
}

/// What became of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ApprovalState {
    /// Nobody has answered yet.
    Waiting,
    /// Yes, and no call has used it yet.
    Approved,
    /// No.
    Denied,
    /// Too late, or what it was given for is no longer there.
    Expired,
    /// Yes, and the call was made.
    Used,
}

/// What a human said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalAnswer {
    /// Yes or no.
    pub approved: bool,
    /// How far the yes reaches.
    pub scope: Option<String>,
    /// Who said so.
    pub by: String,
    /// A word for the agent.
    pub message: Option<String>,
    /// From when on a yes can no longer be used.
    pub expires_at: Timestamp,
    /// What else is allowed by it.
    pub lease: Option<Lease>,
}

/// What came of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answered {
    /// It counts.
    First(ApprovalRow),
    /// Somebody else was faster, or it came too late: this is what counts.
    Before(ApprovalRow),
}

/// What an earlier answer means for a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Earlier {
    /// No answer is there for it.
    None,
    /// A yes, used up by this.
    Approved(ApprovalRow),
    /// A no that its caller has not been told yet. It is told once.
    Denied(ApprovalRow),
    /// A yes to the same request, but to another plan: it is void now.
    Drifted(ApprovalRow),
}

/// The questions of one store.
pub struct Approvals {
    database: Arc<Database>,
}

impl Approvals {
    /// Writes a question down, and gives it back; where one about the same plan waits already, that one.
    pub fn ask(&self, row: &ApprovalRow) -> Result<ApprovalRow, StoreError> {
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
                rusqlite::params![bytes(&row.workspace), row.plan, MOST_WAITING],
            )?;
            connection.query_row(
                &format!("SELECT {COLUMNS} FROM approvals WHERE workspace = ? AND plan = ? AND state = 'waiting'"),
                rusqlite::params![bytes(&row.workspace), row.plan],
                read,
            )
        })
    }

    /// The answer to a question that waits. The first one counts.
    pub fn answer(&self, id: &str, answer: &ApprovalAnswer, now: Timestamp) -> Result<Answered, StoreError> {
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
            Ok(row.map(|row| if changed == 1 { Answered::First(row) } else { Answered::Before(row) }))
        })?;
        answered.ok_or_else(|| StoreError::ApprovalUnknown { id: id.to_owned() })
    }

    /// Uses a yes up. Of several callers, in whatever processes, exactly one is told `true`.
    pub fn use_up(&self, id: &str, now: Timestamp) -> Result<bool, StoreError> {
        self.database.write(|connection| {
            end_expired(connection, now)?;
            let sql = "UPDATE approvals SET state = 'used' WHERE id = ? AND state = 'approved'";
            Ok(connection.execute(sql, [id])? == 1)
        })
    }

    /// What an earlier answer means for a call with this plan, which asks for this request.
    pub fn earlier(
        &self,
        workspace: &Path,
        plan: &str,
        request: &str,
        now: Timestamp,
    ) -> Result<Earlier, StoreError> {
        let workspace = bytes(workspace);
        // Most calls have none, and they need not wait for those that write.
        let any = self.database.read(|connection| {
            let mut statement = connection.prepare(
                "SELECT EXISTS (SELECT 1 FROM approvals WHERE workspace = ? AND request = ?
                    AND state IN ('approved', 'denied'))",
            )?;
            statement.query_row(rusqlite::params![workspace, request], |row| row.get::<_, bool>(0))
        });
        if !any? {
            return Ok(Earlier::None);
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
                return Ok(Earlier::Approved(row));
            }
            if let Some(row) = newest("request = ? AND state = 'approved'", request)? {
                set(&row.id, "state = 'expired'")?;
                return Ok(Earlier::Drifted(row));
            }
            let untold = "plan = ? AND state = 'denied' AND told = 0 AND expires_at_us > ";
            if let Some(row) = newest(&format!("{untold}{}", now.as_microsecond()), plan)? {
                set(&row.id, "told = 1")?;
                return Ok(Earlier::Denied(row));
            }
            Ok(Earlier::None)
        })
    }

    /// Notes that the caller of a question knows its answer.
    pub fn told(&self, id: &str) -> Result<(), StoreError> {
        self.database.write(|connection| {
            connection.execute("UPDATE approvals SET told = 1 WHERE id = ?", [id]).map(drop)
        })
    }

    /// Notes that changes of a command lie aside until the question is answered. Gives the question as it is now.
    pub fn hold(&self, id: &str, changes: &str) -> Result<ApprovalRow, StoreError> {
        let row = self.database.write(|connection| {
            connection.execute("UPDATE approvals SET changes = ? WHERE id = ?", [changes, id])?;
            find(connection, id)
        })?;
        row.ok_or_else(|| StoreError::ApprovalUnknown { id: id.to_owned() })
    }

    /// Ends the question about changes that were applied or discarded in another way.
    pub fn settle_changes(
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

    /// One question.
    pub fn find(&self, id: &str, now: Timestamp) -> Result<Option<ApprovalRow>, StoreError> {
        self.database.read(|connection| Ok(find(connection, id)?.map(|row| row.seen_at(now))))
    }

    /// The questions, the newest first: those that can be answered or used still, or all.
    pub fn list(&self, open_only: bool, limit: u32, now: Timestamp) -> Result<Vec<ApprovalRow>, StoreError> {
        self.database.read(|connection| {
            let mut statement = connection.prepare(&format!(
                "SELECT {COLUMNS} FROM approvals WHERE NOT ?1 OR (state IN ('waiting', 'approved') AND expires_at_us > ?2)
                 ORDER BY asked_at_us DESC, id DESC LIMIT ?3"
            ))?;
            let rows = statement.query_map((open_only, now.as_microsecond(), limit), read)?;
            rows.map(|row| Ok(row?.seen_at(now))).collect()
        })
    }

    /// How many calls of this shape a human has let pass one by one in the workspace since then.
    pub fn allowed_once(&self, workspace: &Path, shape: &str, since: Timestamp) -> Result<u32, StoreError> {
        self.database.read(|connection| {
            connection.query_row(
                "SELECT count(*) FROM approvals WHERE workspace = ? AND shape = ? AND asked_at_us >= ?
                    AND state IN ('approved', 'used') AND scope = 'once'",
                rusqlite::params![bytes(workspace), shape, since.as_microsecond()],
                |row| row.get(0),
            )
        })
    }

    pub(crate) fn new(database: Arc<Database>) -> Self {
        Self { database }
    }
}

impl ApprovalRow {
    /// The same question, as it is at this time.
    fn seen_at(mut self, now: Timestamp) -> Self {
        if matches!(self.state, ApprovalState::Waiting | ApprovalState::Approved) && self.expires_at <= now {
            self.state = ApprovalState::Expired;
        }
        self
    }
}

impl ApprovalState {
    /// The word in the table.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Approved => "approved",
            Self::Denied => "denied",
            Self::Expired => "expired",
            Self::Used => "used",
        }
    }
}

impl FromStr for ApprovalState {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        [Self::Waiting, Self::Approved, Self::Denied, Self::Expired, Self::Used]
            .into_iter()
            .find(|state| state.as_str() == text)
            .ok_or(())
    }
}

const COLUMNS: &str = "id, call, session, door, workspace, tool, level, plan, request, shape, question, asked_at_us, \
     expires_at_us, state, changes, scope, answered_at_us, answered_by, message";

/// INVARIANT: every transaction that answers or uses comes through here first, so that nothing expired is either.
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

fn as_text<S: serde::Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&path.to_string_lossy())
}
