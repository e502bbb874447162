//! Responses to requests that are refused before any route handles them.

use engine::Engine;
use hyper::StatusCode;
use hyper::header::{CONNECTION, HeaderValue, WWW_AUTHENTICATE};
use tool::{Code, Retry, ToolError};

use crate::body::BodyError;
use crate::credential::Role;
use crate::oauth::{Provider, TokenRejection};
use crate::origin_check::Rejection;
use crate::reply::{self, Reply};
use crate::route::Route;

/// Builds the response for an unknown path. The hint names only routes that the sender may use;
/// without a token, only open ones.
pub(crate) fn unknown_path(engine: &Engine, path: &str, sender: Option<Role>) -> Reply {
    let may = |route: &Route| sender.is_some_and(|role| route.allows(role));
    let hint = [
        (Route::OpenApi, "see /v1/openapi.json"),
        (Route::Metrics, "the observers' token is only for /metrics"),
    ];
    let hint = hint.into_iter().find(|(route, _)| may(route)).map_or(
        "/healthz shows whether the server runs; all else needs the header `Authorization: Bearer TOKEN`",
        |(_, hint)| hint,
    );
    reply::failure(
        &ToolError::new(Code::NotFound, format!("there is nothing at {}", engine.shown(path))).hint(hint),
    )
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
            return reply::failure(&failed);
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
    challenged(reply::error(status, &failed), provider, problem, None)
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
    let refused = reply::failure(&denied(message));
    if provider.is_some() {
        challenged(refused, provider, Some("insufficient_scope"), scope)
    } else {
        refused
    }
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
    let mut reply = reply::error(status, &refused);
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
    let mut reply = reply::error(status, &failed);
    // The rest of the body would be read as the next request.
    reply.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    reply
}
