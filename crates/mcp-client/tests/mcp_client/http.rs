//! Servers behind streamable HTTP, scripted exchange by exchange.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mcp_client::{
    Abilities, Client, ClientError, CloseReason, FirstContact, HttpAnswer, HttpBody, HttpEndpoint,
    HttpFailure, HttpMethod, HttpRequest, HttpTransport, Notice, Options, Revision, ToolCall,
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tool::BoxFuture;

use crate::fake::{Seen, call, limits, options, says, text};

/// Piece of a scripted body.
#[derive(Debug, Clone)]
enum Piece {
    Bytes(Vec<u8>),
    /// The connection fails.
    Failure,
    /// End of all pieces without the end of the body.
    Silence,
}

struct Body(VecDeque<Piece>);

impl HttpBody for Body {
    fn piece(&mut self) -> BoxFuture<'_, Result<Option<Bytes>, HttpFailure>> {
        let next = self.0.pop_front();
        Box::pin(async move {
            match next {
                Some(Piece::Bytes(bytes)) => Ok(Some(bytes.into())),
                Some(Piece::Failure) => Err(HttpFailure { message: "reset".to_owned() }),
                Some(Piece::Silence) => std::future::pending().await,
                None => Ok(None),
            }
        })
    }
}

/// Scripted answer.
#[derive(Clone)]
struct Scripted {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Vec<Piece>,
}

fn scripted(status: u16, kind: &str, body: &str) -> Scripted {
    let body = vec![Piece::Bytes(body.as_bytes().to_vec())];
    Scripted { status, headers: vec![("Content-Type", kind.to_owned())], body }
}

fn json_answer(request: &Value, result: &Value) -> Scripted {
    let message = json!({"jsonrpc": "2.0", "id": request["id"], "result": result});
    scripted(200, "application/json; charset=utf-8", &message.to_string())
}

fn events(pieces: Vec<Piece>) -> Scripted {
    Scripted { status: 200, headers: vec![("content-type", "text/event-stream".to_owned())], body: pieces }
}

fn event(id: &str, message: &Value) -> Piece {
    Piece::Bytes(format!("id: {id}\nretry: 100\ndata: {message}\n\n").into_bytes())
}

fn answer_to(request: &Value, word: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": request["id"], "result": says(word)})
}

type Script = dyn Fn(&HttpRequest, &Value) -> Option<Scripted> + Send + Sync;

/// Transport to a scripted server.
struct Transport {
    script: Box<Script>,
    requests: Mutex<Vec<(HttpRequest, Value)>>,
}

impl HttpTransport for Transport {
    fn send(&self, request: HttpRequest) -> BoxFuture<'_, Result<HttpAnswer, HttpFailure>> {
        let message: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let answer = (self.script)(&request, &message).unwrap_or_else(|| default_answer(&request, &message));
        self.requests.lock().push((request, message));
        let headers = answer.headers.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let answer = HttpAnswer { status: answer.status, headers, body: Box::new(Body(answer.body.into())) };
        Box::pin(std::future::ready(Ok(answer)))
    }
}

/// Returns what an ordinary server with sessions answers.
fn default_answer(request: &HttpRequest, message: &Value) -> Scripted {
    match message["method"].as_str() {
        Some("server/discover") => scripted(400, "text/plain", "Bad Request: no session"),
        Some("initialize") => {
            let result = json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "web"}});
            let mut answer = json_answer(message, &result);
            answer.headers.push(("Mcp-Session-Id", "s-1".to_owned()));
            answer
        }
        Some(method) if method.starts_with("notifications/") => scripted(202, "", ""),
        _ if request.method == HttpMethod::Get => scripted(405, "", ""),
        _ if request.method == HttpMethod::Delete => scripted(200, "", ""),
        _ => json_answer(message, &says("default")),
    }
}

fn header<'a>(request: &'a HttpRequest, name: &str) -> Option<&'a str> {
    request.headers.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
}

fn endpoint(
    script: impl Fn(&HttpRequest, &Value) -> Option<Scripted> + Send + Sync + 'static,
) -> (HttpEndpoint, Arc<Transport>) {
    let transport = Arc::new(Transport { script: Box::new(script), requests: Mutex::default() });
    let headers = vec![
        ("authorization".to_owned(), "Bearer x".to_owned()),
        ("mcp-session-id".to_owned(), "stolen".to_owned()),
    ];
    (
        HttpEndpoint { url: "https://example.com/mcp".to_owned(), headers, transport: transport.clone() },
        transport,
    )
}

async fn connect(
    seen: &Seen,
    script: impl Fn(&HttpRequest, &Value) -> Option<Scripted> + Send + Sync + 'static,
) -> (Client, Arc<Transport>) {
    let (endpoint, transport) = endpoint(script);
    let client = Client::over_http(endpoint, options(seen, FirstContact::Discover)).await.unwrap();
    (client, transport)
}

/// Waits on the paused clock until every task has done what it can.
async fn settle() {
    tokio::time::timeout(Duration::from_mins(1), std::future::pending::<()>()).await.unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn a_session_is_found_kept_and_ended() {
    let seen = Seen::default();
    let (client, transport) = connect(&seen, |_, _| None).await;
    assert_eq!(client.facts().revision, Revision::V20251125);
    settle().await;
    assert_eq!(text(&client.call_tool(call("t")).await), "default");
    client.end(Duration::from_secs(5)).await;
    let requests = transport.requests.lock();
    let shown: Vec<String> = requests
        .iter()
        .map(|(request, message)| {
            let version = header(request, "mcp-protocol-version").unwrap_or("-");
            let session = header(request, "mcp-session-id").unwrap_or("-");
            format!("{:?} {} {version} {session}", request.method, message["method"].as_str().unwrap_or("-"))
        })
        .collect();
    assert_eq!(
        shown,
        [
            // The session of the configuration's headers is never used.
            "Post server/discover 2026-07-28 -",
            "Post initialize - -",
            "Post notifications/initialized 2025-11-25 s-1",
            "Get - 2025-11-25 s-1",
            "Post tools/call 2025-11-25 s-1",
            "Delete - 2025-11-25 s-1",
        ]
    );
    assert!(requests.iter().all(|(request, _)| header(request, "authorization") == Some("Bearer x")));
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_breaks_off_is_resumed_by_its_last_id() {
    let seen = Seen::default();
    let sent: Arc<Mutex<Value>> = Arc::default();
    let kept = sent.clone();
    let (client, transport) = connect(&seen, move |request, message| {
        if message["method"] == "tools/call" {
            *kept.lock() = message.clone();
            let half = Piece::Bytes(b"id: 8\ndata: {\"jsonrpc\":\"2.0\",".to_vec());
            return Some(events(vec![
                event("7", &json!({"jsonrpc": "2.0", "method": "notifications/x"})),
                half,
                Piece::Failure,
            ]));
        }
        match header(request, "last-event-id") {
            Some("7") => {
                let answer = answer_to(&kept.lock(), "resumed").to_string();
                let (one, two) = answer.split_at(20);
                let pieces = [format!("id: 9\ndata: {one}"), format!("{two}\n\n")];
                Some(events(pieces.map(|piece| Piece::Bytes(piece.into_bytes())).into()))
            }
            _ => None,
        }
    })
    .await;
    assert_eq!(text(&client.call_tool(call("t")).await), "resumed");
    let resumed = transport
        .requests
        .lock()
        .iter()
        .filter(|(request, _)| header(request, "last-event-id").is_some())
        .count();
    assert_eq!(resumed, 1);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_always_breaks_off_is_given_up() {
    let seen = Seen::default();
    let (client, transport) = connect(&seen, |request, message| {
        let is_resumed = header(request, "last-event-id").is_some();
        (message["method"] == "tools/call" || is_resumed)
            .then(|| events(vec![event("1", &json!({"jsonrpc": "2.0", "method": "notifications/x"}))]))
    })
    .await;
    let error = client.call_tool(call("t")).await.unwrap_err();
    assert!(matches!(error, ClientError::BrokenStream { .. }), "{error}");
    let resumed = transport
        .requests
        .lock()
        .iter()
        .filter(|(request, _)| header(request, "last-event-id").is_some())
        .count();
    assert_eq!(resumed, usize::try_from(limits().resumptions).unwrap());
    let lost =
        connect(&seen, |_, message| (message["method"] == "tools/call").then(|| events(vec![]))).await.0;
    assert!(
        matches!(lost.call_tool(call("t")).await, Err(ClientError::BrokenStream { .. })),
        "there is no id to resume from"
    );
}

#[tokio::test(start_paused = true)]
async fn the_stream_of_notices_carries_notices_and_requests_and_is_opened_again() {
    let seen = Seen::able(Abilities { roots: true, ..Abilities::default() });
    let opened = Arc::new(Mutex::new(0));
    let count = opened.clone();
    let (_client, transport) = connect(&seen, move |request, _| {
        if request.method != HttpMethod::Get {
            return None;
        }
        let mut count = count.lock();
        *count += 1;
        Some(match *count {
            1 => events(vec![
                event("1", &json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})),
                event("2", &json!({"jsonrpc": "2.0", "id": "r", "method": "roots/list"})),
                Piece::Failure,
            ]),
            2 => scripted(503, "", ""),
            _ => events(vec![Piece::Silence]),
        })
    })
    .await;
    settle().await;
    assert_eq!(seen.notices(), [Notice::ToolsChanged]);
    assert_eq!(*opened.lock(), 3);
    let requests = transport.requests.lock();
    let answer = requests.iter().find(|(_, message)| message["id"] == "r").unwrap();
    assert_eq!(answer.1["result"]["roots"][0]["uri"], "file:///w");
    assert_eq!(header(&requests.last().unwrap().0, "last-event-id"), Some("2"));
}

#[tokio::test(start_paused = true)]
async fn failures_keep_their_facts() {
    let seen = Seen::default();
    let failing = |status: u16, headers: Vec<(&'static str, String)>, body: &'static str| {
        let seen = seen.clone();
        async move {
            let (client, _) = connect(&seen, move |_, message| {
                let mut answer = scripted(status, "text/plain", body);
                answer.headers.extend(headers.clone());
                (message["method"] == "tools/call").then_some(answer)
            })
            .await;
            client.call_tool(call("t")).await.unwrap_err()
        }
    };
    let challenge = "Bearer resource_metadata=\"https://example.com/x\"".to_owned();
    let error = failing(401, vec![("WWW-Authenticate", challenge.clone())], "").await;
    assert_eq!(error, ClientError::Unauthorized { status: 401, challenge: Some(challenge) });
    assert_eq!(failing(404, vec![], "gone").await, ClientError::SessionLost);
    let error = failing(503, vec![("Retry-After", "7".to_owned())], "over\nloaded").await;
    assert_eq!(
        error,
        ClientError::Http {
            method: "tools/call".to_owned(),
            status: 503,
            message: "over loaded".to_owned(),
            retry_after: Some(Duration::from_secs(7)),
        }
    );
    let error =
        failing(400, vec![], r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"bad"}}"#).await;
    assert!(matches!(error, ClientError::Refused { code: -32600, .. }), "{error}");
    // A redirection could lead the credentials to another server.
    assert!(matches!(failing(307, vec![], "").await, ClientError::Http { status: 307, .. }));
    assert!(matches!(failing(200, vec![], "<html>").await, ClientError::BrokenStream { .. }));
}

#[tokio::test(start_paused = true)]
async fn bodies_and_events_without_end_or_sense_end_the_connection() {
    let long = || "x".repeat(limits().message + 100);
    let cases: Vec<(Scripted, CloseReason)> = vec![
        (scripted(200, "application/json", &long()), CloseReason::MessageTooLong { limit: limits().message }),
        (
            events(vec![Piece::Bytes(format!("data: {}", long()).into_bytes())]),
            CloseReason::MessageTooLong { limit: limits().message },
        ),
        (
            scripted(200, "application/json", "[]"),
            CloseReason::Malformed {
                problem: "it is an array of messages, which this revision does not have".to_owned(),
            },
        ),
        (
            events(vec![Piece::Bytes(b"data: \xff\n\n".to_vec())]),
            CloseReason::Malformed { problem: "it is not UTF-8".to_owned() },
        ),
    ];
    for (answer, expected) in cases {
        let (client, _) = connect(&Seen::default(), move |_, message| {
            (message["method"] == "tools/call").then(|| answer.clone())
        })
        .await;
        assert_eq!(client.call_tool(call("t")).await, Err(ClientError::Closed(expected.clone())));
        assert_eq!(client.closed(), Some(expected));
    }
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_events_ends_the_connection() {
    let (client, _) = connect(&Seen::default(), |_, message| {
        let notification = event("1", &json!({"jsonrpc": "2.0", "method": "notifications/x"}));
        (message["method"] == "tools/call").then(|| events(vec![notification; 2_000]))
    })
    .await;
    let error = client.call_tool(call("t")).await.unwrap_err();
    assert_eq!(error, ClientError::Closed(CloseReason::Flood { count: limits().flood + 1 }));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_never_comes_meets_the_deadline_and_the_server_is_told() {
    let (client, transport) = connect(&Seen::default(), |_, message| {
        (message["method"] == "tools/call").then(|| events(vec![Piece::Silence]))
    })
    .await;
    let error = client.call_tool(call("t")).await.unwrap_err();
    assert_eq!(error, ClientError::Timeout { method: "tools/call".to_owned(), after: limits().answer });
    settle().await;
    let requests = transport.requests.lock();
    let cancelled = &requests.last().unwrap().1;
    assert_eq!(cancelled["method"], "notifications/cancelled");
}

#[tokio::test(start_paused = true)]
async fn a_request_that_the_server_refused_is_not_withdrawn() {
    let (client, transport) = connect(&Seen::default(), |_, message| {
        (message["method"] == "tools/call").then(|| scripted(503, "text/plain", "busy"))
    })
    .await;
    client.call_tool(call("t")).await.unwrap_err();
    settle().await;
    let requests = transport.requests.lock();
    assert!(requests.iter().all(|(_, message)| message["method"] != "notifications/cancelled"));
    assert_eq!(client.server_use().running, 0);
}

/// Script of a server of the stateless era.
fn stateless(message: &Value) -> Option<Scripted> {
    let result =
        json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}});
    (message["method"] == "server/discover").then(|| json_answer(message, &result))
}

#[tokio::test(start_paused = true)]
async fn the_stateless_era_repeats_its_request_in_headers_and_has_no_session() {
    let (client, transport) = connect(&Seen::default(), |_, message| stateless(message)).await;
    assert_eq!(client.facts().revision, Revision::V20260728);
    let schema = json!({"properties": {"region": {"type": "string", "x-mcp-header": "Region"}}});
    let arguments = json!({"region": "eu"}).as_object().unwrap().clone();
    let answer = client.call_tool(ToolCall { arguments, input_schema: Some(&schema), ..call("t é") }).await;
    assert_eq!(text(&answer), "default");
    client.end(Duration::from_secs(5)).await;
    let requests = transport.requests.lock();
    assert_eq!(requests.len(), 2, "neither a stream nor the end of a session");
    let request = &requests[1].0;
    let shown = ["mcp-protocol-version", "mcp-method", "mcp-name", "mcp-param-region"]
        .map(|name| header(request, name));
    assert_eq!(shown, [Some("2026-07-28"), Some("tools/call"), Some("=?base64?dCDDqQ==?="), Some("eu")]);
}

#[tokio::test(start_paused = true)]
async fn a_broken_stream_of_the_stateless_era_is_a_lost_request() {
    let (client, transport) = connect(&Seen::default(), |_, message| {
        stateless(message).or_else(|| {
            let notification = event("1", &json!({"jsonrpc": "2.0", "method": "notifications/x"}));
            (message["method"] == "tools/call").then(|| events(vec![notification]))
        })
    })
    .await;
    assert!(matches!(client.call_tool(call("t")).await, Err(ClientError::BrokenStream { .. })));
    settle().await;
    assert_eq!(transport.requests.lock().len(), 2, "it is neither resumed nor cancelled");
}

#[tokio::test(start_paused = true)]
async fn a_login_that_is_needed_is_known_before_the_handshake() {
    let (endpoint, _) = endpoint(|_, _| Some(scripted(401, "", "")));
    let seen = Seen::default();
    let wanted = Options { first: FirstContact::Discover, ..options(&seen, FirstContact::Discover) };
    let error = Client::over_http(endpoint, wanted).await.err().unwrap();
    assert_eq!(error, ClientError::Unauthorized { status: 401, challenge: None });
    assert_eq!(seen.notices(), [Notice::Closed(CloseReason::ByCaller)]);
}

/// Body that a test fills while it is read.
struct Channel(tokio::sync::mpsc::UnboundedReceiver<Vec<u8>>);

impl HttpBody for Channel {
    fn piece(&mut self) -> BoxFuture<'_, Result<Option<Bytes>, HttpFailure>> {
        Box::pin(async { Ok(self.0.recv().await.map(Bytes::from)) })
    }
}

/// Server of the transport of 2024-11-05: it answers each message on the stream.
struct EventStreamServer {
    endpoint: &'static str,
    stream: Mutex<Option<tokio::sync::mpsc::UnboundedSender<Vec<u8>>>>,
    posted: Mutex<Vec<String>>,
}

impl HttpTransport for EventStreamServer {
    fn send(&self, request: HttpRequest) -> BoxFuture<'_, Result<HttpAnswer, HttpFailure>> {
        let answer = |status, kind: &str, body: Box<dyn HttpBody>| HttpAnswer {
            status,
            headers: vec![("content-type".to_owned(), kind.to_owned())],
            body,
        };
        let empty = || Box::new(Body(VecDeque::new()));
        let done = if request.method == HttpMethod::Get {
            let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
            sender.send(format!("event: endpoint\ndata: {}\n\n", self.endpoint).into_bytes()).unwrap();
            *self.stream.lock() = Some(sender);
            answer(200, "text/event-stream", Box::new(Channel(receiver)))
        } else {
            self.posted.lock().push(request.url.clone());
            let message: Value = serde_json::from_slice(&request.body).unwrap();
            let result = match message["method"].as_str() {
                Some("initialize") => json!({"protocolVersion": "2024-11-05", "capabilities": {"tools": {}}}),
                Some("tools/call") if message["params"]["name"] == "end" => {
                    *self.stream.lock() = None;
                    json!({})
                }
                _ => says("by stream"),
            };
            if let Some(stream) = &*self.stream.lock()
                && message.get("id").is_some()
            {
                let event = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
                stream
                    .send(format!("event: other\ndata: x\n\nevent: message\ndata: {event}\n\n").into_bytes())
                    .unwrap();
            }
            answer(202, "", empty())
        };
        Box::pin(std::future::ready(Ok(done)))
    }
}

#[tokio::test(start_paused = true)]
async fn the_transport_of_2024_carries_everything_on_one_stream_of_its_own_server() {
    let connect = async |named: &'static str, seen: &Seen| {
        let server =
            EventStreamServer { endpoint: named, stream: Mutex::default(), posted: Mutex::default() };
        let server = Arc::new(server);
        let url = "https://example.com/sse".to_owned();
        let endpoint = HttpEndpoint { url, headers: Vec::new(), transport: server.clone() };
        (Client::over_event_stream(endpoint, options(seen, FirstContact::Discover)).await, server)
    };
    let seen = Seen::default();
    let (client, server) = connect("/messages?session=1", &seen).await;
    let client = client.unwrap();
    assert_eq!(client.facts().revision, Revision::V20241105);
    assert_eq!(text(&client.call_tool(call("t")).await), "by stream");
    assert_eq!(*server.posted.lock(), ["https://example.com/messages?session=1"; 3]);
    let error = client.call_tool(call("end")).await.unwrap_err();
    assert_eq!(error, ClientError::Closed(CloseReason::ByServer));
    assert_eq!(seen.notices(), [Notice::Closed(CloseReason::ByServer)]);
    for stolen in ["https://evil.example/messages", "//evil.example/m", "http://example.com/m"] {
        let error = connect(stolen, &Seen::default()).await.0.err().unwrap();
        assert!(
            matches!(&error, ClientError::BrokenStream { problem, .. } if problem.contains("another server")),
            "{error}"
        );
    }
}
