//! What a human has allowed beyond one call, and until when.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use rusqlite::{Connection, Row};
use serde::Serialize;

use crate::approvals::{bytes, time};
use crate::database::Database;
use crate::error::StoreError;

/// Something that a human has allowed for a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Lease {
    /// Its id.
    pub id: String,
    /// The question that it is an answer to.
    pub approval: Option<String>,
    /// How far it reaches: `session`, `project` or `always`.
    pub scope: String,
    /// The session that it is for; none where it is for all.
    pub session: Option<String>,
    /// The workspace that it is for; none where it is for all.
    #[serde(serialize_with = "as_text")]
    pub workspace: Option<PathBuf>,
    /// What it covers.
    pub kind: LeaseKind,
    /// The tool that was asked about.
    pub tool: String,
    /// The digest of the effects, or the pattern.
    pub pattern: String,
    /// What it covers, in words.
    pub covers: String,
    /// Who granted it.
    pub granted_by: String,
    /// When; kept in whole microseconds, as every time here.
    pub granted_at: Timestamp,
    /// Until when.
    pub expires_at: Timestamp,
    /// When it was taken back.
    pub revoked_at: Option<Timestamp>,
    /// How many calls it has let pass.
    pub uses: u32,
    /// When it let one pass last.
    pub used_at: Option<Timestamp>,
}

/// What a lease covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LeaseKind {
    /// Calls with exactly the effects whose digest the pattern is.
    Exact,
    /// Commands that begin with the pattern's words.
    Command,
    /// Writing the paths of the pattern.
    Write,
    /// Reading the folder that the pattern is.
    Read,
}

/// The leases of one store.
pub struct Leases {
    database: Arc<Database>,
}

impl Leases {
    /// Those that a call of this session in this workspace has at this time, in the order in which they were granted.
    pub fn in_force(
        &self,
        session: &str,
        workspace: &Path,
        now: Timestamp,
    ) -> Result<Vec<Lease>, StoreError> {
        self.database.read(|connection| {
            let mut statement = connection.prepare_cached(&format!(
                "SELECT {COLUMNS} FROM leases WHERE revoked_at_us IS NULL AND expires_at_us > ?
                    AND (session IS NULL OR session = ?) AND (workspace IS NULL OR workspace = ?)
                 ORDER BY granted_at_us, id"
            ))?;
            let rows = statement
                .query_map(rusqlite::params![now.as_microsecond(), session, bytes(workspace)], read)?;
            rows.collect()
        })
    }

    /// All that are in force for anybody at this time, or all that there ever were; the newest first.
    pub fn list(&self, in_force_only: bool, now: Timestamp) -> Result<Vec<Lease>, StoreError> {
        self.database.read(|connection| {
            let mut statement = connection.prepare(&format!(
                "SELECT {COLUMNS} FROM leases WHERE NOT ?1 OR (revoked_at_us IS NULL AND expires_at_us > ?2)
                 ORDER BY granted_at_us DESC, id DESC"
            ))?;
            let rows = statement.query_map((in_force_only, now.as_microsecond()), read)?;
            rows.collect()
        })
    }

    /// Counts a call that the lease lets pass; `false` where it was taken back or has run out meanwhile, so that it does not.
    pub fn note_use(&self, id: &str, now: Timestamp) -> Result<bool, StoreError> {
        self.database.write(|connection| {
            let sql = "UPDATE leases SET uses = uses + 1, used_at_us = ?1
                 WHERE id = ?2 AND revoked_at_us IS NULL AND expires_at_us > ?1";
            Ok(connection.execute(sql, rusqlite::params![now.as_microsecond(), id])? == 1)
        })
    }

    /// Takes a lease back; says whether it was in force.
    pub fn revoke(&self, id: &str, now: Timestamp) -> Result<bool, StoreError> {
        self.database.write(|connection| {
            // The yes that it came with may not have been used yet.
            connection.execute(
                "UPDATE approvals SET state = 'expired'
                 WHERE state = 'approved' AND id = (SELECT approval FROM leases WHERE id = ?)",
                [id],
            )?;
            let sql = "UPDATE leases SET revoked_at_us = ?1
                 WHERE id = ?2 AND revoked_at_us IS NULL AND expires_at_us > ?1";
            Ok(connection.execute(sql, rusqlite::params![now.as_microsecond(), id])? == 1)
        })
    }

    pub(crate) fn new(database: Arc<Database>) -> Self {
        Self { database }
    }
}

pub(crate) fn add_lease(connection: &Connection, lease: &Lease) -> rusqlite::Result<()> {
    connection
        .execute(
            "INSERT INTO leases (id, approval, scope, session, workspace, kind, tool, pattern, covers, granted_by,
                granted_at_us, expires_at_us) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            rusqlite::params![
                lease.id,
                lease.approval,
                lease.scope,
                lease.session,
                lease.workspace.as_deref().map(bytes),
                lease.kind.as_str(),
                lease.tool,
                lease.pattern,
                lease.covers,
                lease.granted_by,
                lease.granted_at.as_microsecond(),
                lease.expires_at.as_microsecond(),
            ],
        )
        .map(drop)
}

impl Lease {
    /// Its texts, but for what names other rows.
    pub(crate) fn texts(&mut self) -> Vec<&mut String> {
        let mut texts = vec![&mut self.tool, &mut self.pattern, &mut self.covers, &mut self.granted_by];
        texts.extend(&mut self.session);
        texts
    }
}

impl LeaseKind {
    /// The word in the table.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Command => "command",
            Self::Write => "write",
            Self::Read => "read",
        }
    }
}

const COLUMNS: &str = "id, approval, scope, session, workspace, kind, tool, pattern, covers, granted_by, granted_at_us, \
     expires_at_us, revoked_at_us, uses, used_at_us";

fn read(row: &Row<'_>) -> rusqlite::Result<Lease> {
    let kind: String = row.get("kind")?;
    let kinds = [LeaseKind::Exact, LeaseKind::Command, LeaseKind::Write, LeaseKind::Read];
    let kind = kinds.into_iter().find(|known| known.as_str() == kind);
    let unknown = || rusqlite::Error::InvalidColumnType(5, "kind".to_owned(), rusqlite::types::Type::Text);
    let workspace: Option<Vec<u8>> = row.get("workspace")?;
    let at = |index, microseconds: Option<i64>| microseconds.map(|at| time(index, at)).transpose();
    Ok(Lease {
        id: row.get("id")?,
        approval: row.get("approval")?,
        scope: row.get("scope")?,
        session: row.get("session")?,
        workspace: workspace.map(|path| PathBuf::from(OsStr::from_bytes(&path))),
        kind: kind.ok_or_else(unknown)?,
        tool: row.get("tool")?,
        pattern: row.get("pattern")?,
        covers: row.get("covers")?,
        granted_by: row.get("granted_by")?,
        granted_at: time(10, row.get("granted_at_us")?)?,
        expires_at: time(11, row.get("expires_at_us")?)?,
        revoked_at: at(12, row.get("revoked_at_us")?)?,
        uses: row.get("uses")?,
        used_at: at(14, row.get("used_at_us")?)?,
    })
}

#[expect(clippy::ref_option, reason = "serde hands the field by reference")]
fn as_text<S: serde::Serializer>(path: &Option<PathBuf>, serializer: S) -> Result<S::Ok, S::Error> {
    match path {
        Some(path) => serializer.serialize_some(&path.to_string_lossy()),
        None => serializer.serialize_none(),
    }
}
