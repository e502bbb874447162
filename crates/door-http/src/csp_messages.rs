//! `/v1/csp`: CSP/1 requests in a request body, with their answers in the response body. The crate
//! `csp` implements the protocol.

use std::future::pending;
use std::sync::Arc;

use hyper::StatusCode;
use hyper::header::{CONTENT_TYPE, HeaderMap};
use tool::{ByteReservation, ToolError};

use crate::body::RequestBody;
use crate::origin;
use crate::principal::Sender;
use crate::reply::{self, Reply};
use crate::service::ServerState;

/// Content type of both bodies.
const TEXT: &str = "text/plain; charset=utf-8";

/// Maximum number of CSP requests in one body. Each gets an answer, which is longer than the
/// shortest request.
const REQUESTS: usize = 100;

/// `POST /v1/csp`. If the client disconnects, its commands are stopped.
pub(crate) async fn post(
    shared: &Arc<ServerState>,
    sender: &Sender,
    options: &door_csp::Options,
    headers: &HeaderMap,
    body: RequestBody,
) -> Reply {
    if !is_text(headers) {
        let wrong = ToolError::validation("Content-Type", "it must be text/plain");
        return reply::error(StatusCode::UNSUPPORTED_MEDIA_TYPE, &wrong);
    }
    let read = match shared.room.read(body).await {
        Ok(read) => read,
        Err(why) => return reply::unread(&why),
    };
    let options = door_csp::Options {
        requests: Some(REQUESTS),
        session: sender.session.clone(),
        origin: origin::of(shared, headers, "/v1/csp"),
        ..options.clone()
    };
    let mut answers = Vec::new();
    match door_csp::serve(shared.engine.clone(), options, &read.bytes[..], &mut answers, pending()).await {
        Ok(()) => reply::bytes(StatusCode::OK, TEXT, answers, ByteReservation::default()),
        Err(error) => {
            reply::failure(&ToolError::internal("the requests could not be answered").because(error))
        }
    }
}

/// Accepts a missing content type, and curl's default one, as text.
fn is_text(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).map(|value| value.to_str().unwrap_or_default());
    let kind = kind.map(|kind| kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase());
    kind.is_none_or(|kind| ["text/plain", "application/x-www-form-urlencoded"].contains(&kind.as_str()))
}
