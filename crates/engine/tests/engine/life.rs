//! Tests of the layers around a call, through the engine and with tools made for the purpose.

mod resources;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use engine::{
    Answer, Approval, Asker, CallRequest, Door, Engine, Offer, Parts, Principal, Redactor, Registry, Scope,
};
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use store_api::{Filter, RecordedRow, Store};
use store_sqlite::SqliteStore;
use testkit::{FixedClock, MovingTimer};
use tool::{
    AnyTool, BoxFuture, CallResult, Class, Code, Context, Effect, EffectState, ErasedTool, Example, Lane,
    Level, Place, Plan, Presentation, Progress, ResourcePool, SessionId, Spec, StopReason, TextCap, Timeout,
    Tool, ToolError,
};

/// Deadline of the calls, by the timer that the tests drive.
const TIMEOUT: Duration = Duration::from_hours(1);

/// Tool that follows its arguments and counts its runs.
struct Probe {
    runs: Arc<AtomicU32>,
    reads: bool,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// Path that the tool plans to write or to read.
    path: String,
    /// Action of the run.
    #[serde(default)]
    then: String,
}

#[derive(Serialize, JsonSchema)]
struct Output {
    /// Text of the result.
    text: String,
}

const fn spec(name: &'static str, level: Level, class: Class) -> Spec {
    Spec {
        name,
        title: "Probe",
        description: "Does as it is told.",
        example: Example { files: &[], arguments: "{}", result: "{}" },
        level,
        class,
        timeout: Timeout { default: TIMEOUT, max: TIMEOUT },
        lane: Lane::Write,
        text: TextCap::Default,
        presentation: Presentation::Record,
    }
}

struct Writer(Probe);
struct Reader(Probe);

impl Tool for Writer {
    type Args = Args;
    type Output = Output;
    const SPEC: Spec = spec(
        "probe_write",
        Level::Moderate,
        Class { reads_only: false, destructive: true, idempotent: true, open_world: false },
    );

    fn plan(&self, args: &Args, place: &Place) -> Result<Plan, ToolError> {
        Ok(Plan::of(vec![Effect::Write { path: place.resolve("path", &args.path)? }]))
    }

    async fn run(&self, context: &Context, args: Args) -> Result<Output, ToolError> {
        self.0.run(context, args)
    }
}

impl Tool for Reader {
    type Args = Args;
    type Output = Output;
    const SPEC: Spec = spec("probe_read", Level::Safe, Class::READ);

    fn plan(&self, args: &Args, place: &Place) -> Result<Plan, ToolError> {
        Ok(Plan::of(vec![Effect::Read { path: place.resolve("path", &args.path)? }]))
    }

    async fn run(&self, context: &Context, args: Args) -> Result<Output, ToolError> {
        self.0.run(context, args)
    }
}

impl Probe {
    #[expect(clippy::panic, reason = "a tool that breaks off is what one test is about")]
    fn run(&self, context: &Context, args: Args) -> Result<Output, ToolError> {
        let run = self.runs.fetch_add(1, Ordering::SeqCst);
        match args.then.as_str() {
            "panic" => panic!("as told"),
            "wait" => {
                // Runs until the stop is requested, as a tool with a loop does.
                while context.stop.requested().is_none() {
                    std::thread::yield_now();
                }
                context.stop.check()?;
            }
            _ => context.progress.report(1, None, &args.then),
        }
        assert_eq!(context.stop.requested(), None);
        let kind = if self.reads { "read" } else { "write" };
        Ok(Output { text: format!("{kind} {run} {}", args.then) })
    }
}

/// Asker that gives scripted answers in turn, and keeps the questions.
#[derive(Default)]
struct Script {
    answers: Mutex<VecDeque<Answer>>,
    asked: Mutex<Vec<Approval>>,
    /// Action while the question waits.
    meanwhile: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Asker for Script {
    fn ask<'a>(&'a self, approval: &'a Approval) -> BoxFuture<'a, Answer> {
        self.asked.lock().push(approval.clone());
        if let Some(meanwhile) = self.meanwhile.lock().take() {
            meanwhile();
        }
        let answer = self.answers.lock().pop_front().map(|answer| match answer {
            // The offer with the same reach as the script's.
            Answer::Lease { offer, by } => {
                let offered = approval.offers.iter().find(|offered| offered.scope == offer.scope).cloned();
                Answer::Lease { offer: offered.unwrap_or(offer), by }
            }
            other => other,
        });
        Box::pin(async move { answer.unwrap_or(Answer::Nobody { hint: "nobody is there".to_owned() }) })
    }
}

/// Progress receiver that keeps the reports.
#[derive(Default)]
struct Reports(Mutex<Vec<String>>);

impl Progress for Reports {
    fn report(&self, _done: u64, _total: Option<u64>, message: &str) {
        self.0.lock().push(message.to_owned());
    }
}

struct Bench {
    folder: tempfile::TempDir,
    engine: Arc<Engine>,
    store: Arc<dyn Store>,
    asker: Arc<Script>,
    runs: Arc<AtomicU32>,
    reports: Arc<Reports>,
    timer: MovingTimer,
}

impl Bench {
    fn new(answers: impl IntoIterator<Item = Answer>) -> Self {
        Self::with(answers, Vec::new())
    }

    fn with(answers: impl IntoIterator<Item = Answer>, resources: Vec<Arc<dyn ResourcePool>>) -> Self {
        let timer = MovingTimer::default();
        let folder = tempfile::tempdir().unwrap();
        let workspace = folder.path().canonicalize().unwrap().join("workspace");
        std::fs::create_dir(&workspace).unwrap();
        let store = Arc::new(SqliteStore::open(&folder.path().join("state")).unwrap());
        let policy = testkit::policy_of(&workspace, None, &json!({})).unwrap();
        let runs = Arc::new(AtomicU32::new(0));
        let tools: [Arc<dyn AnyTool>; 2] = [
            ErasedTool::tool(Writer(Probe { runs: runs.clone(), reads: false })),
            ErasedTool::tool(Reader(Probe { runs: runs.clone(), reads: true })),
        ];
        let engine = Engine::new(Parts {
            timer: Arc::new(timer.clone()),
            redactor: Redactor::new([("TOKEN".to_owned(), "sk-1234567890abcdef".to_owned())]),
            resources,
            ..Parts::new(
                Place::at(workspace),
                Arc::new(policy),
                store.clone(),
                Registry::new(tools).unwrap(),
                Arc::new(FixedClock::default()),
            )
        })
        .unwrap();
        let asker = Script { answers: Mutex::new(answers.into_iter().collect()), ..Script::default() };
        Self {
            folder,
            engine: Arc::new(engine),
            store,
            asker: Arc::new(asker),
            runs,
            reports: Arc::default(),
            timer,
        }
    }

    fn request(&self, tool: &str, arguments: Value) -> CallRequest {
        let session = SessionId("s1".to_owned());
        let principal = Principal::new(Door::Library, session, "handfast", self.asker.clone());
        CallRequest { progress: self.reports.clone(), ..CallRequest::new(principal, tool, arguments) }
    }

    fn call(&self, tool: &str, arguments: Value) -> CallResult {
        runtime().block_on(self.engine.call(self.request(tool, arguments)))
    }

    /// Returns the audit rows of calls, without the rows of the questions about them.
    fn rows(&self) -> Vec<RecordedRow> {
        let rows = self.store.audit().list(&Filter::default()).unwrap();
        rows.into_iter().filter(|row| !row.row.tool.starts_with("approval_")).collect()
    }

    fn runs(&self) -> u32 {
        self.runs.load(Ordering::SeqCst)
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap()
}

fn once() -> Answer {
    Answer::Once { by: "a test".to_owned() }
}

fn code(result: &CallResult) -> Option<Code> {
    result.error().map(|error| error.code)
}

#[test]
fn a_denied_call_does_not_run_and_is_recorded() {
    let bench = Bench::new([once()]);
    let result = bench.call("probe_read", json!({"path": ".env"}));
    assert_eq!(code(&result), Some(Code::Permission));
    assert_eq!(bench.runs(), 0);
    assert!(bench.asker.asked.lock().is_empty(), "a denial is no question");
    let rows = bench.rows();
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].row.outcome.as_deref(), Some("EPERMISSION"));
}

#[test]
fn yes_once_covers_one_call_and_yes_for_the_session_the_same_effects() {
    let offer = Offer { scope: Scope::Session, pattern: None, covers: String::new(), seconds: 0, past: None };
    let session = Answer::Lease { offer, by: "a test".to_owned() };
    let bench = Bench::new([once(), session]);
    for then in ["one", "two", "three"] {
        let result = bench.call("probe_write", json!({"path": "a.txt", "then": then}));
        assert!(result.ok(), "{:?}", result.error());
        assert_eq!(result.meta.decision.as_deref(), Some("check"));
    }
    assert_eq!(bench.asker.asked.lock().len(), 2);
    // Another file leads to another question, which gets no answer.
    let result = bench.call("probe_write", json!({"path": "b.txt"}));
    assert_eq!(code(&result), Some(Code::Approval));
    assert!(result.error().unwrap().approval_id.is_some());
    assert_eq!(bench.runs(), 3);
}

#[test]
fn no_is_no_and_carries_its_reason() {
    let bench = Bench::new([Answer::Denied { by: "a test".to_owned(), message: Some("not now".to_owned()) }]);
    let result = bench.call("probe_write", json!({"path": "a.txt"}));
    assert_eq!(code(&result), Some(Code::Permission));
    assert!(result.error().unwrap().message.contains("not now"));
    assert_eq!(bench.runs(), 0);
}

#[test]
fn a_path_that_leads_elsewhere_by_the_time_of_the_answer_is_refused() {
    let bench = Bench::new([once()]);
    let workspace = bench.folder.path().join("workspace");
    std::fs::create_dir(workspace.join("real")).unwrap();
    std::os::unix::fs::symlink("real", workspace.join("link")).unwrap();
    *bench.asker.meanwhile.lock() = Some(Box::new(move || {
        std::fs::remove_file(workspace.join("link")).unwrap();
        std::os::unix::fs::symlink("/etc", workspace.join("link")).unwrap();
    }));
    let result = bench.call("probe_write", json!({"path": "link/passwd"}));
    assert_eq!(code(&result), Some(Code::Permission));
    assert_eq!(bench.runs(), 0);
}

#[test]
fn a_write_has_its_intent_before_it_runs_and_a_read_one_row() {
    let bench = Bench::new([once()]);
    bench.call("probe_write", json!({"path": "a.txt"}));
    bench.call("probe_read", json!({"path": "a.txt"}));
    bench.store.close().unwrap();
    let kinds: Vec<_> = bench.rows().iter().rev().map(|row| row.row.kind.as_str()).collect();
    assert_eq!(kinds, ["intent", "outcome", "call"]);
}

#[test]
fn a_call_that_cannot_be_recorded_does_not_run() {
    let bench = Bench::new([once()]);
    bench.store.close().unwrap();
    let result = bench.call("probe_write", json!({"path": "a.txt"}));
    assert_eq!(code(&result), Some(Code::Runtime), "{:?}", result.error());
    assert_eq!(result.error().unwrap().effect, EffectState::None);
    assert_eq!(bench.runs(), 0);
}

#[test]
fn the_deadline_ends_a_call_and_says_whether_something_may_have_changed() {
    let bench = Bench::new([once()]);
    let timer = bench.timer.clone();
    std::thread::spawn(move || [TIMEOUT; 2].into_iter().for_each(|passed| timer.advance(passed)));
    let wrote = bench.call("probe_write", json!({"path": "a.txt", "then": "wait"}));
    assert_eq!(code(&wrote), Some(Code::Timeout));
    let read = bench.call("probe_read", json!({"path": "a.txt", "then": "wait"}));
    assert_eq!((code(&read), read.error().unwrap().effect), (Some(Code::Timeout), EffectState::None));
}

#[test]
fn a_tool_that_breaks_off_is_an_internal_error_and_the_engine_goes_on() {
    let bench = Bench::new([once()]);
    let result = bench.call("probe_write", json!({"path": "a.txt", "then": "panic"}));
    assert_eq!((code(&result), result.error().unwrap().effect), (Some(Code::Internal), EffectState::Maybe));
    assert!(bench.call("probe_read", json!({"path": "a.txt"})).ok());
}

#[test]
fn a_caller_that_goes_away_takes_its_call_along_and_its_end_is_recorded() {
    let bench = Bench::new([]);
    runtime().block_on(async {
        let call = bench.engine.call(bench.request("probe_read", json!({"path": "a", "then": "wait"})));
        tokio::time::timeout(Duration::from_millis(20), call).await.unwrap_err();
        bench.engine.shutdown().await;
    });
    bench.store.close().unwrap();
    assert_eq!(bench.rows()[0].row.outcome.as_deref(), Some("ECANCELLED"));
}

#[test]
fn after_the_shutdown_calls_are_refused() {
    let bench = Bench::new([]);
    let result = runtime().block_on(async {
        bench.engine.shutdown().await;
        bench.engine.call(bench.request("probe_read", json!({"path": "a"}))).await
    });
    assert_eq!(code(&result), Some(Code::Unavailable));
    assert_eq!(bench.runs(), 0);
}

#[test]
fn a_read_is_recalled_only_where_the_caller_opted_in_and_nothing_changed() {
    let bench = Bench::new([once()]);
    let read = |cache: bool| {
        let mut request = bench.request("probe_read", json!({"path": "a"}));
        request.cache = cache;
        runtime().block_on(bench.engine.call(request))
    };
    assert!(!read(true).meta.cached);
    // The cache keeps a result only if a later change would certainly show, which takes a few ticks
    // of the clock.
    while !read(true).meta.cached {}
    assert!(!read(false).meta.cached);
    assert!(bench.call("probe_write", json!({"path": "b"})).ok());
    assert!(!read(true).meta.cached);
}

#[test]
fn a_secret_is_covered_in_the_answer_the_question_the_progress_and_the_audit() {
    let bench = Bench::new([once()]);
    let secret = "sk-1234567890abcdef";
    let result = bench.call("probe_write", json!({"path": secret, "then": format!("say {secret}")}));
    let shown = serde_json::to_value(&result).unwrap();
    assert_eq!(shown["data"]["text"], "write 0 say [SECRET:TOKEN]");
    assert_eq!(*bench.reports.0.lock(), ["say [SECRET:TOKEN]"]);
    let asked = format!("{:?}", bench.asker.asked.lock());
    assert!(asked.contains("[SECRET:TOKEN]") && !asked.contains(secret), "{asked}");
    let rows = format!("{:?}", bench.rows());
    assert!(rows.contains("[SECRET:TOKEN]") && !rows.contains(secret), "{rows}");
}

#[test]
fn an_error_that_repeats_a_long_argument_is_bounded() {
    let bench = Bench::new([]);
    let long = "ä".repeat(1_000_000);
    let result = bench.call("probe_read", json!({"path": "a", (&long): 1}));
    assert_eq!(code(&result), Some(Code::Validation));
    let message = &result.error().unwrap().message;
    assert!(message.contains("ä") && message.ends_with("characters left out]"), "{}", message.len());
    assert!(message.chars().count() < 11_000, "{}", message.chars().count());
    bench.store.close().unwrap();
    assert!(format!("{:?}", bench.rows()).len() < 100_000, "the audit does not keep it either");
}

#[test]
fn null_leaves_an_optional_field_out_and_nothing_else() {
    let bench = Bench::new([]);
    assert!(bench.call("probe_read", json!({"path": "a", "then": null})).ok());
    for arguments in [json!({"path": null}), json!({"path": "a", "colour": null})] {
        assert_eq!(code(&bench.call("probe_read", arguments)), Some(Code::Validation));
    }
}

#[test]
fn a_stop_before_the_start_is_a_cancelled_call() {
    let bench = Bench::new([]);
    let request = bench.request("probe_read", json!({"path": "a", "then": "wait"}));
    request.stop.request(StopReason::Cancelled);
    let result = runtime().block_on(bench.engine.call(request));
    assert_eq!(code(&result), Some(Code::Cancelled));
}
