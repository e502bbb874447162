//! Responses, each with its status.
//!
//! The status reports whether the request was accepted; `ok` in the body reports whether the tool
//! succeeded, as in every protocol. Hence no intermediary repeats a call because of its status.

use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::{Response, StatusCode};
use serde::Serialize;
use serde_json::json;
use tokio::sync::mpsc;
use tool::{ByteReservation, Code, Retry, ToolError};

use crate::body::Answer;
pub use crate::body::{Event, HEARTBEAT, HEARTBEAT_INTERVAL, event, event_of};

/// Response to a client.
pub type Reply = Response<Answer>;

/// Content type of JSON.
pub const JSON: &str = "application/json";

/// Builds a response of this content type.
pub fn bytes(status: StatusCode, kind: &'static str, bytes: Vec<u8>, held: ByteReservation) -> Reply {
    let mut reply = Response::new(Answer::whole(bytes, held));
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    reply
}

/// Builds a response with a value as JSON.
pub fn json(status: StatusCode, value: &impl Serialize) -> Reply {
    match serde_json::to_vec(value) {
        Ok(text) => bytes(status, JSON, text, ByteReservation::default()),
        Err(error) => {
            failure(&ToolError::internal("the response could not be written as JSON").because(error))
        }
    }
}

/// Builds a stream of events, which ends when the sender is dropped. `guard` is dropped with the stream.
pub fn events(guard: impl std::any::Any + Send + Sync) -> (mpsc::Sender<Event>, Reply) {
    let (sender, answer) = Answer::events(guard);
    let mut reply = Response::new(answer);
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    reply.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    (sender, reply)
}

/// Builds a response for an error of the request itself, in the form of a failed call.
pub fn error(status: StatusCode, error: &ToolError) -> Reply {
    let mut reply = json(status, &json!({ "ok": false, "error": error.to_wire() }));
    if let Retry::AfterMs(after) = error.retry {
        reply.headers_mut().insert(RETRY_AFTER, HeaderValue::from(after.div_ceil(1000)));
    }
    reply
}

/// Builds a response for an error, with the status for its code.
pub fn failure(failed: &ToolError) -> Reply {
    error(status_of(failed.code), failed)
}

/// Maps an error code to the status of a failed request. Failed calls are not failed requests:
/// their results have status 200.
fn status_of(code: Code) -> StatusCode {
    match code {
        Code::Validation => StatusCode::BAD_REQUEST,
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::Permission | Code::Approval => StatusCode::FORBIDDEN,
        Code::Conflict => StatusCode::CONFLICT,
        Code::Quota => StatusCode::TOO_MANY_REQUESTS,
        Code::Timeout => StatusCode::REQUEST_TIMEOUT,
        Code::Unavailable | Code::Cancelled => StatusCode::SERVICE_UNAVAILABLE,
        Code::Runtime | Code::Internal => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// Builds a response for a method that the path does not have.
pub fn wrong_method(allowed: &'static str) -> Reply {
    let wrong = ToolError::new(Code::Validation, format!("only {allowed} is allowed here"));
    let mut reply = error(StatusCode::METHOD_NOT_ALLOWED, &wrong);
    reply.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    reply
}
