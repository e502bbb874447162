//! Tests with the real engine, which the fake engine of the unit tests cannot cover.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking, in its helpers too")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use engine::{CellSetup, Engine, Parts, Registry};
use jiff::Timestamp;
use policy::{Dialect, Policy, Setup};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use store_api::Store;
use store_sqlite::SqliteStore;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::Notify;
use tool::{
    Class, Clock, Context, Effect, ErasedTool, Example, Lane, Level, Place, Plan, Presentation, SessionId,
    Spec, TextCap, Timeout, Tool, ToolError,
};

const LIMIT: usize = 20_000;

struct Noon;

impl Clock for Noon {
    fn now(&self) -> Timestamp {
        "2026-11-21T12:00:00Z".parse().unwrap()
    }
}

const SPEC: Spec = Spec {
    name: "note",
    title: "Note",
    description: "Writes a note.",
    example: Example { files: &[], arguments: r#"{"path": "a.txt"}"#, result: "{}" },
    level: Level::Moderate,
    class: Class { reads_only: false, destructive: false, idempotent: true, open_world: false },
    timeout: Timeout::fixed(60),
    lane: Lane::Write,
    text: TextCap::Default,
    presentation: Presentation::Record,
};

/// Tool that writes `noted` into a file; needs approval in the default mode.
struct Note;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NoteArgs {
    /// Path to write.
    path: String,
}

#[derive(Serialize, JsonSchema)]
struct Done {
    /// Description of the change.
    done: String,
}

impl Tool for Note {
    type Args = NoteArgs;
    type Output = Done;
    const SPEC: Spec = SPEC;

    fn plan(&self, args: &NoteArgs, place: &Place) -> Result<Plan, ToolError> {
        Ok(Plan::of(vec![Effect::Write { path: place.resolve("path", &args.path)? }]))
    }

    async fn run(&self, context: &Context, args: NoteArgs) -> Result<Done, ToolError> {
        let path = context.place.resolve("path", &args.path)?;
        std::fs::write(&path, "noted").map_err(|error| ToolError::io("write", &path, error))?;
        Ok(Done { done: args.path })
    }
}

/// Tool that runs until it is stopped; needs no approval.
struct Endless {
    started: Arc<Notify>,
    ended: Arc<AtomicUsize>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NoArgs {}

impl Tool for Endless {
    type Args = NoArgs;
    type Output = Done;
    const SPEC: Spec =
        Spec { name: "endless", level: Level::Safe, class: Class::READ, lane: Lane::Read, ..SPEC };

    fn plan(&self, _args: &NoArgs, _place: &Place) -> Result<Plan, ToolError> {
        Ok(Plan::of(Vec::new()))
    }

    async fn run(&self, context: &Context, _args: NoArgs) -> Result<Done, ToolError> {
        let (sender, receiver) = std::sync::mpsc::channel();
        context.stop.on_request(move |_| sender.send(()).unwrap_or_default());
        self.started.notify_one();
        let stopped = receiver.recv();
        self.ended.fetch_add(1, Ordering::SeqCst);
        stopped.map_err(|_| ToolError::internal("the stop was lost"))?;
        context.stop.check()?;
        Ok(Done { done: "never".to_owned() })
    }
}

struct World {
    folder: tempfile::TempDir,
    store: Arc<dyn Store>,
    engine: Arc<Engine>,
    started: Arc<Notify>,
    ended: Arc<AtomicUsize>,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let (workspace, state) = (root.join("workspace"), root.join("state"));
        let spool = state.join("spool");
        std::fs::create_dir_all(&workspace).unwrap();
        std::fs::create_dir_all(&spool).unwrap();
        let policy = Policy::compile(&Setup {
            sources: &[],
            profile: "normal",
            mode: None,
            dialect: Dialect::default(),
            workspace: &workspace,
            home: None,
            protected: std::slice::from_ref(&state),
            closed: &[],
            programs: policy::Programs::Presumed,
            tools: &[],
        });
        let (started, ended) = (Arc::<Notify>::default(), Arc::<AtomicUsize>::default());
        let endless = Endless { started: started.clone(), ended: ended.clone() };
        let store = Arc::new(SqliteStore::open(&state).unwrap());
        let engine = Engine::new(Parts {
            cell: CellSetup { spool_directory: spool, ..CellSetup::default() },
            ..Parts::new(
                Place::at(workspace),
                Arc::new(policy.unwrap()),
                store.clone(),
                Registry::new([ErasedTool::tool(Note), ErasedTool::tool(endless)]).unwrap(),
                Arc::new(Noon),
            )
        });
        Self { folder, store, engine: Arc::new(engine.unwrap()), started, ended }
    }

    fn note(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.folder.path().join("workspace").join(name)).ok()
    }

    /// Returns every row of the audit log, as text.
    fn audit(&self) -> String {
        let mut rows = Vec::new();
        self.store.audit().export(&mut rows).unwrap();
        String::from_utf8(rows).unwrap()
    }
}

struct Client {
    writer: WriteHalf<DuplexStream>,
    reader: BufReader<ReadHalf<DuplexStream>>,
    server: tokio::task::JoinHandle<Result<(), door_mcp::McpError>>,
}

impl Client {
    fn of(world: &World) -> Self {
        let (client, server) = tokio::io::duplex(64 * 1024);
        let (input, output) = tokio::io::split(server);
        let mut options = door_mcp::Options::new("handfast", "1", SessionId("s1".to_owned()));
        options.message_limit = LIMIT;
        let server = tokio::spawn(door_mcp::serve(world.engine.clone(), options, input, output));
        let (reader, writer) = tokio::io::split(client);
        Self { writer, reader: BufReader::new(reader), server }
    }

    async fn send(&mut self, message: Value) {
        self.writer.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    async fn next(&mut self) -> Value {
        let mut line = String::new();
        // Not a measure of speed: the timeout ends a failing test.
        let read = tokio::time::timeout(Duration::from_mins(1), self.reader.read_line(&mut line)).await;
        assert!(read.expect("no answer").unwrap() > 0, "the server has closed its side");
        serde_json::from_str(&line).unwrap()
    }

    async fn start(&mut self, id: u64, tool: &str, arguments: Value, more: Value) {
        let mut params = json!({"name": tool, "arguments": arguments});
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.send(json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})).await;
    }

    async fn shake_hands(&mut self) {
        let client = json!({"name": "tester", "version": "9"});
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}}, "clientInfo": client});
        self.send(json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})).await;
        self.next().await;
    }

    async fn close(mut self) -> Result<(), door_mcp::McpError> {
        self.writer.shutdown().await.unwrap();
        self.server.await.unwrap()
    }
}

fn modern() -> Value {
    json!({"_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "tester", "version": "9"},
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
    }})
}

fn error_code(answer: &Value) -> &Value {
    &answer["result"]["_meta"]["handfast/error"]["code"]
}

#[tokio::test]
async fn a_call_is_asked_about_by_a_form_and_made_after_a_yes() {
    let world = World::new();
    let mut client = Client::of(&world);
    client.shake_hands().await;
    client.start(1, "note", json!({"path": "a.txt"}), json!({})).await;
    let question = client.next().await;
    let message = question["params"]["message"].as_str().unwrap();
    assert!(message.contains("note (moderate)") && message.contains("- write a.txt"), "{message}");
    assert_eq!(world.note("a.txt"), None, "nothing happens before the answer");
    let result = json!({"action": "accept", "content": {"decision": "allow for this session"}});
    client.send(json!({"jsonrpc": "2.0", "id": question["id"], "result": result})).await;
    let answer = client.next().await;
    assert_eq!(answer["result"]["content"][0]["text"], r#"{"done":"a.txt"}"#, "{answer}");
    assert_eq!(answer["result"]["_meta"]["handfast/meta"]["approved_by"], "the user of tester 9");
    assert_eq!(world.note("a.txt").as_deref(), Some("noted"));

    client.start(2, "note", json!({"path": "a.txt"}), json!({})).await;
    assert_eq!(client.next().await["id"], 2, "the session covers the same call");
    client.start(3, "note", json!({"path": "b.txt"}), json!({})).await;
    let question = client.next().await;
    assert_eq!(question["method"], "elicitation/create", "and no other one");
    let result = json!({"action": "accept", "content": {"decision": "deny"}});
    client.send(json!({"jsonrpc": "2.0", "id": question["id"], "result": result})).await;
    assert_eq!(error_code(&client.next().await), "EPERMISSION");
    assert_eq!(world.note("b.txt"), None);
    client.close().await.unwrap();
}

#[tokio::test]
async fn a_modern_call_is_repeated_with_the_answer_and_another_plan_is_not_covered() {
    let world = World::new();
    let mut client = Client::of(&world);
    let allow = |asked: &Value| {
        let mut more = modern();
        let response = json!({"action": "accept", "content": {"decision": "allow once"}});
        more["requestState"] = asked["result"]["requestState"].clone();
        more["inputResponses"] = json!({"approval": response});
        more
    };
    client.start(1, "note", json!({"path": "a.txt"}), modern()).await;
    let asked = client.next().await;
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    client.start(2, "note", json!({"path": "b.txt"}), allow(&asked)).await;
    assert_eq!(error_code(&client.next().await), "EPERMISSION");
    client.start(3, "note", json!({"path": "a.txt"}), modern()).await;
    let asked = client.next().await;
    assert_eq!((world.note("a.txt"), world.note("b.txt")), (None, None));
    client.start(4, "note", json!({"path": "a.txt"}), allow(&asked)).await;
    let answer = client.next().await;
    assert_eq!(answer["result"]["content"][0]["text"], r#"{"done":"a.txt"}"#, "{answer}");
    assert_eq!(world.note("a.txt").as_deref(), Some("noted"));
    client.start(5, "note", json!({"path": "a.txt"}), modern()).await;
    assert_eq!(client.next().await["result"]["resultType"], "input_required", "once was once");
    client.close().await.unwrap();
}

#[tokio::test]
async fn wrong_arguments_are_a_result_and_an_unknown_tool_is_a_protocol_error() {
    let world = World::new();
    let mut client = Client::of(&world);
    client.shake_hands().await;
    for arguments in [json!({}), json!({"path": 7}), json!({"path": "a", "mode": 1})] {
        client.start(1, "note", arguments, json!({})).await;
        let answer = client.next().await;
        assert_eq!(
            (error_code(&answer), &answer["result"]["isError"]),
            (&json!("EVALIDATION"), &json!(true)),
            "{answer}"
        );
    }
    client.start(2, "nite", json!({}), json!({})).await;
    let answer = client.next().await;
    assert_eq!(answer["error"]["code"], -32602);
    assert!(answer["error"]["message"].as_str().unwrap().contains("did you mean `note`"), "{answer}");
    client.close().await.unwrap();
}

#[tokio::test]
async fn a_cancelled_call_and_one_whose_client_is_gone_end_and_are_recorded() {
    let world = World::new();
    let mut client = Client::of(&world);
    client.shake_hands().await;
    client.start(1, "endless", json!({}), json!({})).await;
    world.started.notified().await;
    client
        .send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}))
        .await;
    client.start(2, "endless", json!({}), json!({})).await;
    world.started.notified().await;
    client.close().await.unwrap();
    assert_eq!(world.ended.load(Ordering::SeqCst), 2);
    let audit = world.audit();
    assert_eq!(audit.matches("ECANCELLED").count(), 2, "{audit}");
}

#[tokio::test]
async fn a_call_that_was_too_long_to_be_read_is_in_the_audit() {
    let world = World::new();
    let mut client = Client::of(&world);
    client.shake_hands().await;
    client.start(1, "note", json!({"path": "x".repeat(LIMIT)}), json!({})).await;
    assert_eq!(error_code(&client.next().await), "EVALIDATION");
    client.close().await.unwrap();
    let audit = world.audit();
    assert!(audit.contains("EVALIDATION") && audit.contains("note"), "{audit}");
}
