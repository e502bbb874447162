//! `db_write`: changes to the agent's database, one statement and one transaction per call.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use database::{Bounds, DatabaseError, Databases, Keep, Statement, StopCheck, dangerous_spelling};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tool::{
    Class, Context, Effect, Example, Lane, Level, Place, Plan, Presentation, Spec, TextCap, Timeout, Tool,
    ToolError,
};

use crate::failure::{failed, failed_in, named, stopped};
use crate::values::{parameters, rows};

/// Limits of the rows of `RETURNING` in an answer: rows, and bytes of their values.
const RETURNED: Bounds = Bounds { skip: 0, rows: 1_000, bytes: 100_000 };

/// Maximum duration of a preview.
const PREVIEW: Duration = Duration::from_secs(2);

/// The `db_write` tool.
pub struct DbWrite(pub(crate) Arc<Databases>);

/// Arguments of `db_write`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// One INSERT, UPDATE, DELETE, CREATE, ALTER or DROP statement.
    sql: String,
    /// Values for `?`, in order; bytes as {"base64": ...}, large integers as {"integer": "..."}.
    params: Option<Vec<Value>>,
    /// Configured name of a database other than the default one.
    database: Option<String>,
    /// Timeout in seconds, default 30, at most 600; includes the wait for other writers.
    #[schemars(range(min = 1, max = 600))]
    timeout: Option<u64>,
    /// Show the changes without making them.
    #[serde(default)]
    dry_run: bool,
    /// Statement as the plan analyzed it: the run executes exactly this statement.
    #[serde(skip)]
    planned: OnceLock<Statement>,
}

/// Result of `db_write`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Number of rows that the statement changed, without those of its triggers.
    affected_rows: u64,
    /// Row id of the last inserted row.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_insert_id: Option<i64>,
    /// Rows of RETURNING, at most 1000.
    #[serde(skip_serializing_if = "Option::is_none")]
    rows: Option<Vec<Map<String, Value>>>,
    /// Changes as a diff; only in a dry run.
    #[serde(skip_serializing_if = "Option::is_none")]
    diff: Option<String>,
}

impl Tool for DbWrite {
    type Args = Args;
    type Output = Output;

    const SPEC: Spec = Spec {
        name: "db_write",
        title: "Change the database",
        description: "Run one SQL statement that changes the workspace's SQLite database; can be undone.",
        example: Example {
            files: &[],
            arguments: r#"{"sql": "CREATE TABLE IF NOT EXISTS notes (id INTEGER PRIMARY KEY, title TEXT)"}"#,
            result: r#"{"affected_rows": 0}"#,
        },
        level: Level::Moderate,
        class: Class { reads_only: false, destructive: true, idempotent: false, open_world: false },
        timeout: Timeout { default: Duration::from_secs(30), max: Duration::from_mins(10) },
        lane: Lane::Write,
        text: TextCap::ByArguments,
        presentation: Presentation::Record,
    };

    /// Asks the database for the effects of the statement, on a connection that cannot change data.
    fn plan(&self, args: &Args, _place: &Place) -> Result<Plan, ToolError> {
        parameters(args.params.as_deref())?;
        let write = |statement: String| Effect::DatabaseWrite { statement };
        let statement = match named(&self.0, args.database.as_deref())?.plan(&args.sql) {
            Ok(statement) => statement,
            // SQLite does not know this statement. The policy still decides on its meaning in other
            // databases, and the statement never runs.
            Err(DatabaseError::Syntax(_)) if dangerous_spelling(&args.sql).is_some() => {
                let lines = dangerous_spelling(&args.sql).map(str::to_owned).into_iter();
                let plan = Plan::of(lines.map(write).collect());
                return Ok(Plan { level: Some(Level::Destructive), ..plan }.only_tried(args.dry_run));
            }
            Err(error) => return Err(failed(error)),
        };
        let level = if statement.takes_away() { Level::Destructive } else { Level::Moderate };
        let plan = Plan::of(statement.lines().into_iter().map(write).collect());
        let statement = args.planned.get_or_init(|| statement);
        debug_assert!(!statement.lines().is_empty());
        Ok(Plan { level: Some(level), ..plan }.only_tried(args.dry_run))
    }

    fn timeout(&self, args: &Args) -> Option<Duration> {
        args.timeout.map(Duration::from_secs)
    }

    /// Runs the statement without keeping its changes, for at most `PREVIEW`.
    fn preview(&self, context: &Context, args: &Args) -> Option<String> {
        let (planned, stopped) = (args.planned.get()?, stopped(context));
        let until = Instant::now() + PREVIEW;
        let stopped: StopCheck = Arc::new(move || stopped() || Instant::now() > until);
        let parameters = parameters(args.params.as_deref()).ok()?;
        let database = named(&self.0, args.database.as_deref()).ok()?;
        let tried = database.try_write((&args.sql, &parameters), planned, RETURNED, &stopped).ok()?;
        let undoing = tried.written.not_undoable.map(|why| format!("this could not be undone: {why}\n"));
        Some(undoing.unwrap_or_default() + &text(&tried.lines))
    }

    async fn run(&self, context: &Context, args: Args) -> Result<Output, ToolError> {
        let database = named(&self.0, args.database.as_deref())?;
        let Some(planned) = args.planned.get() else {
            let said = database.plan(&args.sql).map(|_| ()).map_err(failed);
            return Err(said.err().unwrap_or_else(|| failed(DatabaseError::Drifted)).hint(
                "SQLite has no such statement: DELETE without WHERE empties a table, DROP TABLE removes it",
            ));
        };
        let parameters = parameters(args.params.as_deref())?;
        let (statement, stopped) = ((args.sql.as_str(), parameters.as_slice()), stopped(context));
        let (written, lines) = if args.dry_run {
            let tried = database.try_write(statement, planned, RETURNED, &stopped);
            tried.map(|tried| (tried.written, Some(tried.lines)))
        } else {
            let keep = context.service::<Arc<dyn Keep>>()?;
            let written = database.write(statement, planned, RETURNED, keep.as_ref().as_ref(), &stopped);
            written.map(|written| (written, None))
        }
        .map_err(|error| failed_in(context, error))?;
        if let Some(why) = written.not_undoable {
            let what = if args.dry_run { "the call could not be undone" } else { "this cannot be undone" };
            context.warn(format!("{what}: {why}"));
        }
        if written.returned.has_more {
            context.warn(format!("RETURNING gave more than the {} rows shown", written.returned.rows.len()));
        }
        let has_rows = !written.returned.columns.is_empty();
        Ok(Output {
            affected_rows: written.affected,
            last_insert_id: written.last_insert_id,
            rows: has_rows.then(|| rows(written.returned)),
            diff: lines.map(|lines| text(&lines)),
        })
    }
}

fn text(lines: &[String]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tool::{Code, Effect, Level};

    use crate::tests::World;

    #[test]
    fn rows_go_in_and_come_out_with_their_ids() {
        let world = World::new();
        let write = |arguments| world.run("db_write", arguments).unwrap();
        write(json!({"sql": "CREATE TABLE t (id INTEGER PRIMARY KEY, v)"}));
        let inserted =
            write(json!({"sql": "INSERT INTO t(v) VALUES (?), (?)", "params": ["a", {"base64": "AP8="}]}));
        assert_eq!(inserted, json!({"affected_rows": 2, "last_insert_id": 2}));
        let returned = write(
            json!({"sql": "UPDATE t SET v = ? RETURNING id, v", "params": [{"integer": "9223372036854775807"}]}),
        );
        assert_eq!(returned["rows"][1], json!({"id": 2, "v": {"integer": "9223372036854775807"}}));
        assert_eq!(write(json!({"sql": "DELETE FROM t WHERE id = 1"})), json!({"affected_rows": 1}));
        assert_eq!(world.kept.0.lock().len(), 4);
    }

    #[test]
    fn a_dry_run_is_safe_shows_the_change_and_makes_none() {
        let world = World::new();
        world.run("db_write", json!({"sql": "CREATE TABLE t (id INTEGER PRIMARY KEY, v)"})).unwrap();
        world.run("db_write", json!({"sql": "INSERT INTO t(v) VALUES ('a')"})).unwrap();
        let arguments = json!({"sql": "DELETE FROM t", "dry_run": true});
        let plan = world.plan("db_write", arguments.clone()).unwrap();
        assert_eq!((plan.effects, plan.level), (vec![], Some(Level::Safe)));
        let tried = plan.dry_run.unwrap();
        assert_eq!(tried.level, Some(Level::Destructive));
        assert_eq!(tried.effects, [Effect::DatabaseWrite { statement: "delete t".to_owned() }]);
        let told = world.run("db_write", arguments).unwrap();
        assert_eq!(told, json!({"affected_rows": 1, "diff": "-t(1, \"a\")\n"}));
        let rows = world.run("db_query", json!({"sql": "SELECT v FROM t"})).unwrap();
        assert_eq!((rows["row_count"].clone(), world.kept.0.lock().len()), (json!(1), 2));
    }

    #[test]
    fn the_level_is_that_of_the_statement() {
        let world = World::new();
        world.run("db_write", json!({"sql": "CREATE TABLE t (v)"})).unwrap();
        for (sql, level, statement) in [
            ("INSERT INTO t VALUES (1)", Level::Moderate, "insert t"),
            ("UPDATE t SET v = 'DELETE'", Level::Moderate, "update t"),
            ("CREATE INDEX i ON t(v)", Level::Moderate, "create index i"),
            ("DELETE FROM t", Level::Destructive, "delete t"),
            ("/* INSERT */ DROP TABLE t", Level::Destructive, "drop table t"),
            ("TRUNCATE TABLE t", Level::Destructive, "truncate"),
            ("drop database main", Level::Destructive, "drop database"),
        ] {
            let plan = world.plan("db_write", json!({ "sql": sql })).unwrap();
            assert_eq!(plan.effects, [Effect::DatabaseWrite { statement: statement.to_owned() }], "{sql}");
            assert_eq!(plan.level, Some(level), "{sql}");
        }
        assert!(world.kept.0.lock().len() == 1, "a plan changes nothing");
    }

    #[test]
    fn refuses_what_no_statement_may_do_and_changes_nothing() {
        let world = World::new();
        world.run("db_write", json!({"sql": "CREATE TABLE t (v UNIQUE)"})).unwrap();
        world.run("db_write", json!({"sql": "INSERT INTO t VALUES (1)"})).unwrap();
        for (sql, code) in [
            ("ATTACH 'x' AS y", Code::Permission),
            ("PRAGMA user_version = 2", Code::Permission),
            ("VACUUM", Code::Permission),
            ("DELETE FROM t; DELETE FROM t", Code::Validation),
            ("SELECT 1", Code::Validation),
            ("", Code::Validation),
            ("TRUNCATE t", Code::Validation),
            ("INSERT INTO t VALUES (1)", Code::Conflict),
            ("INSERT INTO t VALUES (?)", Code::Validation),
        ] {
            let error = world.run("db_write", json!({ "sql": sql })).unwrap_err();
            assert_eq!(error.code, code, "{sql}: {}", error.message);
            assert_eq!(error.effect, tool::EffectState::None, "{sql}");
        }
        assert_eq!(world.run("db_query", json!({"sql": "SELECT v FROM t"})).unwrap()["row_count"], 1);
    }
}
