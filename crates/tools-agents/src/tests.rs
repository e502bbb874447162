//! Tests of the family on a real store.

use std::cell::RefCell;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fetch::web::Web;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use jobs::{Action, JobRules, NewJob, ScheduleBook};
use llm::{ChatRequest, Message, Routes, WireFormat};
use serde_json::{Value, json};
use store_sqlite::SqliteStore;
use testkit::web::{Reply, Server};
use testkit::{FixedClock, Workspace};
use tool::{BoxFuture, Context, Effect, ForeseenCall, Hosts, LaterCalls, Level, ToolError};

use crate::{
    AgentHost, AgentMessage, AgentOverview, Agents, AskedAgent, CreatedAgent, JobRuntime, ListedAgent,
    ModelLimits, ModelProvider, ModelSource, ModelTurns, Models, PendingTurn, SwitchedModel, WantedAgent,
};

/// Decisions of a caller who may do everything but call the tool `denied`.
struct Lenient;

impl LaterCalls for Lenient {
    fn foresee(&self, tool: &str, _arguments: Value) -> Result<ForeseenCall, ToolError> {
        match tool {
            "missing" => Err(ToolError::new(tool::Code::NotFound, "there is no tool missing")),
            _ => Ok(ForeseenCall {
                is_denied: tool == "denied",
                reason: "a rule".to_owned(),
                ceiling: json!({"tool": tool}),
            }),
        }
    }

    fn ceiling(&self) -> Result<Value, ToolError> {
        Ok(json!({}))
    }
}

/// A Wednesday, noon in Berlin.
fn noon() -> Timestamp {
    "2026-03-04T11:00:00Z".parse().unwrap()
}

pub(crate) fn runtime(folder: &Path) -> JobRuntime {
    let store = Arc::new(SqliteStore::open(folder).unwrap());
    JobRuntime {
        book: ScheduleBook::new(store, "/w".into(), TimeZone::get("Europe/Berlin").ok()),
        clock: Arc::new(FixedClock(noon())),
        dialect: "handfast",
        of_command: |command| ("shell_execute", json!({"command": command})),
        no_agent: Some("no agent is set up"),
        is_served: Box::new(|| true),
    }
}

pub(crate) fn workspace(runtime: JobRuntime) -> Workspace {
    let later: Arc<dyn LaterCalls> = Arc::new(Lenient);
    let hosts: Arc<dyn Hosts> = Arc::new(ThisMachine);
    Workspace::new()
        .with_service(Arc::new(runtime))
        .with_service(Arc::new(later))
        .with_service(Arc::new(Web::default()))
        .with_service(Arc::new(hosts))
        .with_service(Arc::new(Agents(Arc::new(OneAgent))))
        .with_service(Arc::new(one_turn("session-1")))
}

/// Returns turns of which one waits, for an agent.
pub(crate) fn one_turn(agent: &str) -> ModelTurns {
    let turns = ModelTurns::default();
    let pending = PendingTurn {
        request: ChatRequest { messages: vec![Message::user("Say hello.")], ..ChatRequest::default() },
        needs: Vec::new(),
        agent: agent.to_owned(),
        session: "s1".to_owned(),
        agents: Vec::new(),
        sink: Box::new(|_: llm::Delta<'_>| {}),
    };
    turns.add("t1".to_owned(), pending);
    turns
}

/// Agents of a runtime of which one was started.
struct OneAgent;

impl AgentHost for OneAgent {
    fn create<'a>(
        &'a self,
        _context: &'a Context,
        _wanted: WantedAgent,
    ) -> BoxFuture<'a, Result<CreatedAgent, ToolError>> {
        let (id, model) = ("a1b2c3d4e5".to_owned(), "local/small".to_owned());
        Box::pin(std::future::ready(Ok(CreatedAgent { id, model })))
    }

    fn ask<'a>(
        &'a self,
        _context: &'a Context,
        _message: AgentMessage,
    ) -> BoxFuture<'a, Result<AskedAgent, ToolError>> {
        let answer = Some("A wrong time zone.".to_owned());
        Box::pin(std::future::ready(Ok(AskedAgent { status: "answered", answer, messages: Vec::new() })))
    }

    fn switch<'a>(
        &'a self,
        _context: &'a Context,
        model: &'a str,
    ) -> BoxFuture<'a, Result<SwitchedModel, ToolError>> {
        let (model, before) = (model.to_owned(), "local/small".to_owned());
        Box::pin(std::future::ready(Ok(SwitchedModel { model, before, profile: None })))
    }

    fn list<'a>(
        &'a self,
        _context: &'a Context,
        _wait: Duration,
    ) -> BoxFuture<'a, Result<AgentOverview, ToolError>> {
        let agent = ListedAgent {
            id: "a1b2c3d4e5".to_owned(),
            parent: "0".to_owned(),
            state: "idle",
            task: "Find out why tests/date.py fails.".to_owned(),
            model: "local/small".to_owned(),
            outcome: Some("A wrong time zone.".to_owned()),
        };
        Box::pin(std::future::ready(Ok(AgentOverview { agents: vec![agent], messages: Vec::new() })))
    }
}

/// Returns the error with which a tool refuses arguments.
pub(crate) fn refused(tool: &Arc<dyn tool::AnyTool>, arguments: Value) -> ToolError {
    let folder = tempfile::tempdir().unwrap();
    let workspace = workspace(runtime(folder.path()));
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let _entered = tokio.enter();
    testkit::run_in(tool.as_ref(), &workspace.context(), arguments).unwrap_err()
}

/// Returns two providers, of which a model must name one.
pub(crate) fn two_providers() -> Arc<Models> {
    let provider = ModelSource::from(ModelProvider::new(WireFormat::Ollama, None, None).unwrap());
    let providers = [("a".to_owned(), provider.clone()), ("b".to_owned(), provider)].into();
    Arc::new(Models::new(providers, Routes::default(), ModelLimits::default()).unwrap())
}

#[test]
fn every_tool_of_the_family_fulfils_what_all_must() {
    let folders: RefCell<Vec<tempfile::TempDir>> = RefCell::default();
    let fresh = || {
        let folder = tempfile::tempdir().unwrap();
        let runtime = runtime(folder.path());
        folders.borrow_mut().push(folder);
        let nightly = NewJob {
            id: "job_1".to_owned(),
            call: "c1".to_owned(),
            name: "nightly".to_owned(),
            description: String::new(),
            times: "every day at 3am".to_owned(),
            action: Action::Task { dialect: "handfast".to_owned(), goal: "sweep".to_owned() },
            rules: JobRules::default(),
            ceiling: "{}".to_owned(),
        };
        runtime.book.add(nightly, noon()).unwrap();
        workspace(runtime)
    };
    let server = Server::http(|_| hello());
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let _entered = tokio.enter();
    testkit::check_family(&super::tools(&local(&server.url(""), None)), fresh);
}

/// Returns the answer of a server with chat completions.
pub(crate) fn hello() -> Reply {
    let events = concat!(
        r#"data: {"id":"1","object":"chat.completion.chunk","created":1,"model":"small","choices":[{"index":0,"delta":{"role":"assistant","content":"Hello."},"finish_reason":null}]}"#,
        "\n\n",
        r#"data: {"id":"1","object":"chat.completion.chunk","created":1,"model":"small","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#,
        "\n\n",
        r#"data: {"id":"1","object":"chat.completion.chunk","created":1,"model":"small","choices":[],"usage":{"prompt_tokens":12,"completion_tokens":3,"total_tokens":15}}"#,
        "\n\ndata: [DONE]\n\n",
    );
    Reply::of(200, &[("content-type", "text/event-stream")], events)
}

/// Returns a provider of this name and address for simple tasks.
pub(crate) fn local(url: &str, key: Option<&str>) -> Arc<Models> {
    let provider =
        ModelProvider::new(WireFormat::OpenAiCompatible, Some(url.to_owned()), key.map(str::to_owned));
    let providers = [("local".to_owned(), provider.unwrap().into())].into();
    let routes = Routes { usual: vec!["local/small".to_owned()], ..Routes::default() };
    Arc::new(Models::new(providers, routes, ModelLimits::default()).unwrap())
}

/// Rules that let calls dial this machine alone.
struct ThisMachine;

impl Hosts for ThisMachine {
    fn may_also(&self, _level: Level, _effects: &[Effect]) -> Result<(), ToolError> {
        Ok(())
    }

    fn may_dial(&self, _host: &str, address: IpAddr, _port: u16) -> Option<bool> {
        Some(address.is_loopback())
    }
}

/// Calls a tool of the family by its place in the list.
pub(crate) fn call(workspace: &Workspace, tool: usize, arguments: Value) -> Result<Value, ToolError> {
    let mut context = workspace.context();
    context.clock = Arc::new(FixedClock(noon()));
    let mut hasher = DefaultHasher::new();
    arguments.to_string().hash(&mut hasher);
    context.call = tool::CallId(format!("{:022x}", hasher.finish()));
    testkit::run_in(super::tools(&Arc::default())[tool].as_ref(), &context, arguments)
}

#[test]
fn the_eleven_examples_of_the_source_are_understood() {
    let folder = tempfile::tempdir().unwrap();
    let workspace = workspace(runtime(folder.path()));
    for (times, kind, told) in [
        ("0 9 * * *", "recurring", "0 9 * * *"),
        ("every morning at 9am", "recurring", "0 9 * * *"),
        ("every hour", "recurring", "0 * * * *"),
        ("every monday at 2pm", "recurring", "0 14 * * 1"),
        ("every 5 minutes", "recurring", "*/5 * * * *"),
        ("in 5 minutes", "one_time", "2026-03-04T12:05:00+01:00"),
        ("in 1 hour", "one_time", "2026-03-04T13:00:00+01:00"),
        ("in 2 days", "one_time", "2026-03-06T12:00:00+01:00"),
        ("after 30 seconds", "one_time", "2026-03-04T12:00:30+01:00"),
        ("at 3pm", "one_time", "2026-03-04T15:00:00+01:00"),
        ("at 15:30", "one_time", "2026-03-04T15:30:00+01:00"),
    ] {
        let arguments = json!({"name": times, "task_goal": "sweep", "schedule": times, "description": "d", "max_retries": 2});
        let made = call(&workspace, 1, arguments).unwrap();
        let field = if kind == "recurring" { "cron_expression" } else { "run_at" };
        assert_eq!((&made["type"], &made[field], &made["name"]), (&json!(kind), &json!(told), &json!(times)));
        assert!(made["schedule_id"].as_str().is_some_and(|id| id.starts_with("job_")), "{made}");
        assert_eq!(made["zone"], "Europe/Berlin");
        assert_eq!(made["next_runs"].as_array().unwrap().len(), if kind == "recurring" { 3 } else { 1 });
    }
    let listed = call(&workspace, 2, json!({})).unwrap();
    assert_eq!((listed["tasks"].as_array().unwrap().len(), &listed["active"]), (11, &json!(11)));
    assert_eq!(listed["tasks"][0]["next_run"], "2026-03-05T09:00:00+01:00");
}

#[test]
fn a_schedule_is_paused_resumed_and_removed_by_its_name_or_its_id() {
    let folder = tempfile::tempdir().unwrap();
    let workspace = workspace(runtime(folder.path()));
    let made =
        call(&workspace, 1, json!({"name": "sweep", "command": "a", "schedule": "every hour"})).unwrap();
    let update = |name: &Value, action: &str| call(&workspace, 3, json!({"name": name, "action": action}));
    let name = json!("sweep");
    let paused = update(&name, "pause").unwrap();
    assert_eq!(
        (&paused["status"], &paused["changed"], paused.get("next_run")),
        (&json!("paused"), &json!(true), None)
    );
    assert_eq!(update(&name, "pause").unwrap()["changed"], false);
    assert_eq!(call(&workspace, 2, json!({"filter": "active"})).unwrap()["tasks"], json!([]));
    let resumed = update(&made["schedule_id"], "resume").unwrap();
    assert_eq!(
        (&resumed["status"], &resumed["next_run"]),
        (&json!("active"), &json!("2026-03-04T13:00:00+01:00"))
    );
    let missing = update(&json!("sweeep"), "remove").unwrap_err();
    assert_eq!((missing.code, missing.hint.as_deref()), (tool::Code::NotFound, Some("did you mean sweep?")));
    assert_eq!(update(&name, "remove").unwrap()["status"], "removed");
    assert_eq!(update(&name, "remove").unwrap_err().code, tool::Code::NotFound);
}
