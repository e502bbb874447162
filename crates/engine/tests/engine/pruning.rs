//! Tests that a long-lived runtime prunes expired files after its responses.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use engine::{CallRequest, CellSetup, Door, Engine, NoAsker, Parts, Principal, Registry};
use jiff::{Timestamp, ToSpan};
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use store_api::{Checkpoint, CheckpointState, Store};
use store_sqlite::SqliteStore;
use tool::{
    Class, Clock, Context, Effect, ErasedTool, Example, Lane, Level, Place, Plan, Presentation, SessionId,
    Spec, TextCap, Timeout, Tool, ToolError,
};

/// Clock that tests set.
struct Advancing(AtomicI64);

impl Clock for Advancing {
    fn now(&self) -> Timestamp {
        Timestamp::from_second(self.0.load(Ordering::SeqCst)).unwrap()
    }
}

/// Tool that writes a file with different content each time.
struct Write(Mutex<u32>);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {}

#[derive(Serialize, JsonSchema)]
struct Output {
    /// Number of writes.
    times: u32,
}

impl Tool for Write {
    type Args = Args;
    type Output = Output;
    const SPEC: Spec = Spec {
        name: "probe_write",
        title: "Probe",
        description: "Writes a file.",
        example: Example { files: &[], arguments: "{}", result: "{}" },
        level: Level::Moderate,
        class: Class { reads_only: false, destructive: true, idempotent: false, open_world: false },
        timeout: Timeout::fixed(60),
        lane: Lane::Write,
        text: TextCap::Default,
        presentation: Presentation::Record,
    };

    fn plan(&self, _args: &Args, place: &Place) -> Result<Plan, ToolError> {
        Ok(Plan::of(vec![Effect::Write { path: place.resolve("path", "f")? }]))
    }

    async fn run(&self, context: &Context, _args: Args) -> Result<Output, ToolError> {
        let mut times = self.0.lock();
        *times += 1;
        std::fs::write(context.place.workspace.join("f"), times.to_string()).unwrap();
        Ok(Output { times: *times })
    }
}

fn engine(folder: &Path, workspace: &Path, clock: Arc<Advancing>, store: Arc<dyn Store>) -> Arc<Engine> {
    let policy = testkit::policy_of(workspace, Some(policy::Mode::FullAuto), &serde_json::json!({})).unwrap();
    let changes = Some(folder.join("changes"));
    let parts = Parts {
        cell: CellSetup { changes, ..CellSetup::default() },
        ..Parts::new(
            Place::at(workspace.to_owned()),
            Arc::new(policy),
            store,
            Registry::new([ErasedTool::tool(Write(Mutex::new(0)))]).unwrap(),
            clock,
        )
    };
    Arc::new(Engine::new(parts).unwrap())
}

fn request() -> CallRequest {
    let asker = Arc::new(NoAsker { hint: String::new() });
    let principal = Principal::new(Door::Library, SessionId("s1".to_owned()), "handfast", asker);
    CallRequest::new(principal, "probe_write", json!({}))
}

#[test]
fn what_is_too_old_goes_behind_a_change_and_not_behind_each() {
    let folder = tempfile::tempdir().unwrap();
    let workspace = folder.path().canonicalize().unwrap().join("workspace");
    std::fs::create_dir(&workspace).unwrap();
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&folder.path().join("state")).unwrap());
    let clock = Arc::new(Advancing(AtomicI64::new(1_767_225_600)));
    let long_ago = clock.now() - 2_000.hours();
    for number in 0..150 {
        let checkpoint = Checkpoint {
            id: format!("{number:03}"),
            session: None,
            tool: "file_write".to_owned(),
            workspace: workspace.clone(),
            made_at: long_ago,
            folder: String::new(),
            state: CheckpointState::Done,
            undoes: None,
            paths: 1,
            bytes: 1,
            unsaved: Vec::new(),
            roots: Vec::new(),
        };
        store.checkpoints().add(&checkpoint, &mut std::iter::empty(), &[]).unwrap();
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let engine = engine(folder.path(), &workspace, clock.clone(), store.clone());
    let left = || store.checkpoints().list(&workspace, 1_000).unwrap().len();
    let mut seen = Vec::new();
    runtime.block_on(async {
        for minutes in [1, 5, 10] {
            clock.0.fetch_add(minutes * 60, Ordering::SeqCst);
            let result = engine.call(request()).await;
            assert!(matches!(result.outcome, tool::Outcome::Ok(_)), "{:?}", result.outcome);
            seen.push(left());
        }
        engine.shutdown().await;
    });
    // The first two calls added one each; after the third, the newest hundred remained.
    assert_eq!((&seen[..2], left()), (&[151, 152][..], 100));
}
