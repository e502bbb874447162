//! Answers and refusals, each with its status.
//!
//! A status says whether the request could be taken; whether the tool worked is said by `ok` in the body, as through every door.
//! So nothing between the client and here repeats a call because of its status.

use engine::Engine;
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE,
};
use hyper::{Response, StatusCode};
use serde::Serialize;
use serde_json::json;
use tokio::sync::mpsc;
use tool::{Code, Held, Retry, ToolError};

use crate::body::{Answer, Event, Unread};
use crate::credential::Role;
use crate::guard::Stranger;
use crate::oauth::{Provider, Refused};
use crate::route::{Access, Route};

/// What a client gets.
pub(crate) type Reply = Response<Answer>;

pub(crate) const JSON: &str = "application/json";

/// Bytes of one type.
pub(crate) fn bytes(status: StatusCode, kind: &'static str, bytes: Vec<u8>, held: Held) -> Reply {
    let mut reply = Response::new(Answer::whole(bytes, held));
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    reply
}

/// A value as JSON.
pub(crate) fn json(status: StatusCode, value: &impl Serialize) -> Reply {
    match serde_json::to_vec(value) {
        Ok(text) => bytes(status, JSON, text, Held::default()),
        Err(error) => failure(&ToolError::internal("the answer could not be written as JSON").because(error)),
    }
}

/// A stream of events, which ends with its sender. The guard is dropped with the stream.
pub(crate) fn events(guard: impl std::any::Any + Send + Sync) -> (mpsc::Sender<Event>, Reply) {
    let (sender, answer) = Answer::events(guard);
    let mut reply = Response::new(answer);
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    reply.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    (sender, reply)
}

/// An error of the request itself, in the shape of a failed call.
pub(crate) fn error(status: StatusCode, error: &ToolError) -> Reply {
    let mut reply = json(status, &json!({ "ok": false, "error": error.to_wire() }));
    if let Retry::AfterMs(after) = error.retry {
        reply.headers_mut().insert(RETRY_AFTER, HeaderValue::from(after.div_ceil(1000)));
    }
    reply
}

/// An error with the status that fits its code.
pub(crate) fn failure(failed: &ToolError) -> Reply {
    error(status_of(failed.code), failed)
}

/// The status of a request that failed so. Calls do not fail as requests: their results have one of their own.
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

/// There is nothing at the path. The hint names only what the sender may ask for; none where nobody says by a token who sends it.
pub(crate) fn unknown_path(engine: &Engine, path: &str, sender: Option<Role>) -> Reply {
    let may = |route: &Route| match (route.access(), sender) {
        (Access::Open, _) => true,
        (Access::Only(roles), Some(role)) => roles.contains(&role),
        (Access::Only(_), None) => false,
    };
    let hint = [
        (Route::OpenApi, "/v1/openapi.json says what there is"),
        (Route::Metrics, "/metrics has the figures, which are all that the observers' token is for"),
    ];
    let hint = hint.into_iter().find(|(route, _)| may(route)).map_or(
        "/healthz says whether the server lives; all else needs a token, in the header `Authorization: Bearer TOKEN`",
        |(_, hint)| hint,
    );
    failure(&ToolError::new(Code::NotFound, format!("there is nothing at {}", engine.shown(path))).hint(hint))
}

pub(crate) fn no_csp() -> Reply {
    failure(
        &ToolError::new(Code::NotFound, "this server speaks another dialect than csp1")
            .hint("`handfast up --dialect csp1` answers CSP/1 here"),
    )
}

pub(crate) fn wrong_method(allowed: &'static str) -> Reply {
    let wrong = ToolError::new(Code::Validation, format!("only {allowed} is answered here"));
    let mut reply = error(StatusCode::METHOD_NOT_ALLOWED, &wrong);
    reply.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    reply
}

/// The request says by no token that is good here who sends it.
pub(crate) fn no_credential(engine: &Engine, refused: &Refused, provider: Option<&Provider>) -> Reply {
    let (status, failed, problem) = match refused {
        Refused::Absent => (StatusCode::UNAUTHORIZED, denied("the request has no token".to_owned()), None),
        Refused::Token(why) => (
            StatusCode::UNAUTHORIZED,
            denied(format!("the request's token is not good here: {}", engine.shown(why))),
            Some("invalid_token"),
        ),
        Refused::Scope | Refused::Several => (
            StatusCode::FORBIDDEN,
            denied(
                "the token has scopes of which one makes calls and another answers their questions"
                    .to_owned(),
            ),
            Some("insufficient_scope"),
        ),
        Refused::Keys => {
            let failed = ToolError::new(Code::Unavailable, "the identity provider's keys cannot be had")
                .retry(Retry::AfterMs(10_000));
            return failure(&failed);
        }
    };
    let failed = failed.hint(match provider {
        None => "send `Authorization: Bearer TOKEN`; `handfast up` prints the agent's and says where the user's is",
        Some(_) => "send `Authorization: Bearer TOKEN` with a token of the identity provider for this server alone",
    });
    challenged(error(status, &failed), provider, problem, None)
}

/// The sender is known, and may not do this.
pub(crate) fn wrong_role(
    has: Option<Role>,
    needs: &[Role],
    provider: Option<&Provider>,
    scope: Option<&str>,
) -> Reply {
    let needs: Vec<&str> = needs.iter().map(|role| role.as_str()).collect();
    let has = has.map_or("nobody here", Role::as_str);
    let message =
        format!("this takes the token of {}, and the request has that of {has}", needs.join(" or "));
    let reply = failure(&denied(message));
    if provider.is_some() { challenged(reply, provider, Some("insufficient_scope"), scope) } else { reply }
}

fn denied(message: String) -> ToolError {
    ToolError::new(Code::Permission, message)
}

/// Says with which token it would go (RFC 6750, section 3, and RFC 9728, section 5.1).
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

/// As much of it as an answer repeats.
pub(crate) fn stranger(engine: &Engine, stranger: &Stranger) -> Reply {
    let (status, message, hint) = match stranger {
        Stranger::NoHost => {
            (StatusCode::BAD_REQUEST, "the request must have exactly one `Host`".to_owned(), None)
        }
        Stranger::Encoding => (
            StatusCode::BAD_REQUEST,
            "`Transfer-Encoding` must be `chunked` alone, or not be there".to_owned(),
            None,
        ),
        Stranger::Host(host) => (
            StatusCode::FORBIDDEN,
            format!("the request was sent to `{}`, which is no name of this server", engine.shown(host)),
            Some("send it to its address, or name that name with --allow-host"),
        ),
        Stranger::Origin(origin) => (
            StatusCode::FORBIDDEN,
            format!(
                "the request comes from a web page of {}, which may not reach this server",
                engine.shown(origin)
            ),
            Some("where it may, name its origin with --allow-origin"),
        ),
    };
    let code = if status == StatusCode::FORBIDDEN { Code::Permission } else { Code::Validation };
    let mut refused = ToolError::new(code, message);
    refused.hint = hint.map(str::to_owned);
    let mut reply = error(status, &refused);
    if *stranger == Stranger::Encoding {
        // Where its body ends is not sure, so nothing behind it is a request.
        reply.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    reply
}

pub(crate) fn unread(why: &Unread) -> Reply {
    let (status, failed) = match why {
        Unread::TooLong(limit) => (
            StatusCode::PAYLOAD_TOO_LARGE,
            ToolError::validation("body", format!("larger than the limit of {limit} bytes for one message"))
                .hint("send less in one call, for example a large file or patch in parts"),
        ),
        Unread::NoRoom => (
            StatusCode::SERVICE_UNAVAILABLE,
            ToolError::new(Code::Quota, "the requests that are being read fill all the room there is")
                .retry(Retry::AfterMs(1000)),
        ),
        Unread::TooSlow => {
            (StatusCode::REQUEST_TIMEOUT, ToolError::new(Code::Timeout, "the body did not come in time"))
        }
        Unread::Broken => {
            (StatusCode::BAD_REQUEST, ToolError::validation("body", "it ended before its end, or is no HTTP"))
        }
    };
    let mut reply = error(status, &failed);
    // What is left of the body would be taken for the next request.
    reply.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    reply
}
