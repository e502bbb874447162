//! The recorded calls: the rows of the audit as people read them.

use std::ops::ControlFlow;
use std::sync::Arc;

use serde_json::{Value, json};
use store_api::{Filter, Kind, RecordedRow, Store, StoreError};
use tool::{Code, SessionId, ToolError};

use crate::audit_reading::{AuditReading, READ_AUDIT, unreadable};
use crate::egress_gate::CONNECTIONS;
use crate::{Door, Engine};

/// Prefixes of the tool names of rows that are about calls, or about reading them, but are not
/// calls.
const ABOUT_CALLS: [&str; 4] = ["approval_", "lease_", CONNECTIONS, READ_AUDIT];

/// Number of rows that are read at a time.
const PAGE: u32 = 500;

/// One call: the row written before its effect, if there is one, and the row written after it.
pub struct RecordedCall {
    intent: Option<RecordedRow>,
    outcome: Option<RecordedRow>,
}

/// Returns the newest calls first, at most the filter's limit, each with both of its rows.
///
/// # Errors
/// Fails if the audit cannot be read.
pub fn recorded_calls(store: &dyn Store, filter: &Filter) -> Result<Vec<RecordedCall>, StoreError> {
    let wanted = filter.limit as usize;
    let mut calls: Vec<RecordedCall> = Vec::new();
    walk(store, filter, |recorded| {
        // Questions, answers, leases and readings are no calls. A filter that names their tool still
        // finds them.
        if filter.tool.is_none() && ABOUT_CALLS.iter().any(|about| recorded.row.tool.starts_with(about)) {
            return Ok(ControlFlow::Continue(()));
        }
        let known = calls.iter().position(|call| call.id() == recorded.row.call);
        let is_intent = recorded.row.kind == Kind::Intent;
        let index = match known {
            Some(index) => index,
            None if calls.len() == wanted => return Ok(ControlFlow::Break(())),
            None => {
                calls.push(RecordedCall { intent: None, outcome: None });
                calls.len() - 1
            }
        };
        let part = if is_intent { &mut calls[index].intent } else { &mut calls[index].outcome };
        *part = Some(recorded);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(calls)
}

/// Calls `visit` on every row that matches the filter, however many there are, the newest first, until
/// `visit` breaks off.
pub(crate) fn walk(
    store: &dyn Store,
    filter: &Filter,
    mut visit: impl FnMut(RecordedRow) -> Result<ControlFlow<()>, StoreError>,
) -> Result<(), StoreError> {
    let mut filter = Filter { limit: PAGE, ..filter.clone() };
    loop {
        let page = store.audit().list(&filter)?;
        let Some(last) = page.last() else { return Ok(()) };
        filter.before = Some(last.sequence);
        for recorded in page {
            if visit(recorded)?.is_break() {
                return Ok(());
            }
        }
    }
}

/// Maximum number of calls that are compared with a part of an id.
const MAX_MATCHES: u32 = 50;

/// Returns the id of the recorded call that `typed` names: its id, or the beginning or the end of it.
///
/// # Errors
/// `ENOTFOUND` if no call has such an id, `EVALIDATION` if several have one, `ERUNTIME` if the audit
/// cannot be read.
pub fn full_id(store: &dyn Store, typed: &str) -> Result<String, ToolError> {
    let known = store.audit().show(typed).map_err(unreadable)?;
    if !known.is_empty() {
        return Ok(typed.to_owned());
    }
    let mut fits = store.audit().calls_with_part(typed, MAX_MATCHES).map_err(unreadable)?;
    fits.retain(|id| tool::names_id(typed, id));
    match fits.as_slice() {
        [only] => Ok(only.clone()),
        [] => {
            let message = format!("there is no call `{}` in the audit", tool::visible(typed));
            Err(ToolError::new(Code::NotFound, message).hint("`handfast log` lists the calls"))
        }
        several => {
            let message = format!("`{typed}` matches {} calls; type more of the id", several.len());
            Err(ToolError::validation("id", message))
        }
    }
}

/// Reason why the recorded rows cannot be returned.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// The audit cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A row cannot be serialized as JSON.
    #[error("a recorded row cannot be written as JSON")]
    Json(#[from] serde_json::Error),
}

/// Returns a row as JSON, with its plan as nested JSON.
///
/// # Errors
/// Fails if the row cannot be serialized. The caller then shows nothing in its place.
pub fn recorded_row(recorded: &RecordedRow) -> serde_json::Result<Value> {
    let mut value = serde_json::to_value(recorded)?;
    if let Some(plan) = recorded.row.plan.as_deref().and_then(|plan| serde_json::from_str::<Value>(plan).ok())
    {
        value["plan"] = plan;
    }
    Ok(value)
}

impl RecordedCall {
    /// Returns the row that knows most: the outcome, otherwise the intent.
    pub fn last(&self) -> Option<&RecordedRow> {
        self.outcome.as_ref().or(self.intent.as_ref())
    }

    /// Returns the call's id.
    pub fn id(&self) -> &str {
        self.last().map_or("", |recorded| &recorded.row.call)
    }

    /// Returns `ok`, an error code, or `unfinished`: the call still runs, or the process was
    /// killed.
    pub fn outcome(&self) -> &str {
        self.outcome.as_ref().and_then(|recorded| recorded.row.outcome.as_deref()).unwrap_or("unfinished")
    }

    /// Returns the call as one JSON object, or null if nothing is recorded.
    ///
    /// # Errors
    /// Fails like [`recorded_row`].
    pub fn as_json(&self) -> serde_json::Result<Value> {
        let Some(recorded) = self.last() else { return Ok(Value::Null) };
        let mut value = recorded_row(recorded)?;
        value["outcome"] = Value::from(self.outcome());
        value["intent_sequence"] = self.intent.as_ref().map_or(Value::Null, |intent| intent.sequence.into());
        Ok(value)
    }
}

impl Engine {
    /// Returns the newest calls of this runtime's state first. Blocks on the disk.
    ///
    /// # Errors
    /// Fails like [`recorded_calls`].
    pub fn recorded_calls(&self, filter: &Filter) -> Result<Vec<RecordedCall>, StoreError> {
        recorded_calls(self.store.as_ref(), filter)
    }

    /// Returns every row of one call, in the order in which they were written. The list is empty if
    /// there is no such call. Blocks on the disk.
    ///
    /// # Errors
    /// Fails if the audit cannot be read.
    pub fn recorded_rows(&self, call: &str) -> Result<Vec<Value>, HistoryError> {
        Ok(self.store.audit().show(call)?.iter().map(recorded_row).collect::<Result<_, _>>()?)
    }

    /// Returns the audit's records of a session, the newest call first. With `call`, returns every
    /// row of that call, or none if the session has no such call. Not even the names of another
    /// session's calls are disclosed.
    ///
    /// # Errors
    /// Fails like [`Engine::read_audit`].
    pub async fn read_audit_of(
        self: &Arc<Self>,
        session: &SessionId,
        door: Door,
        dialect: &'static str,
        call: Option<String>,
    ) -> Result<Vec<Value>, ToolError> {
        let of = session.0.clone();
        let reading = AuditReading {
            door,
            dialect,
            session: Some(of.clone()),
            by: None,
            asked: json!({ "call": call }),
        };
        self.read_audit(reading, |engine| engine.of_session(of, call).map_err(unreadable)).await
    }

    fn of_session(&self, session: String, call: Option<String>) -> Result<Vec<Value>, HistoryError> {
        let Some(call) = call else {
            let calls = self.recorded_calls(&Filter { session: Some(session), ..Filter::default() })?;
            return Ok(calls.iter().map(RecordedCall::as_json).collect::<Result<_, _>>()?);
        };
        let rows = self.recorded_rows(&call)?;
        let ours = rows.iter().all(|row| row["session"] == session.as_str());
        Ok(if ours { rows } else { Vec::new() })
    }
}
