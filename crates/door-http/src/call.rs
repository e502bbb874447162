//! Calls, dry checks by the policy, and the list of tools.

use std::sync::Arc;
use std::time::Duration;

use dialects::Dialect;
use engine::{Answer, Approval, Asker, CallRequest, Door, NoAsker, Principal};
use hyper::StatusCode;
use hyper::header::{ACCEPT, HeaderMap};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tool::{BoxFuture, CallResult, Progress, Stop, StopReason, ToolError, visible};

use crate::body::{self, Event, HEARTBEAT_INTERVAL, RequestBody};
use crate::json_body::parse;
use crate::origin;
use crate::refusal;
use crate::reply::{self, JSON, Reply};
use crate::sender::Sender;
use crate::state::ServerState;

/// Hint that names the path at which approval requests are answered.
const ANSWERED_ELSEWHERE: &str = "answer with the user's token at /v1/approvals";

/// Minimum interval between two progress reports of one call: four per second are as many as a
/// person can follow.
const LEAST_INTERVAL: Duration = Duration::from_millis(250);

/// Maximum number of characters of a report.
const LONGEST_REPORT: usize = 500;

/// Body of a call.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CallBody {
    tool: String,
    #[serde(default)]
    arguments: Option<Value>,
    #[serde(default)]
    cache: bool,
}

/// Body of a check.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CheckBody {
    tool: String,
    #[serde(default)]
    arguments: Option<Value>,
}

/// `POST /v1/call`: the result of the call, or a stream of events that ends with the result.
pub(crate) async fn call(
    shared: &Arc<ServerState>,
    sender: &Sender,
    headers: &HeaderMap,
    body: RequestBody,
) -> Reply {
    let read = match shared.room.read(body).await {
        Ok(read) => read,
        Err(why) => return refusal::unread(&why),
    };
    let stop = Stop::default();
    let asker = Arc::new(NoAsker { hint: ANSWERED_ELSEWHERE.to_owned() });
    let mut principal =
        Principal::new(Door::Http, sender.session.clone(), shared.options.dialect.as_str(), asker);
    principal.holder = Some(sender.session.clone());
    let mut request = CallRequest {
        stop: stop.clone(),
        origin: origin::of(shared, headers, "/v1/call"),
        ..CallRequest::new(principal, "", Value::Null)
    };
    match parse::<CallBody>(&read.bytes) {
        Ok(call) => {
            request.tool = call.tool;
            request.arguments = call.arguments.unwrap_or_else(|| json!({}));
            request.cache = call.cache;
        }
        Err(error) => {
            let refused = shared.engine.refuse(request, error).await;
            return result(StatusCode::BAD_REQUEST, refused, shared.options.dialect);
        }
    }
    drop(read);
    if !wants_events(headers) {
        // If the client disconnects, this future is dropped, and the call with it.
        return result(StatusCode::OK, shared.engine.call(request).await, shared.options.dialect);
    }
    let (events, reply) = reply::events(StopOnDrop(stop));
    let listener = Arc::new(Listener { events: events.clone(), last: Mutex::default() });
    request.progress = listener.clone();
    request.principal.asker = listener;
    let (engine, dialect) = (shared.engine.clone(), shared.options.dialect);
    tokio::spawn(async move {
        let call = engine.call(request);
        tokio::pin!(call);
        let mut heartbeat = tokio::time::interval_at(Instant::now() + HEARTBEAT_INTERVAL, HEARTBEAT_INTERVAL);
        let result = loop {
            tokio::select! {
                result = &mut call => break result,
                // A client that has not read the previous events needs no heartbeat.
                _ = heartbeat.tick() => drop(events.try_send(body::HEARTBEAT.into())),
            }
        };
        if let Ok(text) = text(&result, dialect) {
            // If the client has gone, there is no receiver for the result.
            let _ = events.send(Event::holding(body::event("result", &text), result.held)).await;
        }
    });
    reply
}

/// Serializes the result of a call in the dialect.
fn text(result: &CallResult, dialect: Dialect) -> serde_json::Result<Vec<u8>> {
    dialect.answer(result).map_or_else(|| result.to_json(), |answer| serde_json::to_vec(&answer))
}

fn result(status: StatusCode, result: CallResult, dialect: Dialect) -> Reply {
    match text(&result, dialect) {
        Ok(text) => reply::bytes(status, JSON, text, result.held),
        Err(error) => {
            reply::failure(&ToolError::internal("the result could not be written as JSON").because(error))
        }
    }
}

/// `POST /v1/check`: the policy's decision on a call, with its reason. Nothing is run.
pub(crate) async fn check(shared: &Arc<ServerState>, body: RequestBody) -> Reply {
    let read = match shared.room.read(body).await {
        Ok(read) => read,
        Err(why) => return refusal::unread(&why),
    };
    let call: CheckBody = match parse(&read.bytes) {
        Ok(call) => call,
        Err(error) => return reply::failure(&error),
    };
    let engine = shared.engine.clone();
    // The check resolves paths, which may block on the disk.
    let checked = tokio::task::spawn_blocking(move || {
        engine.check(&call.tool, call.arguments.unwrap_or_else(|| json!({})))
    });
    match checked.await {
        Ok(Ok(checked)) => reply::json(StatusCode::OK, &checked),
        Ok(Err(error)) => reply::failure(&error),
        Err(panic) => reply::failure(&ToolError::internal("the call could not be checked").because(panic)),
    }
}

/// `GET /v1/tools`: every tool with its schemas.
pub(crate) fn tools(shared: &ServerState) -> Reply {
    let dialect = shared.options.dialect;
    let all = shared.engine.tools();
    let shown = all.iter().filter(|tool| dialect.shows(tool.as_ref()));
    let tools: Vec<Value> = shown.map(|tool| dialect.described(tool.as_ref())).collect();
    reply::json(StatusCode::OK, &tools)
}

/// Returns true if the client accepts event streams only. A client that accepts both gets a single
/// response.
fn wants_events(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let kinds = accepted.flat_map(|value| value.split(','));
    let mut kinds = kinds.map(|kind| kind.split(';').next().unwrap_or_default().trim()).peekable();
    kinds.peek().is_some() && kinds.all(|kind| kind == "text/event-stream")
}

/// Cancels a call when its client disconnects.
struct StopOnDrop(Stop);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        // A call that has ended ignores the request.
        self.0.request(StopReason::Cancelled);
    }
}

/// Sends progress and approval requests of a call to its stream.
struct Listener {
    events: mpsc::Sender<Event>,
    last: Mutex<Option<Instant>>,
}

impl Listener {
    fn send(&self, name: &str, value: &Value) {
        // A client that reads too slowly misses events other than the result.
        let _ = self.events.try_send(body::event(name, value.to_string().as_bytes()).into());
    }
}

impl Progress for Listener {
    fn report(&self, done: u64, total: Option<u64>, message: &str) {
        let mut last = self.last.lock();
        if last.is_some_and(|last| last.elapsed() < LEAST_INTERVAL) {
            return;
        }
        *last = Some(Instant::now());
        let message: String = visible(message).chars().take(LONGEST_REPORT).collect();
        self.send("progress", &json!({ "done": done, "total": total, "message": message }));
    }
}

impl Asker for Listener {
    fn ask<'a>(&'a self, approval: &'a Approval) -> BoxFuture<'a, Answer> {
        // The sender of the call learns that the call waits, but cannot answer.
        self.send(
            "approval",
            &json!({ "approval_id": approval.id, "effects": approval.effects, "reason": approval.reason }),
        );
        Box::pin(async { Answer::Nobody { hint: ANSWERED_ELSEWHERE.to_owned() } })
    }

    fn can_ask(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str) -> String {
        parse::<CallBody>(text.as_bytes()).unwrap_err().message
    }

    #[test]
    fn a_body_names_the_field_at_fault() {
        for (text, field) in [
            ("", "`body`"),
            ("[]", "`body`"),
            ("{}", "tool"),
            (r#"{"tool": 1}"#, "`tool`"),
            (r#"{"tool": "x", "colour": 1}"#, "colour"),
            (r#"{"tool": "x", "cache": "yes"}"#, "`cache`"),
            (r#"{"tool": "x"} {"tool": "y"}"#, "`body`"),
            ("{\"tool\": \"\u{1}\"}", "`tool`"),
        ] {
            assert!(problem(text).contains(field), "{text}: {}", problem(text));
        }
        assert!(parse::<CallBody>(br#"{"tool": "x", "arguments": {"a": [1]}}"#).is_ok());
        let deep = format!(r#"{{"tool": "x", "arguments": {}}}"#, "[".repeat(100_000));
        assert!(problem(&deep).contains("recursion"), "{}", problem(&deep));
        let many = format!(r#"{{"tool": "x", "arguments": {{"a": [{}]}}}}"#, "1,".repeat(1_100_000));
        assert!(problem(&many).contains("million values"), "{}", problem(&many));
    }

    #[test]
    fn a_stream_is_given_to_who_asks_for_one() {
        let wants = |accept: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, accept.parse().unwrap());
            wants_events(&headers)
        };
        assert!(wants("text/event-stream") && wants(" text/event-stream;q=0.5"));
        assert!(!wants("*/*") && !wants("application/json, text/event-stream"));
        assert!(!wants_events(&HeaderMap::new()));
    }
}
