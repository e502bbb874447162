//! `/mcp`: the Model Context Protocol over HTTP. The crate `door-mcp` implements the protocol.
//!
//! A quick response without other messages is plain JSON. If other messages precede it (progress, a
//! question to the client's user), or it takes a while, it is the last event of a stream.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use door_http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use door_http::reply::{self, Event, HEARTBEAT, HEARTBEAT_INTERVAL, JSON, Reply};
use door_http::{
    Content, Gauge, Method, Mount, MountHandler, MountPoint, MountRequest, Operation, Role, Sender,
    StatusCode,
};
use door_mcp::{Answers, Endpoint, Follower, Headers, McpError, PostOutcome, SingleHeader, StreamMessage};
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::Instant;
use tool::{BoxFuture, ByteReservation, Code, SessionId, ToolError};

/// The path.
pub(crate) static POINT: MountPoint =
    MountPoint { path: "/mcp", roles: &[Role::Agent], methods: "GET, POST, DELETE", operations };

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");
const NAME: HeaderName = HeaderName::from_static("mcp-name");

/// First revision without sessions.
const SESSIONLESS: &str = "2026-07-28";

/// Revision whose clients expect an event with an id at the start of a stream.
const PRIMED: &str = "2025-11-25";

/// Time after which a response becomes a stream: clients and proxies give up a request without data.
const AT_ONCE: Duration = Duration::from_secs(5);

/// Maximum number of subjects with an endpoint. For one more, the endpoint that was idle for
/// longest is ended.
const MAX_SUBJECTS: usize = 1_000;

fn operations() -> Vec<Operation> {
    let content = |kind, schema, example| Content { kind, schema, example };
    let object = || json!({ "type": "object" });
    let notice =
        "event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n";
    vec![
        Operation {
            method: "post",
            summary: "One message of the Model Context Protocol (streamable HTTP, 2024-11-05 to 2026-07-28).",
            body: Some(content(JSON, object(), json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}))),
            answer_summary: "The answer, or a stream of messages that ends with it.",
            answer: content(JSON, object(), json!({"jsonrpc": "2.0", "id": 1, "result": {"tools": []}})),
        },
        Operation {
            method: "get",
            summary: "Messages of an MCP session that belong to no request.",
            body: None,
            answer_summary: "A stream of messages.",
            answer: content("text/event-stream", json!({ "type": "string" }), json!(notice)),
        },
        Operation {
            method: "delete",
            summary: "Ends an MCP session.",
            body: None,
            answer_summary: "The session has ended.",
            answer: content(JSON, object(), json!({})),
        },
    ]
}

/// Returns the mount of MCP with this endpoint.
pub(crate) fn mount(own: Endpoint) -> Mount {
    Mount { point: &POINT, handler: Arc::new(Mcp { own, of_subjects: Mutex::default() }) }
}

/// Handler of MCP messages.
struct Mcp {
    /// Endpoint for the tokens of this server.
    own: Endpoint,
    /// Endpoints of the identity provider's subjects, each with the time of its last use.
    of_subjects: Mutex<HashMap<SessionId, (Endpoint, Instant)>>,
}

impl MountHandler for Mcp {
    fn respond(&self, request: MountRequest) -> BoxFuture<'_, Reply> {
        Box::pin(async move {
            let endpoint = match self.endpoint(&request.sender) {
                Ok(endpoint) => endpoint,
                Err(error) => {
                    return reply::failure(&ToolError::internal("no session can be opened").because(error));
                }
            };
            match request.method {
                Method::GET => hear(&endpoint, &request),
                Method::DELETE => end(&endpoint, &request.headers).await,
                _ => post(&endpoint, request).await,
            }
        })
    }

    fn gauges(&self) -> Vec<Gauge> {
        let all = self.of_subjects.lock();
        let of_subjects: usize = all.values().map(|(endpoint, _)| endpoint.sessions()).sum();
        let value = self.own.sessions() + of_subjects;
        vec![Gauge { name: "handfast_mcp_sessions", help: "Open MCP sessions.", value }]
    }
}

impl Mcp {
    /// Returns the endpoint of a subject, created on first use; for a token of this server, the
    /// server's own endpoint.
    ///
    /// # Errors
    /// The errors of [`Endpoint::for_session`].
    fn endpoint(&self, sender: &Sender) -> Result<Endpoint, McpError> {
        if sender.subject.is_none() {
            return Ok(self.own.clone());
        }
        let mut all = self.of_subjects.lock();
        if let Some((endpoint, used)) = all.get_mut(&sender.session) {
            *used = Instant::now();
            return Ok(endpoint.clone());
        }
        if all.len() >= MAX_SUBJECTS {
            let oldest = all.iter().min_by_key(|(_, (_, used))| *used).map(|(session, _)| session.clone());
            if let Some((ended, _)) = oldest.and_then(|session| all.remove(&session)) {
                tokio::spawn(async move { ended.end_all().await });
            }
        }
        let endpoint = self.own.for_session(sender.session.clone())?;
        all.insert(sender.session.clone(), (endpoint.clone(), Instant::now()));
        Ok(endpoint)
    }
}

/// Formats that a client accepts.
#[derive(Clone, Copy)]
struct AcceptedFormats {
    json: bool,
    events: bool,
}

/// `POST /mcp`: one message.
async fn post(endpoint: &Endpoint, request: MountRequest) -> Reply {
    let MountRequest { headers, origin, body, stopping, .. } = request;
    let headers = &headers;
    if !is_json(headers) {
        let wrong = ToolError::validation("Content-Type", "it must be application/json");
        return reply::error(StatusCode::UNSUPPORTED_MEDIA_TYPE, &wrong);
    }
    let takes = takes(headers);
    if !takes.json && !takes.events {
        let wrong = ToolError::validation("Accept", "it must be application/json, text/event-stream");
        return reply::error(StatusCode::NOT_ACCEPTABLE, &wrong);
    }
    let read = match body.read().await {
        Ok(read) => read,
        Err(refusal) => return refusal,
    };
    let said = Headers {
        session: once(headers, &SESSION),
        version: once(headers, &VERSION),
        method: once(headers, &METHOD),
        name: once(headers, &NAME),
        carrier: origin.parent.as_ref(),
    };
    let posted = endpoint.post(&said, &read.bytes).await;
    drop(read);
    match posted {
        PostOutcome::Accepted => {
            reply::bytes(StatusCode::ACCEPTED, JSON, Vec::new(), ByteReservation::default())
        }
        PostOutcome::Refused(refused) => {
            reply::bytes(status(refused.status), JSON, refused.text, ByteReservation::default())
        }
        // Clients of earlier revisions mistake an event without data for a broken message.
        PostOutcome::Answers(answers) => {
            answered(stopping, answers, takes, said.version == SingleHeader::Is(PRIMED)).await
        }
    }
}

/// `GET /mcp`: messages of a session that belong to no request, as they arrive.
///
/// The revision 2026-07-28 has no sessions: there these messages are the response to a
/// `subscriptions/listen`.
fn hear(endpoint: &Endpoint, request: &MountRequest) -> Reply {
    let headers = &request.headers;
    if !takes(headers).events {
        let wrong = ToolError::validation("Accept", "it must be text/event-stream");
        return reply::error(StatusCode::NOT_ACCEPTABLE, &wrong);
    }
    if headers.get(&VERSION).is_some_and(|version| version == SESSIONLESS) {
        return reply::wrong_method("POST");
    }
    let session = once(headers, &SESSION);
    let begun = match headers.get(&LAST_EVENT) {
        Some(id) => {
            endpoint.resume(session, id.to_str().unwrap_or_default()).map(|follower| (follower, false))
        }
        None => endpoint
            .hear(session)
            .map(|follower| (follower, once(headers, &VERSION) == SingleHeader::Is(PRIMED))),
    };
    match begun {
        Ok((follower, primes)) => follow(request.stopping.clone(), follower, primes),
        Err(refused) => reply::bytes(status(refused.status), JSON, refused.text, ByteReservation::default()),
    }
}

/// Waits until the server is stopped.
async fn wait_for_stop(stopping: &mut watch::Receiver<bool>) {
    // A dropped sender also means that the server has stopped.
    drop(stopping.wait_for(|stopping| *stopping).await);
}

/// `DELETE /mcp`: ends a session.
async fn end(endpoint: &Endpoint, headers: &HeaderMap) -> Reply {
    let session = headers.get(&SESSION).and_then(|value| value.to_str().ok());
    match session {
        Some(session) if endpoint.end(session).await => reply::json(StatusCode::OK, &json!({ "ok": true })),
        Some(_) => reply::failure(&ToolError::new(Code::NotFound, "unknown session")),
        None => reply::failure(&ToolError::validation("Mcp-Session-Id", "it is missing")),
    }
}

async fn answered(
    stopping: watch::Receiver<bool>,
    mut answers: Answers,
    takes: AcceptedFormats,
    primes: bool,
) -> Reply {
    let opened = answers.opened.take();
    let begun = if takes.json && takes.events {
        tokio::time::timeout(AT_ONCE, answers.next()).await.ok()
    } else if takes.json {
        Some(alone(&mut answers).await)
    } else {
        None
    };
    let mut reply = match begun {
        Some(Some(saying)) if saying.is_answer => {
            reply::bytes(status(saying.status), JSON, saying.text, saying.held)
        }
        Some(None) => reply::failure(&ToolError::new(Code::Unavailable, "the session has ended")),
        begun => match answers.follow(begun.flatten()) {
            Ok(follower) => follow(stopping, follower, primes),
            Err(alone) => stream(alone.0, alone.1),
        },
    };
    if let Some(session) = opened.and_then(|session| HeaderValue::try_from(session).ok()) {
        reply.headers_mut().insert(SESSION, session);
    }
    reply
}

/// Returns the response, without other messages, for a client that accepts only JSON.
async fn alone(answers: &mut Answers) -> Option<StreamMessage> {
    loop {
        let saying = answers.next().await?;
        if saying.is_answer {
            return Some(saying);
        }
    }
}

/// Streams the messages of a session as events that the client can resume from.
fn follow(mut stopping: watch::Receiver<bool>, mut follower: Follower, primes: bool) -> Reply {
    let (events, reply) = reply::events(());
    tokio::spawn(async move {
        if primes && events.send(reply::event_of(&follower.begin(), b"").into()).await.is_err() {
            return;
        }
        let mut heartbeat = tokio::time::interval_at(Instant::now() + HEARTBEAT_INTERVAL, HEARTBEAT_INTERVAL);
        loop {
            tokio::select! {
                event = follower.next() => {
                    let Some(event) = event else { return };
                    let text = reply::event_of(&event.id, &event.text);
                    let sent = events.send(Event::holding(text, event.held)).await;
                    if event.is_answer || sent.is_err() {
                        return;
                    }
                }
                // A client that has not read the previous events needs no heartbeat.
                _ = heartbeat.tick() => drop(events.try_send(HEARTBEAT.into())),
                // The call continues for a while without the stream.
                () = events.closed() => return,
                // Calls are awaited; a standing stream would keep the server running forever.
                () = wait_for_stop(&mut stopping), if follower.stands() => return,
            }
        }
    });
    reply
}

/// Streams messages as events, up to the response.
fn stream(mut answers: Answers, first: Option<StreamMessage>) -> Reply {
    let (events, reply) = reply::events(());
    tokio::spawn(async move {
        let mut next = first;
        let mut heartbeat = tokio::time::interval_at(Instant::now() + HEARTBEAT_INTERVAL, HEARTBEAT_INTERVAL);
        loop {
            if let Some(saying) = next.take() {
                let text = reply::event("message", &saying.text);
                let sent = events.send(Event::holding(text, saying.held)).await;
                if saying.is_answer || sent.is_err() {
                    return;
                }
            }
            tokio::select! {
                saying = answers.next() => match saying {
                    Some(saying) => next = Some(saying),
                    None => return,
                },
                // A client that has not read the previous events needs no heartbeat.
                _ = heartbeat.tick() => drop(events.try_send(HEARTBEAT.into())),
                // The call ends when `answers` is dropped.
                () = events.closed() => return,
            }
        }
    });
    reply
}

fn status(code: u16) -> StatusCode {
    StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

fn once<'a>(headers: &'a HeaderMap, name: &HeaderName) -> SingleHeader<'a> {
    let mut values = headers.get_all(name).iter();
    match (values.next().map(HeaderValue::to_str), values.next()) {
        (None, _) => SingleHeader::Absent,
        (Some(Ok(value)), None) => SingleHeader::Is(value),
        _ => SingleHeader::Several,
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(JSON)
}

/// Returns the formats that the client accepts; without an `Accept` header, all of them.
fn takes(headers: &HeaderMap) -> AcceptedFormats {
    let mut said = false;
    let mut takes = AcceptedFormats { json: false, events: false };
    for kind in headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()) {
        for kind in kind.split(',') {
            said = true;
            let mut parts = kind.split(';').map(str::trim);
            let kind = parts.next().unwrap_or_default().to_ascii_lowercase();
            let refused = parts
                .any(|part| part.strip_prefix("q=").is_some_and(|weight| weight.parse::<f32>() == Ok(0.0)));
            if refused {
                continue;
            }
            takes.json |= matches!(kind.as_str(), "application/json" | "application/*" | "*/*");
            takes.events |= matches!(kind.as_str(), "text/event-stream" | "text/*" | "*/*");
        }
    }
    if said { takes } else { AcceptedFormats { json: true, events: true } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_takes_is_what_it_says() {
        let said = |accept: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            if let Some(accept) = accept {
                headers.insert(ACCEPT, HeaderValue::from_static(accept));
            }
            let AcceptedFormats { json, events } = takes(&headers);
            (json, events)
        };
        assert_eq!(said(None), (true, true));
        assert_eq!(said(Some("application/json, text/event-stream")), (true, true));
        assert_eq!(said(Some("*/*;q=0.1")), (true, true));
        assert_eq!(said(Some("application/json")), (true, false));
        assert_eq!(said(Some("Text/Event-Stream; q=0.5")), (false, true));
        assert_eq!(said(Some("text/html, application/json;q=0")), (false, false));
    }
}
