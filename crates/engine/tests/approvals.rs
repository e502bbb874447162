//! Approvals through the engine: races, drift, and what one answer covers.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test program: what goes wrong in it ends it")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use engine::{
    Answer, Approval, Asker, CallRequest, Caller, Ceiling, CellSetup, Door, Engine, Grant, NoAsker, Parts,
    Redactor, Registry, Scope,
};
use policy::{Policy, ProgramFile, Programs, Setup};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use store::Store;
use testkit::FixedClock;
use tool::{
    AnyTool, BoxFuture, CallResult, Catalogue, Class, Code, CommandLine, Context, Effect, Erased, Example,
    Lane, Level, Place, Plan, Presentation, Progress, SessionId, Spec, Stop, TextCap, Timeout, Tool,
    ToolError,
};

/// Plans a command and a write, and does neither.
struct Both(Arc<AtomicU32>);

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// The command.
    command: String,
    /// Its directory.
    #[serde(default)]
    directory: String,
    /// What it writes.
    #[serde(default)]
    path: String,
    /// Anything.
    #[serde(default)]
    note: String,
}

#[derive(Serialize, JsonSchema)]
struct Output {
    /// Whether it was done.
    done: bool,
}

impl Tool for Both {
    type Args = Args;
    type Output = Output;
    const SPEC: Spec = Spec {
        name: "both",
        title: "Both",
        description: "Does nothing.",
        example: Example { files: &[], arguments: "{}", result: "{}" },
        level: Level::Moderate,
        class: Class { reads_only: false, destructive: true, idempotent: true, open_world: false },
        timeout: Timeout { default: Duration::from_secs(5), max: Duration::from_secs(5) },
        lane: Lane::Write,
        text: TextCap::Default,
        presentation: Presentation::Record,
    };

    fn plan(&self, args: &Args, place: &Place) -> Result<Plan, ToolError> {
        let directory = if args.directory.is_empty() { "." } else { &args.directory };
        let command = CommandLine::Shell(args.command.clone());
        let mut effects = vec![Effect::Run { command, directory: place.resolve("directory", directory)? }];
        if !args.path.is_empty() {
            effects.push(Effect::Write { path: place.resolve("path", &args.path)? });
        }
        if args.note.contains('\0') {
            return Err(ToolError::validation("note", "it holds a NUL byte"));
        }
        Ok(Plan::of(effects))
    }

    async fn run(&self, _context: &Context, _args: Args) -> Result<Output, ToolError> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Ok(Output { done: true })
    }
}

struct Silent;

impl Progress for Silent {
    fn report(&self, _done: u64, _total: Option<u64>, _message: &str) {}
}

/// Says yes, after something has happened.
struct Meanwhile(Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl Asker for Meanwhile {
    fn ask<'a>(&'a self, _approval: &'a Approval) -> BoxFuture<'a, Answer> {
        if let Some(meanwhile) = self.0.lock().unwrap().take() {
            meanwhile();
        }
        Box::pin(async { Answer::Once { by: "a test".to_owned() } })
    }
}

/// Never answers, and counts how often it is asked and its question taken back.
#[derive(Default)]
struct Patient {
    asked: AtomicU32,
    taken_back: Arc<AtomicU32>,
}

struct OnDrop(Arc<AtomicU32>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Asker for Patient {
    fn ask<'a>(&'a self, _approval: &'a Approval) -> BoxFuture<'a, Answer> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let question = OnDrop(self.taken_back.clone());
        Box::pin(async move {
            let _question = question;
            std::future::pending().await
        })
    }
}

/// A folder with a workspace, a place for programs and a state.
struct World {
    folder: tempfile::TempDir,
    runs: Arc<AtomicU32>,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        for name in ["workspace", "workspace/sub", "workspace/other", "bin", "bin2"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let world = Self { folder, runs: Arc::default() };
        for (path, content) in
            [("bin/tool", "one"), ("bin2/tool", "two"), ("workspace/a.sh", "echo a"), ("workspace/out", "")]
        {
            fs::write(world.at(path), content).unwrap();
            fs::set_permissions(world.at(path), fs::Permissions::from_mode(0o755)).unwrap();
        }
        symlink("sub", world.at("workspace/link")).unwrap();
        world
    }

    fn at(&self, path: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(path)
    }

    /// An engine of a process of its own, as far as the state is concerned.
    fn engine(&self, environment: &[(&str, &str)]) -> Arc<Engine> {
        let workspace = self.at("workspace");
        let folders = [self.at("bin"), self.at("bin2")];
        let find = move |name: &str| {
            let path = folders.iter().map(|folder| folder.join(name)).find(|path| path.exists())?;
            Some(ProgramFile { path, in_writable_place: false })
        };
        let policy =
            Policy::compile(&Setup { programs: Programs::Found(Arc::new(find)), ..setup(&workspace) });
        let tools: [Arc<dyn AnyTool>; 1] = [Erased::tool(Both(self.runs.clone()))];
        let environment = environment.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        let engine = Engine::new(Parts {
            place: Place::at(workspace),
            policy: Arc::new(policy.unwrap()),
            store: Arc::new(Store::open(&self.folder.path().join("state")).unwrap()),
            registry: Registry::new(tools).unwrap(),
            catalogue: Catalogue::default(),
            clock: Arc::new(FixedClock::default()),
            cell: CellSetup { environment, ..CellSetup::default() },
            redactor: Redactor::default(),
            sessions: None,
        });
        Arc::new(engine.unwrap())
    }

    fn runs(&self) -> u32 {
        self.runs.load(Ordering::SeqCst)
    }
}

fn setup(workspace: &Path) -> Setup<'_> {
    Setup {
        sources: &[],
        profile: policy::DEFAULT_PROFILE,
        mode: None,
        dialect: policy::Dialect::default(),
        workspace,
        home: None,
        protected: &[],
        programs: Programs::Unknown,
        tools: &["both"],
    }
}

fn arguments() -> Value {
    json!({"command": "tool x && sh a.sh", "directory": "link", "path": "out", "note": "n"})
}

fn request(arguments: Value, asker: Arc<dyn Asker>) -> CallRequest {
    CallRequest {
        tool: "both".to_owned(),
        arguments,
        caller: Caller {
            session: SessionId("s1".to_owned()),
            door: Door::Library,
            dialect: "handfast",
            asker,
            ceiling: Ceiling::default(),
        },
        stop: Stop::default(),
        progress: Arc::new(Silent),
        cache: false,
    }
}

fn nobody() -> Arc<dyn Asker> {
    Arc::new(NoAsker { hint: "nobody is there".to_owned() })
}

fn block<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(work)
}

fn call(engine: &Arc<Engine>, arguments: Value, asker: Arc<dyn Asker>) -> CallResult {
    block(engine.call(request(arguments, asker)))
}

fn code(result: &CallResult) -> Option<Code> {
    result.error().map(|error| error.code)
}

#[track_caller]
fn asked(engine: &Arc<Engine>, arguments: Value) -> String {
    let result = call(engine, arguments, nobody());
    assert_eq!(code(&result), Some(Code::Approval), "{:?}", result.error());
    result.error().unwrap().approval_id.clone().unwrap()
}

fn grant(scope: Scope) -> Grant {
    Grant { scope, pattern: None, lasts: None, by: "a test".to_owned() }
}

/// What may change on the machine between an approval and the call.
type Drift = (&'static str, fn(&World));

const DRIFTS: [Drift; 8] = [
    ("the script", |world| fs::write(world.at("workspace/sub/a.sh"), "rm -rf .").unwrap()),
    ("the script comes", |world| fs::write(world.at("workspace/sub/x"), "").unwrap()),
    ("the program's content", |world| fs::write(world.at("bin/tool"), "evil").unwrap()),
    ("another program of the name", |world| fs::remove_file(world.at("bin/tool")).unwrap()),
    ("the program is replaced", |world| {
        fs::write(world.at("bin/new"), "one").unwrap();
        fs::rename(world.at("bin/new"), world.at("bin/tool")).unwrap();
    }),
    ("where the directory leads", |world| {
        fs::remove_file(world.at("workspace/link")).unwrap();
        symlink("other", world.at("workspace/link")).unwrap();
    }),
    ("what would be overwritten", |world| fs::write(world.at("workspace/out"), "theirs").unwrap()),
    ("what would be overwritten goes", |world| fs::remove_file(world.at("workspace/out")).unwrap()),
];

#[test]
fn whatever_drifts_between_the_approval_and_the_run_is_refused() {
    for (what, drift) in DRIFTS {
        // Given beforehand, for the next time.
        let world = World::new();
        fs::write(world.at("workspace/sub/a.sh"), "echo a").unwrap();
        let engine = world.engine(&[]);
        let id = asked(&engine, arguments());
        block(engine.grant(&id, &grant(Scope::Once))).unwrap();
        // A file that a word of a program names is no script of it.
        let is_drift = what != "the script comes";
        drift(&world);
        let result = call(&engine, arguments(), nobody());
        if is_drift {
            assert_eq!(code(&result), Some(Code::Permission), "{what}: {:?}", result.error());
            assert_eq!(world.runs(), 0, "{what}");
            asked(&engine, arguments());
        } else {
            assert!(result.ok(), "{what}: {:?}", result.error());
        }

        // Given while it was asked.
        let world = World::new();
        fs::write(world.at("workspace/sub/a.sh"), "echo a").unwrap();
        let engine = world.engine(&[]);
        let world = Arc::new(world);
        let there = world.clone();
        let asker = Meanwhile(Mutex::new(Some(Box::new(move || drift(&there)))));
        let result = call(&engine, arguments(), Arc::new(asker));
        assert_eq!(code(&result) == Some(Code::Permission), is_drift, "{what}: {:?}", result.error());
        assert_eq!(world.runs() == 0, is_drift, "{what}");
    }
}

#[test]
fn the_environment_of_commands_is_a_part_of_the_plan() {
    let world = World::new();
    let engine = world.engine(&[("A", "1")]);
    let id = asked(&engine, arguments());
    block(engine.grant(&id, &grant(Scope::Once))).unwrap();
    let result = call(&world.engine(&[("A", "2")]), arguments(), nobody());
    assert_eq!(code(&result), Some(Code::Permission), "{:?}", result.error());
    assert!(result.error().unwrap().message.contains("environment"));
}

#[test]
fn every_argument_that_differs_is_another_question() {
    let world = World::new();
    let engine = world.engine(&[]);
    let id = asked(&engine, arguments());
    block(engine.grant(&id, &grant(Scope::Once))).unwrap();
    for (field, value) in
        [("command", "tool x && sh b.sh"), ("directory", "sub"), ("path", "other"), ("note", "m")]
    {
        let mut other = arguments();
        other[field] = json!(value);
        assert_ne!(asked(&engine, other), id, "{field}");
    }
    assert_eq!(world.runs(), 0);
    // The control: the same call passes, in another process too, and once.
    let restarted = world.engine(&[]);
    let result = call(&restarted, arguments(), nobody());
    assert!(result.ok(), "{:?}", result.error());
    assert_ne!(asked(&restarted, arguments()), id);
    assert_eq!(world.runs(), 1);
}

#[test]
fn of_two_calls_at_once_one_uses_the_approval() {
    let world = World::new();
    let (one, two) = (world.engine(&[]), world.engine(&[]));
    for round in 1..=5 {
        let id = asked(&one, arguments());
        block(one.grant(&id, &grant(Scope::Once))).unwrap();
        let results: Vec<CallResult> = std::thread::scope(|scope| {
            let calls =
                [&one, &two, &one, &two].map(|engine| scope.spawn(|| call(engine, arguments(), nobody())));
            calls.into_iter().map(|call| call.join().unwrap()).collect()
        });
        assert_eq!(results.iter().filter(|result| result.ok()).count(), 1);
        assert_eq!(world.runs(), round);
    }
}

#[test]
fn an_answer_from_elsewhere_takes_the_question_back_and_a_session_is_covered() {
    let world = World::new();
    let (serving, answering) = (world.engine(&[]), world.engine(&[]));
    let asker = Arc::new(Patient::default());
    let result = block(async {
        let call = tokio::spawn({
            let (serving, request) = (serving.clone(), request(arguments(), asker.clone()));
            async move { serving.call(request).await }
        });
        let approvals = answering.approvals();
        let waiting = loop {
            if let Some(asked) = approvals.list(true).unwrap().pop() {
                break asked;
            }
            tokio::task::yield_now().await;
        };
        while asker.asked.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        answering.grant(&waiting.question.id, &grant(Scope::Session)).await.unwrap();
        call.await.unwrap()
    });
    assert!(result.ok(), "{:?}", result.error());
    assert_eq!(result.meta.approved_by.as_deref(), Some("a test"));
    assert_eq!((asker.asked.load(Ordering::SeqCst), asker.taken_back.load(Ordering::SeqCst)), (1, 1));
    // Other arguments, the same effects: the session is asked about effects.
    let mut again = arguments();
    again["note"] = json!("m");
    assert!(call(&serving, again.clone(), asker.clone()).ok());
    assert_eq!(asker.asked.load(Ordering::SeqCst), 1);
    let mut elsewhere = request(again, nobody());
    elsewhere.caller.session = SessionId("s2".to_owned());
    assert_eq!(code(&block(serving.call(elsewhere))), Some(Code::Approval), "another session is asked");
}

#[test]
fn a_call_waits_while_somebody_looks_at_the_questions_and_not_longer() {
    let world = World::new();
    let engine = world.engine(&[]);
    let store = Store::open(&world.folder.path().join("state")).unwrap();
    let attention = store.pay_attention().unwrap();
    let result = block(async {
        let call = tokio::spawn({
            let (engine, request) = (engine.clone(), request(arguments(), nobody()));
            async move { engine.call(request).await }
        });
        while engine.approvals().list(true).unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
        assert!(!call.is_finished());
        drop(attention);
        call.await.unwrap()
    });
    assert_eq!(code(&result), Some(Code::Approval));
}
