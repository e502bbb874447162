//! Leases: the answer to a question that reaches beyond its call, and later calls that it covers.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use store_api::{Lease, LeaseKind, Store};
use tool::{Clock, SessionId, ToolError};

use super::host_connection::to_pattern;
use super::question::{Approval, Offer, PatternKind, Scope};
use super::stored::stored;

/// Returns the leases in force here and now for calls of this session.
pub(crate) async fn in_force(
    store: &Arc<dyn Store>,
    session: &SessionId,
    workspace: &Path,
    now: Timestamp,
) -> Result<Vec<Lease>, ToolError> {
    let (session, workspace) = (session.clone(), workspace.to_owned());
    stored(store, move |store| store.leases().in_force(&session.0, &workspace, now)).await
}

/// Uses the exact lease that covers these effects. Returns its grantor, scope and id, or `None` if
/// there is no such lease.
pub(super) async fn use_exact(
    store: &Arc<dyn Store>,
    session: &SessionId,
    workspace: &Path,
    now: Timestamp,
    effects: &str,
) -> Result<Option<String>, ToolError> {
    let leases = in_force(store, session, workspace, now).await?;
    let covers = |lease: &&Lease| lease.kind == LeaseKind::Exact && lease.pattern == effects;
    let Some(lease) = leases.iter().find(covers) else { return Ok(None) };
    let id = lease.id.clone();
    // The lease may have been revoked in the meantime.
    let counts = stored(store, move |store| store.leases().note_use(&id, now)).await?;
    Ok(counts.then(|| format!("{}, for the {} (lease {})", lease.granted_by, lease.scope, lease.id)))
}

/// Makes the lease for an approval of this reach. Returns `None` if the approval is for the one call
/// only.
pub(super) fn made_by(
    question: &Approval,
    (session, workspace): (&str, &Path),
    offer: &Offer,
    by: &str,
    clock: &dyn Clock,
) -> Option<Lease> {
    let (kind, pattern) = match (offer.scope, &offer.pattern, question.pattern_kind) {
        (Scope::Once, ..) | (_, Some(_), None) => return None,
        (_, Some(pattern), Some(kind)) => (kind_of(kind), pattern.clone()),
        (_, None, _) if !question.connections.is_empty() => {
            (LeaseKind::Connection, to_pattern(&question.connections)?)
        }
        (_, None, _) => (LeaseKind::Exact, question.effects_digest.clone()),
    };
    let now = clock.now();
    Some(Lease {
        id: format!("l{}", crate::new_call_id(clock)),
        approval: Some(question.id.clone()),
        scope: offer.scope.as_str().to_owned(),
        session: (offer.scope == Scope::Session).then(|| session.to_owned()),
        workspace: (offer.scope != Scope::Always).then(|| workspace.to_owned()),
        kind,
        tool: question.tool.clone(),
        pattern,
        covers: offer.covers.clone(),
        granted_by: by.to_owned(),
        granted_at: now,
        expires_at: after(now, Duration::from_secs(offer.seconds)),
        revoked_at: None,
        uses: 0,
        used_at: None,
    })
}

/// Returns the time that lies this long after `now`.
pub(super) fn after(now: Timestamp, lasts: Duration) -> Timestamp {
    let lasts = SignedDuration::try_from(lasts).unwrap_or(SignedDuration::MAX);
    now.checked_add(lasts).unwrap_or(Timestamp::MAX)
}

fn kind_of(kind: PatternKind) -> LeaseKind {
    match kind {
        PatternKind::Command => LeaseKind::Command,
        PatternKind::Write => LeaseKind::Write,
        PatternKind::Read => LeaseKind::Read,
    }
}
