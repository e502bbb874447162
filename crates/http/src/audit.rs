//! What was done: `/v1/audit`.

use std::sync::Arc;

use engine::{Engine, Filter};
use hyper::StatusCode;
use serde_json::{Value, json};
use tool::{Code, ToolError};

use crate::query::Query;
use crate::reply::{self, Reply};
use crate::service::Shared;

/// Calls on one page, at most.
const MOST_LISTED: u32 = 1_000;

/// `GET /v1/audit`: the newest calls first, and where the next page begins.
pub(crate) async fn list(shared: &Shared, query: Option<&str>) -> Reply {
    let (filter, limit) = match filter(query) {
        Ok(filter) => filter,
        Err(error) => return reply::failure(&error),
    };
    read(shared, move |engine| {
        let calls = engine.recorded_calls(&filter)?;
        let full = calls.len() >= limit as usize;
        let last = calls.last().and_then(|call| call.last()).map(|recorded| recorded.sequence);
        let calls: Vec<Value> = calls.iter().map(engine::RecordedCall::as_json).collect::<Result<_, _>>()?;
        Ok::<_, engine::HistoryError>(Some(json!({ "calls": calls, "before": last.filter(|_| full) })))
    })
    .await
}

/// `GET /v1/audit/CALL`: every row of a call.
pub(crate) async fn show(shared: &Shared, call: String) -> Reply {
    read(shared, move |engine| {
        engine.recorded_rows(&call).map(|rows| (!rows.is_empty()).then(|| Value::from(rows)))
    })
    .await
}

async fn read<F, E>(shared: &Shared, look: F) -> Reply
where
    F: FnOnce(&Engine) -> Result<Option<Value>, E> + Send + 'static,
    E: std::error::Error + Send + Sync + 'static,
{
    let engine: Arc<Engine> = shared.engine.clone();
    let looked = tokio::task::spawn_blocking(move || look(&engine)).await;
    let failed = match looked {
        Ok(Ok(Some(found))) => return reply::json(StatusCode::OK, &found),
        Ok(Ok(None)) => ToolError::new(Code::NotFound, "no such call is recorded"),
        Ok(Err(error)) => {
            ToolError::new(Code::Runtime, format!("the audit cannot be read: {error}")).because(error)
        }
        Err(panic) => ToolError::internal("the audit could not be read").because(panic),
    };
    reply::failure(&failed)
}

fn filter(query: Option<&str>) -> Result<(Filter, u32), ToolError> {
    let query = Query::read(query, &["tool", "session", "since", "before", "limit"])?;
    let limit = query.parsed("limit", "a number")?.unwrap_or(50);
    if limit == 0 || limit > MOST_LISTED {
        return Err(ToolError::validation("limit", format!("it must be from 1 to {MOST_LISTED}")));
    }
    let since = query.text("since").map(str::parse).transpose();
    let filter = Filter {
        tool: query.text("tool").map(str::to_owned),
        session: query.text("session").map(str::to_owned),
        since: since.map_err(|_| ToolError::validation("since", "it must be a time as in RFC 3339"))?,
        before: query.parsed("before", "a number")?,
        limit,
    };
    Ok((filter, limit))
}
