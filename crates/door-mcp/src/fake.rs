//! Test doubles: an engine without layers, and a client that writes raw JSON.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use engine::{Answer, Approval, CallRequest, Offer, Scope};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tool::{
    AnyTool, ByteReservation, CallId, CallResult, CallerForms, CallerModel, Class, Code, Example, Lane,
    Level, Meta, Outcome, Place, PreparedCall, Presentation, SessionId, Spec, Stop, StopReason, TextCap,
    Timeout, ToolError,
};

use crate::calls::Calls;
use crate::serve::connect;
use crate::{McpError, Options};

/// Fake engine, with counters of its calls.
#[derive(Default)]
pub(crate) struct Fake {
    tools: Vec<Arc<dyn AnyTool>>,
    /// Shared by all results that were not released yet.
    pub(crate) held: Arc<()>,
    calls: AtomicUsize,
    /// Counts of running and of stopped calls of `wait`.
    pub(crate) waiting: AtomicUsize,
    pub(crate) stopped: Arc<AtomicUsize>,
    pub(crate) shut_down: AtomicUsize,
    /// Ended sessions.
    pub(crate) ended: parking_lot::Mutex<Vec<String>>,
    /// Releases calls of `gate`, and work that `leave` has left.
    pub(crate) gate: Arc<Notify>,
    /// Outcome of the work that `leave` has left.
    pub(crate) left: Arc<parking_lot::Mutex<Option<Result<Value, ToolError>>>>,
}

struct FakeTool(Spec, Value);

impl AnyTool for FakeTool {
    fn spec(&self) -> &Spec {
        &self.0
    }

    fn input_schema(&self) -> &Value {
        &self.1
    }

    fn output_schema(&self) -> &Value {
        &self.1
    }

    fn prepare(&self, _arguments: Value, _place: &Place) -> Result<PreparedCall, ToolError> {
        Err(ToolError::internal("the fake engine prepares nothing"))
    }
}

fn offer(scope: Scope) -> Offer {
    Offer { scope, pattern: None, covers: "the same write again".to_owned(), seconds: 60, past: None }
}

fn fake_tool(name: &'static str, presentation: Presentation) -> Arc<dyn AnyTool> {
    let spec = Spec {
        name,
        title: "A tool",
        description: "Does something.",
        example: Example { files: &[], arguments: r#"{"path": "a.txt"}"#, result: "{}" },
        level: Level::Safe,
        class: Class::READ,
        timeout: Timeout::fixed(30),
        lane: Lane::Read,
        text: TextCap::Default,
        presentation,
    };
    let schema = json!({
        "type": "object",
        "properties": {"path": {"type": "string", "description": "Where."}},
        "additionalProperties": true,
    });
    Arc::new(FakeTool(spec, schema))
}

impl Fake {
    pub(crate) fn new() -> Arc<Self> {
        let record = Presentation::Record;
        let mut tools = vec![fake_tool("text", Presentation::Text { field: "content" })];
        tools.extend(
            ["record", "fail", "ask", "wait", "gate", "steps", "change", "sample", "form", "leave"]
                .map(|name| fake_tool(name, record)),
        );
        Arc::new(Self { tools, ..Self::default() })
    }

    /// Returns the number of results that were not released yet.
    pub(crate) fn outstanding(&self) -> usize {
        Arc::strong_count(&self.held) - 1
    }

    async fn outcome(&self, request: &CallRequest, call: &CallId) -> Result<Value, ToolError> {
        match request.tool.as_str() {
            "record" | "change" => Ok(json!({"echo": request.arguments})),
            "text" => {
                let size = request.arguments["size"].as_u64().unwrap_or(5);
                let content = "x".repeat(usize::try_from(size).unwrap());
                Ok(json!({"path": "a.txt", "content": content, "size": size}))
            }
            "fail" => Err(ToolError::new(Code::Timeout, "it took too long")
                .hint("ask for less")
                .data(json!({"stdout": "half"}))),
            "ask" => self.ask(request, call).await,
            "wait" => {
                self.waiting.fetch_add(1, Ordering::SeqCst);
                let reason = requested(&request.stop).await;
                self.stopped.fetch_add(1, Ordering::SeqCst);
                Err(reason.into())
            }
            "gate" => {
                tokio::select! {
                    () = self.gate.notified() => Ok(json!({"passed": true})),
                    reason = requested(&request.stop) => Err(reason.into()),
                }
            }
            "steps" => {
                for step in 1..=3 {
                    request.progress.report(step, Some(3), "a step");
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
                Ok(json!({"steps": 3}))
            }
            "sample" => {
                let (stop, stopped) = (request.stop.clone(), self.stopped.clone());
                tokio::select! {
                    biased;
                    reason = requested(&stop) => {
                        stopped.fetch_add(1, Ordering::SeqCst);
                        Err(reason.into())
                    }
                    answers = sample(request.principal.model.clone(), request.arguments.clone()) => answers,
                }
            }
            "form" => {
                let (stop, stopped) = (request.stop.clone(), self.stopped.clone());
                tokio::select! {
                    biased;
                    reason = requested(&stop) => {
                        stopped.fetch_add(1, Ordering::SeqCst);
                        Err(reason.into())
                    }
                    answers = show(request.principal.forms.clone(), request.arguments.clone()) => answers,
                }
            }
            "leave" => {
                let (left, gate) = (self.left.clone(), self.gate.clone());
                let (model, arguments) = (request.principal.model.clone(), request.arguments.clone());
                tokio::spawn(async move {
                    gate.notified().await;
                    *left.lock() = Some(sample(model, arguments).await);
                });
                Ok(json!({"left": true}))
            }
            "panic" => panic!("the handler of this request panics"),
            name => Err(ToolError::new(Code::NotFound, format!("there is no tool named `{name}`"))
                .hint("did you mean `record`?")),
        }
    }

    async fn ask(&self, request: &CallRequest, call: &CallId) -> Result<Value, ToolError> {
        tokio::time::sleep(Duration::from_secs(request.arguments["after"].as_u64().unwrap_or(0))).await;
        let critical = request.arguments["critical"] == true;
        let approval = Approval {
            id: "a1".to_owned(),
            call: call.clone(),
            tool: request.tool.clone(),
            level: if critical { Level::Critical } else { Level::Moderate },
            effects: vec![format!("write {}", request.arguments["path"])],
            reason: "moderate calls are asked about".to_owned(),
            rule: "the table of smart_auto".to_owned(),
            preview: None,
            preview_more_lines: 0,
            once_only: critical,
            patterns_in_the_cell: false,
            terminal_only: critical,
            offers: if critical { Vec::new() } else { vec![offer(Scope::Session), offer(Scope::Project)] },
            pattern_kind: None,
            suggestion: None,
            digest: request.arguments.to_string(),
            effects_digest: String::new(),
            bound: Vec::new(),
            connections: Vec::new(),
            every_host: false,
            program: engine::Program::default(),
        };
        let answer = tokio::select! {
            answer = request.principal.asker.ask(&approval) => answer,
            reason = requested(&request.stop) => return Err(reason.into()),
        };
        match answer {
            Answer::Once { by } => Ok(json!({"allowed": "once", "by": by})),
            Answer::Lease { offer, by } => Ok(json!({"allowed": offer.scope, "by": by})),
            Answer::Denied { by, message } => Err(ToolError::new(
                Code::Permission,
                format!("{by} said no: {}", message.unwrap_or_default()),
            )),
            nobody => {
                let hint = match nobody {
                    Answer::Nobody { hint } | Answer::Unanswered { hint } => hint,
                    _ => "later".to_owned(),
                };
                let mut error = ToolError::new(Code::Approval, "this call needs approval").hint(hint);
                error.approval_id = Some(approval.id);
                Err(error)
            }
        }
    }

    fn result(&self, tool: &str, call: CallId, outcome: Result<Value, ToolError>) -> CallResult {
        let known = self.tools.iter().find(|known| known.name() == tool);
        let presentation = known.map_or(Presentation::Record, |tool| tool.spec().presentation);
        let outcome = outcome.map_or_else(Outcome::Err, |data| Outcome::Ok(data.into()));
        let held = ByteReservation(Some(Box::new(self.held.clone())));
        let mut meta = Meta::arrived(call, Timestamp::UNIX_EPOCH);
        meta.checkpoint = (tool == "change").then(|| "k1".to_owned());
        CallResult { outcome, presentation, meta, held }
    }

    fn next_call(&self) -> CallId {
        CallId(format!("c{}", self.calls.fetch_add(1, Ordering::SeqCst) + 1))
    }
}

/// Asks the caller's model once for each prompt, after as many seconds as the arguments say.
async fn sample(model: Option<Arc<dyn CallerModel>>, arguments: Value) -> Result<Value, ToolError> {
    let model = model.ok_or_else(|| ToolError::new(Code::Unavailable, "the caller offers no model"))?;
    let mut answers = Vec::new();
    for prompt in arguments["prompts"].as_array().into_iter().flatten() {
        tokio::time::sleep(Duration::from_secs(arguments["after"].as_u64().unwrap_or(0))).await;
        let content = json!([{"role": "user", "content": {"type": "text", "text": prompt}}]);
        let answer = model.sample(json!({"messages": content, "maxTokens": 10})).await;
        answers.push(answer.map_err(|error| ToolError::new(Code::Unavailable, format!("{error:?}")))?);
    }
    Ok(json!({"answers": answers}))
}

/// Shows a form with each message, after as many seconds as the arguments say.
async fn show(forms: Option<Arc<dyn CallerForms>>, arguments: Value) -> Result<Value, ToolError> {
    let forms = forms.ok_or_else(|| ToolError::new(Code::Unavailable, "the caller shows no forms"))?;
    let mut answers = Vec::new();
    for message in arguments["messages"].as_array().into_iter().flatten() {
        tokio::time::sleep(Duration::from_secs(arguments["after"].as_u64().unwrap_or(0))).await;
        let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}});
        let answer = forms.show(json!({"message": message, "requestedSchema": schema})).await;
        answers.push(answer.map_err(|error| ToolError::new(Code::Unavailable, format!("{error:?}")))?);
    }
    Ok(json!({"answers": answers}))
}

async fn requested(stop: &Stop) -> StopReason {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    stop.on_request(move |reason| {
        // The call may have ended already.
        let _ = sender.send(reason);
    });
    receiver.await.unwrap()
}

impl Calls for Fake {
    fn tools(&self) -> Arc<[Arc<dyn AnyTool>]> {
        self.tools.clone().into()
    }

    fn on_tool_change(&self, _listener: impl Fn() -> bool + Send + Sync + 'static) {}

    fn foreign_content(&self) -> Option<Arc<dyn tool::ForeignContent>> {
        None
    }

    fn is_traced(&self) -> bool {
        true
    }

    async fn call(self: &Arc<Self>, request: CallRequest) -> CallResult {
        let call = self.next_call();
        let outcome = self.outcome(&request, &call).await;
        self.result(&request.tool, call, outcome)
    }

    async fn refuse(self: &Arc<Self>, request: CallRequest, error: ToolError) -> CallResult {
        let call = CallId(format!("refused {}", request.tool));
        self.result(&request.tool, call, Err(error))
    }

    async fn recorded(
        self: &Arc<Self>,
        _session: &SessionId,
        _dialect: &'static str,
        call: Option<String>,
    ) -> Result<Vec<Value>, ToolError> {
        let row = |call: &str| json!({"call": call, "decision": "deny"});
        Ok(if call.is_none_or(|call| call == "c7") { vec![row("c7")] } else { Vec::new() })
    }

    fn shown(&self, text: &str) -> String {
        tool::visible(text).chars().take(100).collect()
    }

    fn cover_message(&self, _message: &[u8]) -> Option<Vec<u8>> {
        None
    }

    async fn end_session(self: &Arc<Self>, session: &SessionId) {
        self.ended.lock().push(session.0.clone());
    }

    async fn shutdown(&self) {
        self.shut_down.fetch_add(1, Ordering::SeqCst);
    }
}

/// A client that writes raw lines.
pub(crate) struct Client {
    writer: Option<WriteHalf<DuplexStream>>,
    reader: BufReader<ReadHalf<DuplexStream>>,
    server: JoinHandle<Result<(), McpError>>,
}

/// Timeout for a line. The tests' clock advances only while all tasks are idle.
const TIMEOUT: Duration = Duration::from_hours(1);

impl Client {
    pub(crate) fn of(fake: &Arc<Fake>) -> Self {
        Self::with(fake, |_| {})
    }

    pub(crate) fn with(fake: &Arc<Fake>, change: impl FnOnce(&mut Options)) -> Self {
        let mut options = Options::new("handfast", "1.2.3", SessionId("s1".to_owned()));
        options.title = Some("Handfast".to_owned());
        // The core catalogue does not contain these tools.
        options.catalogue = dialects::CatalogueKind::Full;
        change(&mut options);
        let (client, server) = tokio::io::duplex(64 * 1024);
        let (input, output) = tokio::io::split(server);
        let server = tokio::spawn(connect(fake.clone(), options, input, output));
        let (reader, writer) = tokio::io::split(client);
        Self { writer: Some(writer), reader: BufReader::new(reader), server }
    }

    /// Sends one line unchanged.
    pub(crate) async fn raw(&mut self, line: impl AsRef<[u8]>) {
        let writer = self.writer.as_mut().unwrap();
        writer.write_all(line.as_ref()).await.unwrap();
        writer.write_all(b"\n").await.unwrap();
    }

    pub(crate) async fn send(&mut self, message: Value) {
        self.raw(message.to_string()).await;
    }

    /// Returns the next line, which must be one message.
    pub(crate) async fn next(&mut self) -> Value {
        let line = self.line().await.unwrap_or_else(|| panic!("the server has closed its side"));
        let message: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("no JSON: {line}"));
        assert_eq!(message["jsonrpc"], "2.0", "{line}");
        message
    }

    pub(crate) async fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = tokio::time::timeout(TIMEOUT, self.reader.read_line(&mut line)).await.expect("no answer");
        (read.unwrap() > 0).then(|| line.trim_end_matches('\n').to_owned())
    }

    /// Sends a request and returns the next message.
    pub(crate) async fn ask(&mut self, id: Value, method: &str, params: Value) -> Value {
        self.send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
        self.next().await
    }

    /// Sends a request without waiting for its response.
    pub(crate) async fn start(&mut self, id: Value, tool: &str, arguments: Value) {
        let params = json!({"name": tool, "arguments": arguments});
        self.send(json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})).await;
    }

    /// Performs the handshake of a revision, with these capabilities.
    pub(crate) async fn shake_hands(&mut self, revision: &str, capabilities: Value) -> Value {
        let client = json!({"name": "tester", "version": "9"});
        let params = json!({"protocolVersion": revision, "capabilities": capabilities, "clientInfo": client});
        let answer = self.ask(json!("hello"), "initialize", params).await;
        self.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        answer
    }

    /// Closes the client's side. Returns the remaining lines of the server, and its result.
    pub(crate) async fn close(mut self) -> (Vec<String>, Result<(), McpError>) {
        self.writer.as_mut().unwrap().shutdown().await.unwrap();
        let mut rest = Vec::new();
        while let Some(line) = self.line().await {
            rest.push(line);
        }
        (rest, self.server.await.unwrap())
    }

    /// Disconnects without notice. Returns the server's result.
    pub(crate) async fn vanish(self) -> Result<(), McpError> {
        drop((self.writer, self.reader));
        tokio::time::timeout(TIMEOUT, self.server).await.expect("the server does not end").unwrap()
    }
}

/// Returns the `_meta` of a request of revision 2026-07-28.
pub(crate) fn modern_meta(capabilities: &Value) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "tester", "version": "9"},
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    })
}

/// Runs all tasks that are ready.
pub(crate) async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}
