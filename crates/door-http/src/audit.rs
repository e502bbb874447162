//! Recorded calls: `/v1/audit`.

use engine::{AuditReading, Door, Engine, Filter, RecordedCall, unreadable};
use hyper::StatusCode;
use serde_json::{Value, json};
use tool::{Code, ToolError};

use crate::query::Query;
use crate::reply::{self, Reply};
use crate::sender::Sender;
use crate::state::ServerState;

/// Maximum number of calls on one page.
const MAX_LISTED: u32 = 1_000;

/// `GET /v1/audit`: calls, the newest first, with the start of the next page.
pub(crate) async fn list(shared: &ServerState, sender: &Sender, query: Option<&str>) -> Reply {
    let (filter, limit) = match filter(query) {
        Ok(filter) => filter,
        Err(error) => return reply::failure(&error),
    };
    let asked = AuditReading::of(&filter);
    read(shared, sender, asked, move |engine| {
        let calls = engine.recorded_calls(&filter).map_err(unreadable)?;
        let full = calls.len() >= limit as usize;
        let last = calls.last().and_then(|call| call.last()).map(|recorded| recorded.sequence);
        let calls = calls.iter().map(RecordedCall::as_json).collect::<Result<Vec<Value>, _>>();
        Ok(json!({ "calls": calls.map_err(unreadable)?, "before": last.filter(|_| full) }))
    })
    .await
}

/// `GET /v1/audit/CALL`: every row of a call.
pub(crate) async fn show(shared: &ServerState, sender: &Sender, call: String) -> Reply {
    read(shared, sender, json!({ "call": call }), move |engine| {
        let rows = engine.recorded_rows(&call).map_err(unreadable)?;
        if rows.is_empty() {
            return Err(ToolError::new(Code::NotFound, "unknown call"));
        }
        Ok(Value::from(rows))
    })
    .await
}

async fn read(
    shared: &ServerState,
    sender: &Sender,
    asked: Value,
    look: impl FnOnce(&Engine) -> Result<Value, ToolError> + Send + 'static,
) -> Reply {
    let reading = AuditReading {
        door: Door::Http,
        dialect: shared.options.dialect.as_str(),
        session: Some(sender.session.0.clone()),
        by: Some(sender.named()),
        asked,
    };
    match shared.engine.read_audit(reading, look).await {
        Ok(found) => reply::json(StatusCode::OK, &found),
        Err(error) => reply::failure(&error),
    }
}

fn filter(query: Option<&str>) -> Result<(Filter, u32), ToolError> {
    let query = Query::read(query, &["tool", "session", "since", "before", "limit"])?;
    let limit = query.parsed("limit", "a number")?.unwrap_or(50);
    if limit == 0 || limit > MAX_LISTED {
        return Err(ToolError::validation("limit", format!("it must be from 1 to {MAX_LISTED}")));
    }
    let since = query.text("since").map(str::parse).transpose();
    let filter = Filter {
        tool: query.text("tool").map(str::to_owned),
        session: query.text("session").map(str::to_owned),
        since: since.map_err(|_| ToolError::validation("since", "it must be an RFC 3339 time"))?,
        before: query.parsed("before", "a number")?,
        limit,
        ..Filter::default()
    };
    Ok((filter, limit))
}
