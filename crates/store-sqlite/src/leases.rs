//! Permissions that a human has granted beyond one call, with their expiry.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use rusqlite::{Connection, Row};
use store_api::{Lease, LeaseKind, Leases, StoreError};

use crate::approvals::{bytes, time};
use crate::database::Database;

/// The leases of one store.
pub(crate) struct SqliteLeases {
    database: Arc<Database>,
}

impl Leases for SqliteLeases {
    fn in_force(&self, session: &str, workspace: &Path, now: Timestamp) -> Result<Vec<Lease>, StoreError> {
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

    fn list(&self, in_force_only: bool, now: Timestamp) -> Result<Vec<Lease>, StoreError> {
        self.database.read(|connection| {
            let mut statement = connection.prepare(&format!(
                "SELECT {COLUMNS} FROM leases WHERE NOT ?1 OR (revoked_at_us IS NULL AND expires_at_us > ?2)
                 ORDER BY granted_at_us DESC, id DESC"
            ))?;
            let rows = statement.query_map((in_force_only, now.as_microsecond()), read)?;
            rows.collect()
        })
    }

    fn note_use(&self, id: &str, now: Timestamp) -> Result<bool, StoreError> {
        self.database.write(|connection| {
            let sql = "UPDATE leases SET uses = uses + 1, used_at_us = ?1
                 WHERE id = ?2 AND revoked_at_us IS NULL AND expires_at_us > ?1";
            Ok(connection.execute(sql, rusqlite::params![now.as_microsecond(), id])? == 1)
        })
    }

    fn revoke(&self, id: &str, now: Timestamp) -> Result<bool, StoreError> {
        self.database.write(|connection| {
            // The approval of the same answer may still be unused.
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
}

impl SqliteLeases {
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

const COLUMNS: &str = "id, approval, scope, session, workspace, kind, tool, pattern, covers, granted_by, granted_at_us, \
     expires_at_us, revoked_at_us, uses, used_at_us";

fn read(row: &Row<'_>) -> rusqlite::Result<Lease> {
    let kind: String = row.get("kind")?;
    let kinds =
        [LeaseKind::Exact, LeaseKind::Command, LeaseKind::Write, LeaseKind::Read, LeaseKind::Connection];
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
