//! Tests of calls on behalf of another caller, and of levels that depend on arguments, with a tool
//! that does more than it plans.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use engine::{
    Allowance, CallRequest, Ceiling, CellSetup, Door, EffectKind, EffectKinds, Engine, Internal, NoAsker,
    Parts, Principal, Registry,
};
use policy::{Mode, Policy};
use roots::Roots;
use sandbox::{CellHost, CellSpec, Command, Program, Stopper};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use store_api::{AuditRow, Filter, Store};
use store_sqlite::SqliteStore;
use testkit::FixedClock;
use testkit::web::{Reply, Server};
use tool::{
    AnyTool, CallResult, Class, Code, CommandLine, Context, Effect, EffectState, ErasedTool, Example, Lane,
    Level, Place, Plan, Presentation, SessionId, Spec, TextCap, Timeout, Tool, ToolError,
};

/// Tool that plans and does what its arguments ask for.
struct Obedient;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// Planned effect: `read`, `write`, `delete`, `run`, `statement` or `change`.
    plans: String,
    /// Level that the plan states; the tool's own level by default.
    #[serde(default)]
    level: Option<String>,
    /// Action: `write PATH`, `read PATH`, or a shell command after `$ `.
    #[serde(default)]
    does: String,
}

#[derive(Serialize, JsonSchema)]
struct Output {
    /// Result of the action.
    text: String,
}

impl Tool for Obedient {
    type Args = Args;
    type Output = Output;
    const SPEC: Spec = Spec {
        name: "obedient",
        title: "Obedient",
        description: "Does as it is told.",
        example: Example { files: &[], arguments: "{}", result: "{}" },
        level: Level::Moderate,
        class: Class { reads_only: false, destructive: true, idempotent: false, open_world: false },
        timeout: Timeout { default: Duration::from_secs(20), max: Duration::from_mins(1) },
        lane: Lane::Command,
        text: TextCap::Default,
        presentation: Presentation::Record,
    };

    fn plan(&self, args: &Args, place: &Place) -> Result<Plan, ToolError> {
        let path = place.workspace.join("a.txt");
        let effect = match args.plans.as_str() {
            "read" => Effect::Read { path },
            "write" => Effect::Write { path },
            "delete" => Effect::Delete { path },
            // `make` is no command that only reads. A command that only reads runs where it can
            // change no file and reach no host.
            line @ ("make" | "ls") => Effect::Run {
                command: CommandLine::Shell(line.to_owned()),
                directory: place.workspace.clone(),
            },
            "change" => Effect::ChangeHandfast { what: "policy".to_owned() },
            statement => Effect::DatabaseWrite { statement: statement.to_owned() },
        };
        let level = match args.level.as_deref() {
            Some("safe") => Some(Level::Safe),
            Some("destructive") => Some(Level::Destructive),
            Some("critical") => Some(Level::Critical),
            _ => None,
        };
        Ok(Plan { level, ..Plan::of(vec![effect]) })
    }

    async fn run(&self, context: &Context, args: Args) -> Result<Output, ToolError> {
        let failed = |error: &dyn std::fmt::Display| ToolError::new(Code::Runtime, error.to_string());
        let workspace = &context.place.workspace;
        let roots = context.service::<Roots>()?;
        let text = match args.does.split_once(' ') {
            Some(("write", path)) => {
                let staged =
                    roots.stage(&workspace.join(path), b"written").map_err(|error| failed(&error))?;
                staged.commit().map_err(|error| failed(&error))?;
                "written".to_owned()
            }
            Some(("read", path)) => {
                roots.open_file(&workspace.join(path)).map_err(|error| failed(&error))?;
                "read".to_owned()
            }
            Some(("$", line)) => {
                let (cell, host) = (context.service::<CellSpec>()?, context.service::<CellHost>()?);
                let command = Command {
                    program: Program::Shell(line.to_owned()),
                    working_directory: workspace.clone(),
                };
                let mut said = Vec::new();
                let stopper = Stopper::new().map_err(|error| failed(&error))?;
                sandbox::run(&cell, &host, &command, None, &stopper, &mut |_, chunk| {
                    said.extend_from_slice(chunk);
                })
                .map_err(|error| failed(&error))?;
                String::from_utf8_lossy(&said).into_owned()
            }
            _ => String::new(),
        };
        Ok(Output { text })
    }
}

struct Bench {
    folder: tempfile::TempDir,
    engine: Arc<Engine>,
    store: Arc<SqliteStore>,
    principal: Principal,
}

fn policy_of(workspace: &std::path::Path, mode: Mode, profile: &str) -> Policy {
    testkit::policy_of(workspace, Some(mode), &serde_json::from_str(profile).unwrap()).unwrap()
}

impl Bench {
    fn new(mode: Mode) -> Self {
        Self::with(mode, "{}")
    }

    fn with(mode: Mode, profile: &str) -> Self {
        let base = if std::path::Path::new("/var/tmp").is_dir() { "/var/tmp" } else { "/tmp" };
        let folder = tempfile::tempdir_in(base).unwrap();
        let workspace = folder.path().canonicalize().unwrap().join("workspace");
        std::fs::create_dir_all(workspace.join("private")).unwrap();
        std::fs::write(workspace.join("a.txt"), "visible").unwrap();
        std::fs::write(workspace.join("private/b.txt"), "hidden").unwrap();
        let spool = folder.path().join("spool");
        std::fs::create_dir(&spool).unwrap();
        let tools: [Arc<dyn AnyTool>; 1] = [ErasedTool::tool(Obedient)];
        let store = Arc::new(SqliteStore::open(&folder.path().join("state")).unwrap());
        let engine = Engine::new(Parts {
            cell: CellSetup { spool_directory: spool, ..CellSetup::default() },
            ..Parts::new(
                Place::at(workspace.clone()),
                Arc::new(policy_of(&workspace, mode, profile)),
                store.clone(),
                Registry::new(tools).unwrap(),
                Arc::new(FixedClock::default()),
            )
        })
        .unwrap();
        let asker = Arc::new(NoAsker { hint: "nobody".to_owned() });
        let principal = Principal::new(Door::Library, SessionId("parent".to_owned()), "handfast", asker);
        Self { folder, engine: Arc::new(engine), store, principal }
    }

    fn workspace(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join("workspace")
    }

    fn call(&self, principal: &Principal, arguments: Value) -> CallResult {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(self.engine.call(CallRequest::new(principal.clone(), "obedient", arguments)))
    }

    /// Returns the audit row of a call that has ended.
    fn row(&self, result: &CallResult) -> AuditRow {
        let rows = self.store.audit().list(&Filter::default()).unwrap();
        rows.into_iter().rev().find(|row| row.row.call == result.meta.call_id.0).unwrap().row
    }

    fn under(&self, ceiling: &Ceiling) -> Principal {
        self.principal.on_behalf(SessionId("child".to_owned()), ceiling)
    }
}

#[track_caller]
fn said(result: &CallResult) -> String {
    assert_eq!(code(result), None, "{result:?}");
    serde_json::to_value(result).unwrap()["data"]["text"].as_str().unwrap().to_owned()
}

fn code(result: &CallResult) -> Option<Code> {
    result.error().map(|error| error.code)
}

fn reader() -> Ceiling {
    Ceiling { effects: EffectKinds::of(&[EffectKind::Read, EffectKind::Run]), ..Ceiling::default() }
}

#[test]
fn a_ceiling_without_writing_holds_for_the_plan_the_roots_and_the_cell() {
    let bench = Bench::new(Mode::FullAuto);
    let child = bench.under(&reader());
    let planned = bench.call(&child, json!({"plans": "write", "does": "write planned.txt"}));
    assert_eq!(code(&planned), Some(Code::Permission));
    // The tool plans a read, and writes.
    let rogue = json!({"plans": "read", "does": "write rogue.txt"});
    assert_eq!(code(&bench.call(&child, rogue.clone())), Some(Code::Runtime));
    let line =
        json!({"plans": "make", "does": "$ cat a.txt; echo x > by-command.txt; rm a.txt; mkdir d; ls"});
    let output = said(&bench.call(&child, line.clone()));
    assert!(output.contains("visible") && output.contains("Read-only file system"), "{output}");
    let names = || {
        let mut names: Vec<String> = std::fs::read_dir(bench.workspace())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    assert_eq!(names(), ["a.txt", "private"]);
    // The control: the same calls by the caller itself.
    assert_eq!(code(&bench.call(&bench.principal, rogue)), None);
    let output = said(&bench.call(&bench.principal, line));
    assert!(output.contains("by-command.txt"), "{output}");
    assert_eq!(names(), ["by-command.txt", "d", "private", "rogue.txt"]);
}

#[test]
fn the_rules_of_a_ceiling_hold_for_file_tools_and_commands_too() {
    let bench = Bench::new(Mode::FullAuto);
    let rules = policy_of(&bench.workspace(), Mode::FullAuto, r#"{"deny_read_paths": ["private"]}"#);
    let child = bench.under(&Ceiling::default().with_policy(Arc::new(rules)));
    let read = json!({"plans": "make", "does": "read private/b.txt"});
    let line = json!({"plans": "make", "does": "$ cat private/b.txt; cat a.txt"});
    assert_eq!(code(&bench.call(&child, read.clone())), Some(Code::Runtime));
    let output = said(&bench.call(&child, line.clone()));
    assert!(!output.contains("hidden") && output.contains("visible"), "{output}");
    // The control.
    assert_eq!(said(&bench.call(&bench.principal, read)), "read");
    assert_eq!(said(&bench.call(&bench.principal, line)), "hiddenvisible");
}

#[test]
fn who_acts_under_a_ceiling_reaches_the_hosts_that_it_leaves_and_no_others() {
    let server = Server::http(|request| Reply::of(200, &[], request.header("host")));
    let listing = |hosts: &[&str]| {
        let hosts: Vec<String> =
            hosts.iter().map(|host| format!("{host}.localhost:{}", server.address.port())).collect();
        json!({ "allowed_hosts": hosts, "unlisted_hosts": "deny" }).to_string()
    };
    let bench = Bench::with(Mode::FullAuto, &listing(&["a", "b"]));
    let rules = |hosts: &[&str]| Arc::new(policy_of(&bench.workspace(), Mode::FullAuto, &listing(hosts)));
    let reached = |principal: &Principal| {
        let port = server.address.port();
        let line = format!(
            "$ for host in a b c; do curl -s -m 20 http://$host.localhost:{port}/ > answer && grep -q ^$host. answer && printf $host; done"
        );
        let result = bench.call(principal, json!({"plans": "make", "does": line}));
        (said(&result), result.meta.warnings.join(" "))
    };
    let bounded = bench.under(&Ceiling::default().with_policy(rules(&["a", "c"])));
    let (hosts, warnings) = reached(&bounded);
    assert_eq!(hosts, "a", "what both list: {warnings}");
    assert!(
        warnings.contains("b.localhost") && warnings.contains("this caller has fewer permissions"),
        "{warnings}"
    );
    // A chain of callers, each under a ceiling of its own.
    let further =
        bounded.on_behalf(SessionId("child".to_owned()), &Ceiling::default().with_policy(rules(&["b", "c"])));
    assert_eq!(reached(&further).0, "");
    let silent = bench.under(&Ceiling {
        effects: EffectKinds::of(&[EffectKind::Read, EffectKind::Write, EffectKind::Delete, EffectKind::Run]),
        ..Ceiling::default()
    });
    assert_eq!(reached(&silent).0, "");
    // The control: the same calls by the caller itself.
    assert_eq!(reached(&bench.principal).0, "ab");
    assert_eq!(server.seen().len(), 3);
}

#[test]
fn only_callers_that_may_reach_the_same_hosts_share_a_network() {
    let bench = Bench::with(Mode::FullAuto, r#"{"allowed_hosts": ["a.example", "b.example"]}"#);
    let rules = |profile: &str| Arc::new(policy_of(&bench.workspace(), Mode::FullAuto, profile));
    let network = |ceiling: &Ceiling| {
        let result = bench
            .call(&bench.under(ceiling), json!({"plans": "make", "does": "$ readlink /proc/self/ns/net"}));
        (said(&result), result.meta.warnings.join(" "))
    };
    let one = rules(r#"{"allowed_hosts": ["a.example"]}"#);
    let narrow = Ceiling::default().with_policy(one.clone());
    let soon = Ceiling { expires_at: Some(jiff::Timestamp::MAX), ..narrow.clone() };
    let silent = Ceiling { may_ask: false, ..narrow.clone() };
    let other = Ceiling::default().with_policy(rules(r#"{"allowed_hosts": ["b.example"]}"#));
    let first = network(&narrow).0;
    assert_eq!(first, network(&narrow).0);
    assert_eq!(first, network(&soon).0, "what else bounds it makes no difference");
    assert_ne!(first, network(&silent).0, "nobody is asked about its hosts");
    assert_ne!(first, network(&other).0);
    assert_ne!(first, network(&Ceiling::default()).0);
    // The number of networks is bounded, and a caller that comes too late gets a warning.
    let mut told = String::new();
    for _ in 0..20 {
        told = network(&Ceiling::default().with_policy(rules(r#"{"allowed_hosts": ["a.example"]}"#))).1;
    }
    assert!(told.contains("too many different ceilings"), "{told}");
    assert_eq!(first, network(&narrow).0);
}

#[test]
fn no_chain_of_callers_climbs() {
    let bench = Bench::new(Mode::FullAuto);
    let child = bench.under(&reader());
    // The child asks for unbounded permissions for the grandchild.
    let grandchild = child.on_behalf(SessionId("grandchild".to_owned()), &Ceiling::default());
    assert_eq!(grandchild.ceiling(), child.ceiling());
    let result = bench.call(&grandchild, json!({"plans": "write", "does": "write x"}));
    assert_eq!(code(&result), Some(Code::Permission));
    let narrower = Ceiling { effects: EffectKinds::of(&[EffectKind::Write]), ..Ceiling::default() };
    let nothing = child.on_behalf(SessionId("other".to_owned()), &narrower);
    assert_eq!(code(&bench.call(&nothing, json!({"plans": "read"}))), Some(Code::Permission));
    assert_eq!(code(&bench.call(&child, json!({"plans": "read"}))), None);
}

#[test]
fn what_has_expired_or_may_not_ask_is_refused_and_nobody_is_asked() {
    let bench = Bench::new(Mode::SmartAuto);
    let expired = Ceiling { expires_at: Some(jiff::Timestamp::UNIX_EPOCH), ..Ceiling::default() };
    let result = bench.call(&bench.under(&expired), json!({"plans": "read"}));
    assert!(result.error().unwrap().message.contains("expired"), "{result:?}");
    assert_eq!(code(&result), Some(Code::Permission));
    let silent = Ceiling { may_ask: false, ..Ceiling::default() };
    let write = json!({"plans": "write"});
    assert_eq!(code(&bench.call(&bench.under(&silent), write.clone())), Some(Code::Permission));
    // The control: a caller that may ask gets an approval that can be given later.
    assert_eq!(code(&bench.call(&bench.under(&Ceiling::default()), write)), Some(Code::Approval));
}

#[test]
fn a_principal_is_recorded_as_what_it_is_with_its_parent_and_spends_no_more_than_its_budget() {
    let bench = Bench::new(Mode::FullAuto);
    let read = json!({"plans": "read"});
    let parent = bench.call(&bench.principal, read.clone()).meta.call_id;
    let now = FixedClock::default().0;
    let lead = bench.principal.clone().spending("the agent `lead`", calls(3), now);
    let mut child = lead.on_behalf(SessionId("child".to_owned()), &Ceiling::default());
    child = child.spending("the agent `tester`", calls(1), now);
    (child.door, child.parent) = (Door::Internal(Internal::KnowledgeWatcher), Some(parent.clone()));
    let made = bench.call(&child, read.clone());
    assert_eq!(code(&made), None, "{made:?}");
    let row = bench.row(&made);
    assert_eq!((row.door.as_str(), row.session.as_deref()), ("knowledge-watcher", Some("child")));
    let plan: Value = serde_json::from_str(row.plan.as_deref().unwrap()).unwrap();
    assert_eq!(plan["parent"], json!(parent.0), "{plan}");
    let refused = bench.call(&child, read.clone());
    let error = refused.error().unwrap();
    assert_eq!((error.code, error.effect), (Code::Quota, EffectState::None));
    assert!(error.message.contains("the budget of the agent `tester` is used up"), "{error:?}");
    // The control: the parent has a budget left, and a caller without a budget is not limited.
    assert_eq!(code(&bench.call(&lead, read.clone())), None);
    assert_eq!(lead.budget().left(now), calls(1));
    let first = bench.call(&bench.principal, read);
    assert_eq!(code(&first), None);
    let plan: Value = serde_json::from_str(bench.row(&first).plan.as_deref().unwrap()).unwrap();
    assert_eq!(plan.get("parent"), None, "a caller that acts for itself has none");
}

fn calls(calls: u64) -> Allowance {
    Allowance { calls: Some(calls), time: None }
}

#[test]
fn levels_follow_the_arguments_and_never_fall_below_what_is_done() {
    for (mode, plans, level, expected) in [
        // The source defines this: a statement that changes data asks like a write, one that
        // removes data like a deletion.
        (Mode::SmartAuto, "insert", None, "moderate"),
        (Mode::SmartAuto, "delete", Some("destructive"), "destructive"),
        // A write to a system folder of the knowledge base.
        (Mode::FullAuto, "write", Some("critical"), "critical"),
        // A tool cannot rate a write as safe, or a change of Handfast as less than critical.
        (Mode::SmartAuto, "write", Some("safe"), "moderate"),
        (Mode::SmartAuto, "ls", Some("safe"), "moderate"),
        (Mode::FullAuto, "change", Some("safe"), "critical"),
        (Mode::SmartAuto, "read", Some("safe"), "safe"),
    ] {
        let bench = Bench::new(mode);
        let mut arguments = json!({"plans": plans});
        if let Some(level) = level {
            arguments["level"] = json!(level);
        }
        let checked = bench.engine.check("obedient", arguments.clone()).unwrap();
        assert_eq!(checked.level.as_str(), expected, "{arguments}");
        let asked = code(&bench.call(&bench.principal, arguments.clone()));
        // A safe call passes, and so does a command that only reads.
        let passes = expected == "safe" || plans == "ls";
        assert_eq!(asked, (!passes).then_some(Code::Approval), "{arguments}");
        // A ceiling on the level applies to the final level.
        let low = bench.under(&Ceiling { level: Level::Safe, ..Ceiling::default() });
        let denied = (expected != "safe").then_some(Code::Permission);
        assert_eq!(code(&bench.call(&low, arguments.clone())), denied, "{arguments}");
    }
}
