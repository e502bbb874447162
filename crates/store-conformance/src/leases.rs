//! Promises of the leases.

use std::path::Path;

use store_api::{AnswerOutcome, ApprovalAnswer, ApprovalState, Lease, LeaseKind, Leases, Store};

use crate::approvals::{question, yes};
use crate::{Handles, Problem, Promise, at, equal, holds};

pub(crate) const PROMISES: &[Promise] = &[
    ("a lease is in force for its session and its workspace alone", scopes),
    ("a lease ends at its expiry", expiry),
    ("a revoked lease allows nothing, and its approval neither", revoked),
    ("only the answer that counts grants its lease", granted_by_the_answer),
];

fn lease(id: &str, session: Option<&str>, workspace: Option<&str>) -> Lease {
    let text = |text: &str| text.to_owned();
    Lease {
        id: text(id),
        approval: Some(format!("a-{id}")),
        scope: text("project"),
        session: session.map(str::to_owned),
        workspace: workspace.map(Into::into),
        kind: LeaseKind::Command,
        tool: text("shell_execute"),
        pattern: text("make test"),
        covers: text("commands that begin with `make test`"),
        granted_by: text("one"),
        granted_at: at(0),
        expires_at: at(60),
        revoked_at: None,
        uses: 0,
        used_at: None,
    }
}

fn grant(store: &dyn Store, lease: Lease) -> Result<(), Problem> {
    let id = format!("a-{}", lease.id);
    store.approvals().ask(&question(&id, &id))?;
    store.approvals().answer(&id, &ApprovalAnswer { lease: Some(lease), ..yes("one") }, at(0))?;
    Ok(())
}

fn in_force(leases: &dyn Leases, session: &str, workspace: &str, minutes: i64) -> Result<String, Problem> {
    let leases = leases.in_force(session, Path::new(workspace), at(minutes))?;
    Ok(leases.into_iter().map(|lease| lease.id).collect())
}

fn scopes(handles: &Handles<'_>) -> Result<(), Problem> {
    let [one, other] = handles.two()?;
    grant(one.as_ref(), lease("l1", Some("s1"), Some("/w")))?;
    grant(one.as_ref(), lease("l2", None, Some("/w")))?;
    grant(one.as_ref(), lease("l3", None, None))?;
    let leases = other.leases();
    equal("the leases of the session", in_force(leases, "s1", "/w", 0)?, "l1l2l3".to_owned())?;
    equal("the leases of another session", in_force(leases, "s2", "/w", 0)?, "l2l3".to_owned())?;
    equal("the leases of another workspace", in_force(leases, "s1", "/x", 0)?, "l3".to_owned())?;
    let first = leases.list(true, at(0))?.pop();
    equal("a lease as it was granted", first, Some(lease("l1", Some("s1"), Some("/w"))))
}

fn expiry(handles: &Handles<'_>) -> Result<(), Problem> {
    let store = handles.open()?;
    grant(store.as_ref(), lease("l1", None, None))?;
    equal("a lease before its expiry", in_force(store.leases(), "s", "/w", 59)?, "l1".to_owned())?;
    equal("a use before the expiry", store.leases().note_use("l1", at(59))?, true)?;
    equal("an expired lease", in_force(store.leases(), "s", "/w", 60)?, String::new())?;
    equal("a use after the expiry", store.leases().note_use("l1", at(60))?, false)?;
    equal("the leases in force", store.leases().list(true, at(60))?.len(), 0)?;
    let uses: Vec<u32> = store.leases().list(false, at(60))?.into_iter().map(|lease| lease.uses).collect();
    equal("the uses of all leases", uses, vec![1])
}

fn revoked(handles: &Handles<'_>) -> Result<(), Problem> {
    let [one, other] = handles.two()?;
    grant(one.as_ref(), lease("l1", None, None))?;
    let revoked = [other.leases().revoke("l1", at(1))?, other.leases().revoke("l1", at(1))?];
    equal("the revocations", revoked, [true, false])?;
    equal("a revoked lease", in_force(one.leases(), "s", "/w", 2)?, String::new())?;
    equal("a use after the revocation", one.leases().note_use("l1", at(2))?, false)?;
    let state = one.approvals().find("a-l1", at(2))?.map(|row| row.state);
    equal("the approval of the same answer", state, Some(ApprovalState::Expired))
}

fn granted_by_the_answer(handles: &Handles<'_>) -> Result<(), Problem> {
    let store = handles.open()?;
    store.approvals().ask(&question("a1", "p"))?;
    store.approvals().answer("a1", &ApprovalAnswer { approved: false, ..yes("one") }, at(0))?;
    let late = ApprovalAnswer { lease: Some(lease("l1", None, None)), ..yes("other") };
    let late = store.approvals().answer("a1", &late, at(0))?;
    holds("the second answer does not count", matches!(late, AnswerOutcome::Before(_)))?;
    equal("the leases", store.leases().list(false, at(0))?.len(), 0)
}
