//! `/v1/csp`: CSP/1 requests in a request body, with their answers in the response body. The crate
//! `door-csp` implements the protocol.

use std::future::pending;
use std::sync::Arc;

use dialects::Dialect;
use door_http::header::{CONTENT_TYPE, HeaderMap};
use door_http::reply::{self, Reply};
use door_http::{Content, Mount, MountHandler, MountPoint, MountRequest, Operation, Role, StatusCode};
use engine::Engine;
use serde_json::json;
use tool::{BoxFuture, ByteReservation, Code, ToolError};

use crate::compose::Composed;

/// The path.
pub(super) static POINT: MountPoint =
    MountPoint { path: "/v1/csp", roles: &[Role::Agent], methods: "POST", operations };

/// Content type of both bodies.
const TEXT: &str = "text/plain; charset=utf-8";

/// Maximum number of CSP requests in one body. Each gets an answer, which is longer than the
/// shortest request.
const REQUESTS: usize = 100;

fn operations() -> Vec<Operation> {
    let text = |example: &str| Content {
        kind: "text/plain",
        schema: json!({ "type": "string" }),
        example: json!(example),
    };
    vec![Operation {
        method: "post",
        summary: "CSP/1 requests, each ended by an empty line; only on a server with the dialect csp1.",
        body: Some(text("TASK REQ:exec IN:SHELL OUT:EXEC_RESULT\nCOMMAND \"ls\"\n\n")),
        answer_summary: "The answers, in the order of completion.",
        answer: text("STATUS OK\nSCOPE [csp]\nDATA none\n\n"),
    }]
}

/// Returns the mount of CSP/1 for this composition.
pub(super) fn mount(composed: &Composed) -> Mount {
    let speaks = composed.toolset.dialect == Dialect::Csp1;
    let options = speaks.then(|| door_csp::Options::new(composed.session.clone()));
    Mount { point: &POINT, handler: Arc::new(Csp { engine: composed.engine.clone(), options }) }
}

/// Handler of CSP/1 requests.
struct Csp {
    engine: Arc<Engine>,
    /// Options; `None` if the engine does not speak the dialect `csp1`.
    options: Option<door_csp::Options>,
}

impl MountHandler for Csp {
    fn respond(&self, request: MountRequest) -> BoxFuture<'_, Reply> {
        Box::pin(async move {
            match &self.options {
                None => not_spoken(),
                Some(options) => post(&self.engine, options, request).await.unwrap_or_else(|refusal| refusal),
            }
        })
    }
}

fn not_spoken() -> Reply {
    reply::failure(
        &ToolError::new(Code::NotFound, "this server does not speak the dialect csp1")
            .hint("`handfast up --dialect csp1` answers CSP/1 here"),
    )
}

/// Answers the requests in a body. If the client disconnects, its commands are stopped.
///
/// # Errors
/// The response to a body that is not text, or that cannot be read.
async fn post(
    engine: &Arc<Engine>,
    options: &door_csp::Options,
    request: MountRequest,
) -> Result<Reply, Reply> {
    if !is_text(&request.headers) {
        let wrong = ToolError::validation("Content-Type", "it must be text/plain");
        return Err(reply::error(StatusCode::UNSUPPORTED_MEDIA_TYPE, &wrong));
    }
    let read = request.body.read().await?;
    let options = door_csp::Options {
        requests: Some(REQUESTS),
        session: request.sender.session,
        origin: request.origin,
        ..options.clone()
    };
    let mut answers = Vec::new();
    match door_csp::serve(engine.clone(), options, &read.bytes[..], &mut answers, pending()).await {
        Ok(()) => Ok(reply::bytes(StatusCode::OK, TEXT, answers, ByteReservation::default())),
        Err(error) => {
            Err(reply::failure(&ToolError::internal("the requests could not be answered").because(error)))
        }
    }
}

/// Accepts a missing content type, and curl's default one, as text.
fn is_text(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).map(|value| value.to_str().unwrap_or_default());
    let kind = kind.map(|kind| kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase());
    kind.is_none_or(|kind| ["text/plain", "application/x-www-form-urlencoded"].contains(&kind.as_str()))
}
