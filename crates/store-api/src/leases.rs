//! Permissions that a human has granted beyond one call, with their expiry.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::Serialize;

use crate::error::StoreError;

/// A permission that a human has granted for a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Lease {
    /// Id of the lease.
    pub id: String,
    /// Id of the question whose answer granted the lease.
    pub approval: Option<String>,
    /// Scope: `session`, `project` or `always`.
    pub scope: String,
    /// Session of the lease; `None` for all sessions.
    pub session: Option<String>,
    /// Workspace of the lease; `None` for all workspaces.
    #[serde(serialize_with = "as_text")]
    pub workspace: Option<PathBuf>,
    /// Kind of the permission.
    pub kind: LeaseKind,
    /// Tool of the question.
    pub tool: String,
    /// Digest of the effects, or the pattern.
    pub pattern: String,
    /// Description of the permission for people.
    pub covers: String,
    /// Name of the person who granted the lease.
    pub granted_by: String,
    /// Time of the grant, in whole microseconds.
    pub granted_at: Timestamp,
    /// Time at which the lease expires.
    pub expires_at: Timestamp,
    /// Time at which the lease was revoked.
    pub revoked_at: Option<Timestamp>,
    /// Number of calls that the lease has allowed.
    pub uses: u32,
    /// Time of the last call that the lease allowed.
    pub used_at: Option<Timestamp>,
}

/// Kind of permission in a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LeaseKind {
    /// Calls with exactly the effects whose digest is the pattern.
    Exact,
    /// Commands that begin with the words of the pattern.
    Command,
    /// Writing the paths that match the pattern.
    Write,
    /// Reading the folder that the pattern names.
    Read,
    /// Connecting to the hosts that the pattern lists.
    Connection,
}

impl Lease {
    /// Lists the texts of the lease, except ids of other rows.
    pub fn texts(&mut self) -> Vec<&mut String> {
        let mut texts = vec![&mut self.tool, &mut self.pattern, &mut self.covers, &mut self.granted_by];
        texts.extend(&mut self.session);
        texts
    }
}

impl LeaseKind {
    /// Returns the word stored in the table.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Command => "command",
            Self::Write => "write",
            Self::Read => "read",
            Self::Connection => "connection",
        }
    }
}

#[expect(clippy::ref_option, reason = "serde hands the field by reference")]
fn as_text<S: serde::Serializer>(path: &Option<PathBuf>, serializer: S) -> Result<S::Ok, S::Error> {
    match path {
        Some(path) => serializer.serialize_some(&path.to_string_lossy()),
        None => serializer.serialize_none(),
    }
}

/// The leases of a store. An answer to a question grants a lease
/// ([`ApprovalAnswer`](crate::ApprovalAnswer)).
///
/// Every method blocks, and returns an error if the state cannot be read or written.
pub trait Leases: Send + Sync {
    /// Lists the leases that apply to a call of this session in this workspace now, in the order of
    /// their grants.
    fn in_force(&self, session: &str, workspace: &Path, now: Timestamp) -> Result<Vec<Lease>, StoreError>;

    /// Lists all leases that are in force now, or all leases ever granted, newest first.
    fn list(&self, in_force_only: bool, now: Timestamp) -> Result<Vec<Lease>, StoreError>;

    /// Counts a call that the lease allows. Returns false if the lease was revoked or has expired,
    /// so that the call is not allowed.
    fn note_use(&self, id: &str, now: Timestamp) -> Result<bool, StoreError>;

    /// Revokes a lease, and an unused approval of the same answer. Returns true if the lease was in
    /// force.
    fn revoke(&self, id: &str, now: Timestamp) -> Result<bool, StoreError>;
}
