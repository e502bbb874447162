//! Responses and refusals, each with its status.
//!
//! The status reports whether the request was accepted; `ok` in the body reports whether the tool
//! succeeded, as in every protocol. Hence no intermediary repeats a call because of its status.

use engine::Engine;
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE,
};
use hyper::{Response, StatusCode};
use serde::Serialize;
use serde_json::json;
use tokio::sync::mpsc;
use tool::{ByteReservation, Code, Retry, ToolError};

use crate::body::{Answer, BodyError, Event};
use crate::credential::Role;
use crate::oauth::{Provider, TokenRejection};
use crate::origin_check::Rejection;
use crate::route::{Access, Route};

/// Response to a client.
pub(crate) type Reply = Response<Answer>;

pub(crate) const JSON: &str = "application/json";

/// Builds a response of this content type.
pub(crate) fn bytes(status: StatusCode, kind: &'static str, bytes: Vec<u8>, held: ByteReservation) -> Reply {
    let mut reply = Response::new(Answer::whole(bytes, held));
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    reply
}

/// Builds a response with a value as JSON.
pub(crate) fn json(status: StatusCode, value: &impl Serialize) -> Reply {
    match serde_json::to_vec(value) {
        Ok(text) => bytes(status, JSON, text, ByteReservation::default()),
        Err(error) => {
            failure(&ToolError::internal("the response could not be written as JSON").because(error))
        }
    }
}

/// Builds a stream of events, which ends when the sender is dropped. `guard` is dropped with the stream.
pub(crate) fn events(guard: impl std::any::Any + Send + Sync) -> (mpsc::Sender<Event>, Reply) {
    let (sender, answer) = Answer::events(guard);
    let mut reply = Response::new(answer);
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    reply.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    (sender, reply)
}

/// Builds a response for an error of the request itself, in the form of a failed call.
pub(crate) fn error(status: StatusCode, error: &ToolError) -> Reply {
    let mut reply = json(status, &json!({ "ok": false, "error": error.to_wire() }));
    if let Retry::AfterMs(after) = error.retry {
        reply.headers_mut().insert(RETRY_AFTER, HeaderValue::from(after.div_ceil(1000)));
    }
    reply
}

/// Builds a response for an error, with the status for its code.
pub(crate) fn failure(failed: &ToolError) -> Reply {
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

/// Builds the response for an unknown path. The hint names only routes that the sender may use;
/// without a token, only open ones.
pub(crate) fn unknown_path(engine: &Engine, path: &str, sender: Option<Role>) -> Reply {
    let may = |route: &Route| match (route.access(), sender) {
        (Access::Open, _) => true,
        (Access::Only(roles), Some(role)) => roles.contains(&role),
        (Access::Only(_), None) => false,
    };
    let hint = [
        (Route::OpenApi, "see /v1/openapi.json"),
        (Route::Metrics, "the observers' token is only for /metrics"),
    ];
    let hint = hint.into_iter().find(|(route, _)| may(route)).map_or(
        "/healthz shows whether the server runs; all else needs the header `Authorization: Bearer TOKEN`",
        |(_, hint)| hint,
    );
    failure(&ToolError::new(Code::NotFound, format!("there is nothing at {}", engine.shown(path))).hint(hint))
}

pub(crate) fn no_csp() -> Reply {
    failure(
        &ToolError::new(Code::NotFound, "this server does not speak the dialect csp1")
            .hint("`handfast up --dialect csp1` answers CSP/1 here"),
    )
}

pub(crate) fn wrong_method(allowed: &'static str) -> Reply {
    let wrong = ToolError::new(Code::Validation, format!("only {allowed} is allowed here"));
    let mut reply = error(StatusCode::METHOD_NOT_ALLOWED, &wrong);
    reply.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    reply
}

/// Builds the response for a request without a valid token.
pub(crate) fn no_credential(engine: &Engine, refused: &TokenRejection, provider: Option<&Provider>) -> Reply {
    let (status, failed, problem) = match refused {
        TokenRejection::Absent => {
            (StatusCode::UNAUTHORIZED, denied("the request has no token".to_owned()), None)
        }
        TokenRejection::Token(why) => (
            StatusCode::UNAUTHORIZED,
            denied(format!("the request's token is not accepted: {}", engine.shown(why))),
            Some("invalid_token"),
        ),
        TokenRejection::Scope | TokenRejection::Several => (
            StatusCode::FORBIDDEN,
            denied("the token has a scope for calls and one for answering questions".to_owned()),
            Some("insufficient_scope"),
        ),
        TokenRejection::Keys => {
            let failed = ToolError::new(Code::Unavailable, "cannot get the identity provider's keys")
                .retry(Retry::AfterMs(10_000));
            return failure(&failed);
        }
    };
    let failed = failed.hint(match provider {
        None => {
            "send `Authorization: Bearer TOKEN`; `handfast up` prints the agent's token and the \
             location of the user's"
        }
        Some(_) => {
            "send `Authorization: Bearer TOKEN` with a token of the identity provider for this \
             server only"
        }
    });
    challenged(error(status, &failed), provider, problem, None)
}

/// Builds the response for a sender whose role is insufficient.
pub(crate) fn wrong_role(
    has: Option<Role>,
    needs: &[Role],
    provider: Option<&Provider>,
    scope: Option<&str>,
) -> Reply {
    let needs: Vec<&str> = needs.iter().map(|role| role.as_str()).collect();
    let has = has.map_or("nobody here", Role::as_str);
    let message =
        format!("this needs the token of {}, but the request has the one of {has}", needs.join(" or "));
    let reply = failure(&denied(message));
    if provider.is_some() { challenged(reply, provider, Some("insufficient_scope"), scope) } else { reply }
}

fn denied(message: String) -> ToolError {
    ToolError::new(Code::Permission, message)
}

/// Adds a challenge that describes the required token (RFC 6750, section 3, and RFC 9728, section 5.1).
fn challenged(
    mut reply: Reply,
    provider: Option<&Provider>,
    problem: Option<&str>,
    scope: Option<&str>,
) -> Reply {
    let mut challenge = "Bearer realm=\"handfast\"".to_owned();
    let metadata = provider.map(Provider::metadata_url);
    for (name, value) in [("error", problem), ("scope", scope), ("resource_metadata", metadata.as_deref())] {
        if let Some(value) = value {
            challenge.push_str(&format!(", {name}=\"{value}\""));
        }
    }
    let challenge = HeaderValue::try_from(challenge).unwrap_or(HeaderValue::from_static("Bearer"));
    reply.headers_mut().insert(WWW_AUTHENTICATE, challenge);
    reply
}

/// Builds the response for a request that the guard rejected.
pub(crate) fn stranger(engine: &Engine, stranger: &Rejection) -> Reply {
    let (status, message, hint) = match stranger {
        Rejection::NoHost => {
            (StatusCode::BAD_REQUEST, "the request must have exactly one `Host`".to_owned(), None)
        }
        Rejection::Encoding => (
            StatusCode::BAD_REQUEST,
            "`Transfer-Encoding` must be only `chunked`, or absent".to_owned(),
            None,
        ),
        Rejection::Host(host) => (
            StatusCode::FORBIDDEN,
            format!("the request was sent to `{}`, which is not a name of this server", engine.shown(host)),
            Some("send it to the server's address, or allow that name with --allow-host"),
        ),
        Rejection::Origin(origin) => (
            StatusCode::FORBIDDEN,
            format!(
                "the request comes from a web page of {}, which may not reach this server",
                engine.shown(origin)
            ),
            Some("to allow it, pass its origin with --allow-origin"),
        ),
    };
    let code = if status == StatusCode::FORBIDDEN { Code::Permission } else { Code::Validation };
    let mut refused = ToolError::new(code, message);
    refused.hint = hint.map(str::to_owned);
    let mut reply = error(status, &refused);
    if *stranger == Rejection::Encoding {
        // The end of the body is ambiguous, so no further request can follow.
        reply.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    reply
}

pub(crate) fn unread(why: &BodyError) -> Reply {
    let (status, failed) = match why {
        BodyError::TooLong(limit) => (
            StatusCode::PAYLOAD_TOO_LARGE,
            ToolError::validation("body", format!("larger than the limit of {limit} bytes for one message"))
                .hint("send less in one call, for example a large file or patch in parts"),
        ),
        BodyError::NoRoom => (
            StatusCode::SERVICE_UNAVAILABLE,
            ToolError::new(Code::Quota, "the requests being read use all available memory")
                .retry(Retry::AfterMs(1000)),
        ),
        BodyError::TooSlow => {
            (StatusCode::REQUEST_TIMEOUT, ToolError::new(Code::Timeout, "the body did not arrive in time"))
        }
        BodyError::Broken => {
            (StatusCode::BAD_REQUEST, ToolError::validation("body", "it is incomplete or not HTTP"))
        }
    };
    let mut reply = error(status, &failed);
    // The rest of the body would be read as the next request.
    reply.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    reply
}
