//! Tests of tools that come and go while the engine runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use engine::{
    CallRequest, Ceiling, Door, EffectKind, EffectKinds, Engine, NoAsker, Parts, Principal, Registry,
};
use policy::{Mode, Policy};
use serde_json::{Value, json};
use store_sqlite::SqliteStore;
use testkit::FixedClock;
use tool::{
    AnyTool, BoxFuture, CallResult, Code, Context, Data, DynamicTool, Effect, Level, Place, Plan, RunResult,
    SessionId, Spec, ToolError, dynamic_tool, static_name,
};

/// Tool of another server, which repeats its arguments.
struct Foreign {
    spec: Spec,
    schema: Value,
    output: Value,
}

fn foreign(name: &str, level: Level) -> Arc<dyn AnyTool> {
    let schema = json!({
        "type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"], "additionalProperties": false,
    });
    let spec = Spec { level, ..Spec::reading(static_name(name).unwrap(), "") };
    dynamic_tool(Foreign { spec, schema, output: json!({"type": "object"}) })
}

impl DynamicTool for Foreign {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn description(&self) -> &'static str {
        "Repeats a text."
    }

    fn input_schema(&self) -> &Value {
        &self.schema
    }

    fn output_schema(&self) -> &Value {
        &self.output
    }

    fn plan(&self, arguments: &Value, place: &Place) -> Result<Plan, ToolError> {
        if arguments["text"] == "" {
            return Err(ToolError::validation("text", "is empty"));
        }
        Ok(Plan::of(vec![Effect::Write { path: place.workspace.join("x") }]))
    }

    fn answer_bytes(&self) -> u64 {
        1_000
    }

    fn run<'a>(&'a self, _context: &'a Context, arguments: Value) -> BoxFuture<'a, RunResult<Data>> {
        Box::pin(async move { RunResult::from(Ok(Data::Value(arguments))) })
    }
}

struct Bench {
    engine: Arc<Engine>,
    store: Arc<SqliteStore>,
    tokio: tokio::runtime::Runtime,
    _folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (workspace, state) = (folder.path().join("workspace"), folder.path().join("state"));
        std::fs::create_dir_all(&workspace).unwrap();
        let store = Arc::new(SqliteStore::open(&state).unwrap());
        let policy = Policy::compile(&policy::Setup {
            sources: &[],
            profile: "normal",
            mode: Some((Mode::FullAuto, policy::Origin::CommandLine)),
            dialect: policy::Dialect::default(),
            workspace: &workspace,
            home: None,
            protected: &[],
            closed: &[],
            programs: policy::Programs::Presumed,
            tools: &[],
        })
        .unwrap();
        let registry = Registry::new([foreign("built_in", Level::Safe)]).unwrap();
        let place = Place::at(workspace);
        let parts =
            Parts::new(place, Arc::new(policy), store.clone(), registry, Arc::new(FixedClock::default()));
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let engine = tokio.block_on(async { Arc::new(Engine::new(parts).unwrap()) });
        Self { engine, store, tokio, _folder: folder }
    }

    fn call(&self, ceiling: &Ceiling, tool: &str, arguments: Value) -> CallResult {
        let principal = Principal::new(
            Door::Library,
            SessionId("s".to_owned()),
            "handfast",
            Arc::new(NoAsker { hint: "nobody".to_owned() }),
        )
        .within(ceiling);
        self.tokio.block_on(self.engine.call(CallRequest::new(principal, tool, arguments)))
    }
}

fn code(result: &CallResult) -> Option<Code> {
    result.error().map(|error| error.code)
}

#[test]
fn a_tool_that_comes_later_is_decided_on_recorded_and_goes_again() {
    let bench = Bench::new();
    let (free, text) = (Ceiling::default(), || json!({"text": "x"}));
    assert_eq!(code(&bench.call(&free, "other__repeat", text())), Some(Code::NotFound));
    let heard = Arc::new(AtomicUsize::new(0));
    let counted = heard.clone();
    bench.engine.registry().on_change(move || counted.fetch_add(1, Ordering::SeqCst) < 2);
    let tool = foreign("other__repeat", Level::Moderate);
    bench.engine.registry().replace_group("other", vec![tool.clone()]).unwrap();
    bench.engine.registry().replace_group("other", vec![tool]).unwrap();
    assert_eq!(heard.load(Ordering::SeqCst), 1, "the same tools are no change");
    let names: Vec<String> = bench.engine.tools().iter().map(|tool| tool.name().to_owned()).collect();
    assert_eq!(names, ["built_in", "other__repeat"]);
    let made = bench.call(&free, "other__repeat", text());
    assert!(made.ok(), "{made:?}");
    // The arguments are checked by the tool's own schema, and its plan is decided on like any other.
    let wrong = bench.call(&free, "other__repeat", json!({"text": 7, "more": 1}));
    assert_eq!(code(&wrong), Some(Code::Validation), "{wrong:?}");
    assert_eq!(code(&bench.call(&free, "other__repeat", json!({"text": ""}))), Some(Code::Validation));
    let only_reads = Ceiling { effects: EffectKinds::of(&[EffectKind::Read]), ..Ceiling::default() };
    assert_eq!(code(&bench.call(&only_reads, "other__repeat", text())), Some(Code::Permission));
    let low = Ceiling { level: Level::Safe, ..Ceiling::default() };
    assert_eq!(code(&bench.call(&low, "other__repeat", text())), Some(Code::Permission));
    bench.tokio.block_on(bench.engine.shutdown());
    let rows = store_api::Store::audit(bench.store.as_ref()).list(&store_api::Filter::default()).unwrap();
    assert!(rows.iter().any(|row| row.row.tool == "other__repeat"), "{rows:?}");
    bench.engine.registry().replace_group("other", Vec::new()).unwrap();
    assert_eq!((bench.engine.tools().len(), heard.load(Ordering::SeqCst)), (1, 2));
    bench.engine.registry().replace_group("other", vec![foreign("other__new", Level::Safe)]).unwrap();
    bench.engine.registry().replace_group("other", Vec::new()).unwrap();
    assert_eq!(heard.load(Ordering::SeqCst), 3, "a listener that has gone hears nothing more");
}

#[test]
fn no_tool_takes_the_name_of_another_one() {
    let bench = Bench::new();
    let registry = bench.engine.registry();
    registry.replace_group("one", vec![foreign("one__a", Level::Safe)]).unwrap();
    for tools in [
        vec![foreign("built_in", Level::Safe)],
        vec![foreign("two__b", Level::Safe), foreign("one__a", Level::Safe)],
    ] {
        assert!(registry.replace_group("two", tools).is_err());
        assert_eq!(bench.engine.tools().len(), 2, "nothing of the group is there");
    }
}
