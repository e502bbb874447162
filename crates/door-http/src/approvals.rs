//! Approval requests and the answers of people: `/v1/approvals`, `/v1/leases`.
//!
//! Access requires the user's token, which cannot make calls: the party that asks cannot answer.

use std::sync::Arc;
use std::time::Duration;

use engine::{ApprovalError, Approvals, Door, Grant, Scope};
use hyper::StatusCode;
use serde::{Deserialize, Serialize};
use tool::{Code, ToolError};

use crate::body::RequestBody;
use crate::json_body::parse;
use crate::query::Query;
use crate::refusal;
use crate::reply::{self, Reply};
use crate::sender::Sender;
use crate::state::ServerState;

/// Body of an approval.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ApproveBody {
    #[serde(default)]
    scope: Option<Scope>,
    #[serde(default)]
    pattern: Option<String>,
    #[serde(default)]
    seconds: Option<u64>,
}

/// Body of a denial.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DenyBody {
    #[serde(default)]
    message: Option<String>,
}

pub(crate) fn of(shared: &ServerState) -> Approvals {
    shared.engine.approvals().through(Door::Http)
}

/// `GET /v1/approvals`: approval requests, the newest first.
pub(crate) async fn list(shared: &ServerState, query: Option<&str>) -> Reply {
    let all = match all(query) {
        Ok(all) => all,
        Err(error) => return reply::failure(&error),
    };
    let approvals = of(shared);
    blocking(move || approvals.list(!all)).await
}

/// `GET /v1/approvals/ID`.
pub(crate) async fn show(shared: &ServerState, id: String) -> Reply {
    let approvals = of(shared);
    blocking(move || approvals.find(&id)).await
}

/// `POST /v1/approvals/ID/approve`.
pub(crate) async fn approve(
    shared: &Arc<ServerState>,
    sender: &Sender,
    id: String,
    body: RequestBody,
) -> Reply {
    let said: ApproveBody = match read(shared, body).await {
        Ok(said) => said,
        Err(reply) => return reply,
    };
    let asked = match of(shared).find(&id) {
        Ok(asked) => asked,
        Err(error) => return failed(&error),
    };
    if asked.workspace != shared.engine.workspace() {
        let there = tool::path_text(&asked.workspace);
        return reply::failure(
            &ToolError::new(
                Code::Conflict,
                format!("the question is about {there}, but this server serves another workspace"),
            )
            .hint(shared.engine.program().command(&format!("approvals approve {}", asked.question.id))),
        );
    }
    let grant = Grant {
        scope: said.scope.unwrap_or(Scope::Once),
        pattern: said.pattern,
        lasts: said.seconds.map(Duration::from_secs),
        by: sender.named(),
    };
    match shared.engine.grant_through(Door::Http, &asked.question.id, &grant).await {
        Ok(approved) => reply::json(StatusCode::OK, &approved),
        Err(error) => failed(&error),
    }
}

/// `POST /v1/approvals/ID/deny`.
pub(crate) async fn deny(shared: &Arc<ServerState>, sender: &Sender, id: String, body: RequestBody) -> Reply {
    let said: DenyBody = match read(shared, body).await {
        Ok(said) => said,
        Err(reply) => return reply,
    };
    let approvals = of(shared);
    let by = sender.named();
    blocking(move || {
        let asked = approvals.find(&id)?;
        approvals.deny(&asked.question.id, said.message, &by)
    })
    .await
}

/// `GET /v1/leases`: permissions for a limited time.
pub(crate) async fn leases(shared: &ServerState, query: Option<&str>) -> Reply {
    let all = match all(query) {
        Ok(all) => all,
        Err(error) => return reply::failure(&error),
    };
    let approvals = of(shared);
    blocking(move || approvals.leases(!all)).await
}

/// `DELETE /v1/leases/ID`: revokes a lease.
pub(crate) async fn revoke(shared: &ServerState, sender: &Sender, lease: String) -> Reply {
    let approvals = of(shared);
    let by = sender.named();
    let revoked = tokio::task::spawn_blocking(move || approvals.revoke(&lease, &by)).await;
    match revoked {
        Ok(Ok(Some(lease))) => reply::json(StatusCode::OK, &lease),
        Ok(Ok(None)) => reply::failure(&ToolError::new(Code::NotFound, "unknown or expired lease")),
        Ok(Err(error)) => failed(&error),
        Err(panic) => reply::failure(&ToolError::internal("the lease could not be revoked").because(panic)),
    }
}

fn all(query: Option<&str>) -> Result<bool, ToolError> {
    Ok(Query::read(query, &["all"])?.parsed("all", "true or false")?.unwrap_or(false))
}

/// Reads the body of an approval or denial. A missing body is an empty object.
async fn read<T: serde::de::DeserializeOwned>(shared: &ServerState, body: RequestBody) -> Result<T, Reply> {
    let read = shared.room.read(body).await.map_err(|why| refusal::unread(&why))?;
    let text: &[u8] = if read.bytes.is_empty() { b"{}" } else { &read.bytes };
    parse(text).map_err(|error| reply::failure(&error))
}

async fn blocking<T, F>(work: F) -> Reply
where
    T: Serialize + Send + 'static,
    F: FnOnce() -> Result<T, ApprovalError> + Send + 'static,
{
    match tokio::task::spawn_blocking(work).await {
        Ok(Ok(found)) => reply::json(StatusCode::OK, &found),
        Ok(Err(error)) => failed(&error),
        Err(panic) => reply::failure(&ToolError::internal("the approvals could not be read").because(panic)),
    }
}

fn failed(error: &ApprovalError) -> Reply {
    let code = match error {
        ApprovalError::Unknown { .. } => Code::NotFound,
        ApprovalError::Settled { .. } | ApprovalError::Changes(_) => Code::Conflict,
        ApprovalError::OnceOnly { .. } | ApprovalError::Scope(_) => Code::Validation,
        ApprovalError::Store(_) => Code::Runtime,
    };
    reply::failure(&ToolError::new(code, error.to_string()))
}
