//! Fixtures: a workspace with programs and a state, a tool that does nothing, and askers.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use engine::{
    Answer, Approval, Asker, CallRequest, CellSetup, Door, Engine, Grant, NoAsker, Parts, Principal,
    Registry, Scope,
};
use parking_lot::Mutex;
use policy::{Policy, ProgramFile, Programs, Setup};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use store_sqlite::SqliteStore;
use testkit::MovingClock;
use tool::{
    AnyTool, BoxFuture, CallResult, Class, Code, CommandLine, Context, Effect, ErasedTool, Example, Lane,
    Level, Place, Plan, Presentation, SessionId, Spec, TextCap, Timeout, Tool, ToolError,
};

/// Tool that plans a command and a write, and does neither.
struct Both(Arc<AtomicU32>);

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// Command line.
    command: String,
    /// Working directory of the command.
    #[serde(default)]
    directory: String,
    /// Path to write.
    #[serde(default)]
    path: String,
    /// Arbitrary text.
    #[serde(default)]
    note: String,
}

#[derive(Serialize, JsonSchema)]
struct Output {
    /// True if the call ran.
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

/// Asker that approves, after an action.
pub(crate) struct Meanwhile(pub(crate) Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl Asker for Meanwhile {
    fn ask<'a>(&'a self, _approval: &'a Approval) -> BoxFuture<'a, Answer> {
        if let Some(meanwhile) = self.0.lock().take() {
            meanwhile();
        }
        Box::pin(async { Answer::Once { by: "a test".to_owned() } })
    }
}

/// Asker that never answers, and counts its questions and their withdrawals.
#[derive(Default)]
pub(crate) struct Patient {
    pub(crate) asked: AtomicU32,
    pub(crate) taken_back: Arc<AtomicU32>,
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

/// Folder with a workspace, a folder for programs, and a state.
pub(crate) struct World {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) clock: MovingClock,
    runs: Arc<AtomicU32>,
}

impl World {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        for name in ["workspace", "workspace/sub", "workspace/other", "bin", "bin2"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let world = Self { folder, clock: MovingClock::default(), runs: Arc::default() };
        for (path, content) in
            [("bin/tool", "one"), ("bin2/tool", "two"), ("workspace/a.sh", "echo a"), ("workspace/out", "")]
        {
            fs::write(world.at(path), content).unwrap();
            fs::set_permissions(world.at(path), fs::Permissions::from_mode(0o755)).unwrap();
        }
        symlink("sub", world.at("workspace/link")).unwrap();
        world
    }

    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(path)
    }

    /// Creates an engine with the state view of a separate process.
    pub(crate) fn engine(&self, environment: &[(&str, &str)]) -> Arc<Engine> {
        let workspace = self.at("workspace");
        let folders = [self.at("bin"), self.at("bin2")];
        let find = move |name: &str, _: &[PathBuf]| {
            let path = folders.iter().map(|folder| folder.join(name)).find(|path| path.exists())?;
            Some(ProgramFile { path, in_writable_place: false, of_project: false, is_launcher: false })
        };
        let policy =
            Policy::compile(&Setup { programs: Programs::Found(Arc::new(find)), ..setup(&workspace) });
        let tools: [Arc<dyn AnyTool>; 1] = [ErasedTool::tool(Both(self.runs.clone()))];
        let environment = environment.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        let engine = Engine::new(Parts {
            cell: CellSetup { environment, ..CellSetup::default() },
            ..Parts::new(
                Place::at(workspace),
                Arc::new(policy.unwrap()),
                Arc::new(SqliteStore::open(&self.folder.path().join("state")).unwrap()),
                Registry::new(tools).unwrap(),
                Arc::new(self.clock.clone()),
            )
        });
        Arc::new(engine.unwrap())
    }

    pub(crate) fn runs(&self) -> u32 {
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
        closed: &[],
        programs: Programs::Unknown,
        tools: &["both"],
    }
}

pub(crate) fn arguments() -> Value {
    json!({"command": "tool x && sh a.sh", "directory": "link", "path": "out", "note": "n"})
}

pub(crate) fn request(arguments: Value, asker: Arc<dyn Asker>) -> CallRequest {
    let principal = Principal::new(Door::Library, SessionId("s1".to_owned()), "handfast", asker);
    CallRequest::new(principal, "both", arguments)
}

pub(crate) fn nobody() -> Arc<dyn Asker> {
    Arc::new(NoAsker { hint: "nobody is there".to_owned() })
}

pub(crate) fn block<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(work)
}

pub(crate) fn call(engine: &Arc<Engine>, arguments: Value, asker: Arc<dyn Asker>) -> CallResult {
    block(engine.call(request(arguments, asker)))
}

pub(crate) fn code(result: &CallResult) -> Option<Code> {
    result.error().map(|error| error.code)
}

#[track_caller]
pub(crate) fn asked(engine: &Arc<Engine>, arguments: Value) -> String {
    let result = call(engine, arguments, nobody());
    assert_eq!(code(&result), Some(Code::Approval), "{:?}", result.error());
    result.error().unwrap().approval_id.clone().unwrap()
}

pub(crate) fn grant(scope: Scope) -> Grant {
    Grant { scope, pattern: None, lasts: None, by: "a test".to_owned() }
}
