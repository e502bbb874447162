//! `/v1/csp`: requests of CSP/1 in a body, their answers in another. The protocol itself is in the crate `csp`.

use std::future::pending;
use std::sync::Arc;

use hyper::StatusCode;
use hyper::header::{CONTENT_TYPE, HeaderMap};
use tool::{Held, ToolError};

use crate::body::Coming;
use crate::origin;
use crate::reply::{self, Reply};
use crate::sender::Sender;
use crate::service::Shared;

/// The type of both bodies.
const TEXT: &str = "text/plain; charset=utf-8";

/// Requests in one body: each gets an answer, which is longer than the shortest request.
const REQUESTS: usize = 100;

/// `POST /v1/csp`. Where the client goes away its commands are stopped.
pub(crate) async fn post(
    shared: &Arc<Shared>,
    sender: &Sender,
    options: &csp::Options,
    headers: &HeaderMap,
    body: Coming,
) -> Reply {
    if !is_text(headers) {
        let wrong = ToolError::validation("Content-Type", "it must be text/plain");
        return reply::error(StatusCode::UNSUPPORTED_MEDIA_TYPE, &wrong);
    }
    let read = match shared.room.read(body).await {
        Ok(read) => read,
        Err(why) => return reply::unread(&why),
    };
    let options = csp::Options {
        requests: Some(REQUESTS),
        session: sender.session.clone(),
        origin: origin::of(shared, headers, "/v1/csp"),
        ..options.clone()
    };
    let mut answers = Vec::new();
    match csp::serve(shared.engine.clone(), options, &read.bytes[..], &mut answers, pending()).await {
        Ok(()) => reply::bytes(StatusCode::OK, TEXT, answers, Held::default()),
        Err(error) => {
            reply::failure(&ToolError::internal("the requests could not be answered").because(error))
        }
    }
}

/// What says nothing, and what curl says unless it is told otherwise, is taken for text too.
fn is_text(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).map(|value| value.to_str().unwrap_or_default());
    let kind = kind.map(|kind| kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase());
    kind.is_none_or(|kind| ["text/plain", "application/x-www-form-urlencoded"].contains(&kind.as_str()))
}
