//! Scripted servers over streams in memory, and the parts that a caller hands in.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mcp_client::{
    Abilities, Client, ClientError, ClientName, FirstContact, Limits, Listener, Notice, Options,
    ProcessStreams, Refusal, ServerProcess, ServerRequests,
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tool::{BoxFuture, Timer};

/// Clock of the runtime, which tests pause.
pub(crate) struct RuntimeTimer;

impl Timer for RuntimeTimer {
    fn now(&self) -> Instant {
        tokio::time::Instant::now().into_std()
    }

    fn sleep_until(&self, moment: Instant) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep_until(moment.into()))
    }
}

/// Everything that a test sees of a connection.
#[derive(Clone, Default)]
pub(crate) struct Seen {
    notices: Arc<Mutex<Vec<Notice>>>,
    requests: Arc<Mutex<Vec<String>>>,
    killed: Arc<AtomicBool>,
    abilities: Abilities,
}

impl Seen {
    pub(crate) fn able(abilities: Abilities) -> Self {
        Self { abilities, ..Self::default() }
    }

    pub(crate) fn notices(&self) -> Vec<Notice> {
        self.notices.lock().clone()
    }

    /// Returns the methods of the requests that came to the caller.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().clone()
    }

    pub(crate) fn is_killed(&self) -> bool {
        self.killed.load(Ordering::SeqCst)
    }

    fn note(&self, method: &str, answer: Value) -> BoxFuture<'_, Result<Value, Refusal>> {
        self.requests.lock().push(method.to_owned());
        Box::pin(std::future::ready(Ok(answer)))
    }
}

impl Listener for Seen {
    fn notice(&self, notice: Notice) {
        self.notices.lock().push(notice);
    }
}

impl ServerProcess for Seen {
    fn kill(&self) {
        self.killed.store(true, Ordering::SeqCst);
    }
}

impl ServerRequests for Seen {
    fn abilities(&self) -> Abilities {
        self.abilities
    }

    fn sample(&self, params: Value) -> BoxFuture<'_, Result<Value, Refusal>> {
        self.note(
            "sampling",
            json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": params["messages"][0]["content"]["text"]}}),
        )
    }

    fn elicit(&self, _: Value) -> BoxFuture<'_, Result<Value, Refusal>> {
        self.note("elicitation", json!({"action": "accept", "content": {"name": "Ada"}}))
    }

    fn roots(&self) -> BoxFuture<'_, Result<Value, Refusal>> {
        self.note("roots", json!({"roots": [{"uri": "file:///w"}]}))
    }
}

/// Limits that a test reaches fast.
pub(crate) fn limits() -> Limits {
    Limits {
        message: 1024 * 1024,
        request: 64 * 1024,
        discover: Duration::from_secs(2),
        handshake: Duration::from_secs(5),
        answer: Duration::from_secs(20),
        notifications: 50,
        notifications_per_second: 10,
        flood: 500,
        pages: 5,
        entries: 100,
        server_request: Duration::from_secs(30),
        ..Limits::default()
    }
}

pub(crate) fn options(seen: &Seen, first: FirstContact) -> Options {
    Options {
        name: ClientName { name: "tests".to_owned(), version: "1".to_owned() },
        first,
        limits: limits(),
        timer: Arc::new(RuntimeTimer),
        requests: Arc::new(seen.clone()),
        listener: Arc::new(seen.clone()),
        wants_notices: true,
    }
}

/// Server's side of a pair of streams.
pub(crate) struct Server {
    lines: tokio::io::Lines<BufReader<DuplexStream>>,
    output: DuplexStream,
}

impl Server {
    /// Returns the next message of the client; `None` if it has closed its end.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        let line = self.lines.next_line().await.ok()??;
        Some(serde_json::from_str(&line).expect("a message of the client is JSON"))
    }

    /// Returns the next request of this method, and leaves out everything before it.
    pub(crate) async fn expect(&mut self, method: &str) -> Value {
        loop {
            let message = self.next().await.unwrap_or_else(|| panic!("the client ended before `{method}`"));
            if message["method"] == method {
                return message;
            }
        }
    }

    /// Writes bytes; false if nobody reads them any longer.
    pub(crate) async fn raw(&mut self, bytes: &[u8]) -> bool {
        self.output.write_all(bytes).await.is_ok()
    }

    pub(crate) async fn send(&mut self, message: Value) -> bool {
        self.raw(format!("{message}\n").as_bytes()).await
    }

    pub(crate) async fn answer(&mut self, request: &Value, result: Value) -> bool {
        self.send(json!({"jsonrpc": "2.0", "id": request["id"], "result": result})).await
    }

    /// Answers the handshake of the era of sessions.
    pub(crate) async fn handshake(&mut self) {
        let request = self.expect("initialize").await;
        let capabilities = json!({
            "tools": {"listChanged": true}, "prompts": {}, "resources": {"subscribe": true}, "completions": {}, "logging": {},
        });
        let info = json!({"name": "fake", "version": "0.1"});
        self.answer(
            &request,
            json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": info}),
        )
        .await;
        self.expect("notifications/initialized").await;
    }

    /// Answers the discovery of the stateless era.
    pub(crate) async fn discovery(&mut self) {
        let request = self.expect("server/discover").await;
        let info = json!({"io.modelcontextprotocol/serverInfo": {"name": "fake", "version": "0.2"}});
        let result = json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "ttlMs": 0, "cacheScope": "private",
            "capabilities": {"tools": {"listChanged": true}}, "instructions": "Be\u{202e} careful.", "_meta": info,
        });
        self.answer(&request, result).await;
    }

    /// Waits until the client closes its end.
    pub(crate) async fn until_closed(&mut self) {
        while self.next().await.is_some() {}
    }
}

/// Starts a scripted server on the runtime, and returns the streams to it.
pub(crate) fn start<S>(seen: &Seen, script: impl FnOnce(Server) -> S) -> ProcessStreams
where
    S: Future<Output = ()> + Send + 'static,
{
    // Two pipes, so that either direction can be closed alone.
    let (input, read) = tokio::io::duplex(256 * 1024);
    let (output, write) = tokio::io::duplex(256 * 1024);
    tokio::spawn(script(Server { lines: BufReader::new(read).lines(), output: write }));
    ProcessStreams { output: Box::new(output), input: Box::new(input), process: Box::new(seen.clone()) }
}

/// Connects to a scripted server that has had its handshake.
pub(crate) async fn connect<S>(seen: &Seen, script: impl FnOnce(Server) -> S + Send + 'static) -> Client
where
    S: Future<Output = ()> + Send + 'static,
{
    let streams = start(seen, |mut server| async move {
        server.handshake().await;
        script(server).await;
    });
    Client::over_streams(streams, options(seen, FirstContact::Handshake))
        .await
        .expect("the handshake succeeds")
}

pub(crate) fn call(tool: &str) -> mcp_client::ToolCall<'_> {
    mcp_client::ToolCall {
        tool,
        arguments: serde_json::Map::new(),
        input_schema: None,
        timeout: None,
        progress: None,
        requests: None,
    }
}

pub(crate) fn text(answer: &Result<mcp_client::content::ToolAnswer, ClientError>) -> String {
    match answer {
        Ok(answer) => match answer.content.as_slice() {
            [mcp_client::content::Content::Text(text)] => text.clone(),
            other => format!("{other:?}"),
        },
        Err(error) => format!("error: {error}"),
    }
}

/// Result of a tool with one text.
pub(crate) fn says(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}
