//! `db_query`: read-only SQL on the agent's database.

use std::sync::Arc;
use std::time::Duration;

use database::{Bounds, Databases};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tool::{
    Class, Context, Example, Lane, Level, Place, Plan, Presentation, Spec, TextCap, Timeout, Tool, ToolError,
};

use crate::failure::{failed_in, named, stopped};
use crate::values::{parameters, rows};

/// Rows per answer: default and maximum.
const ROWS: (u32, u32) = (200, 10_000);

/// Bytes of values per answer: default and maximum.
const BYTES: (u32, u32) = (50_000, 8 * 1024 * 1024);

/// The `db_query` tool.
pub struct DbQuery(pub(crate) Arc<Databases>);

/// Arguments of `db_query`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// One SELECT statement.
    sql: String,
    /// Values for `?`, in order; bytes as {"base64": ...}, large integers as {"integer": "..."}.
    params: Option<Vec<Value>>,
    /// Maximum number of rows, default 200.
    #[schemars(range(min = 1, max = 10_000))]
    limit: Option<u32>,
    /// Maximum bytes of values, default 50000.
    #[schemars(range(min = 1, max = 8_388_608))]
    max_bytes: Option<u32>,
    /// `cursor` of an earlier result of the same statement, for the rows that follow.
    cursor: Option<String>,
    /// Configured name of a database other than the default one.
    database: Option<String>,
    /// Timeout in seconds, default 30.
    #[schemars(range(min = 1, max = 600))]
    timeout: Option<u64>,
}

/// Result of `db_query`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Rows as objects, keyed by column name.
    rows: Vec<Map<String, Value>>,
    /// Column names, in order, each unique.
    columns: Vec<String>,
    /// Number of rows in this result.
    row_count: usize,
    /// Cursor for the rows that follow; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
}

impl Args {
    /// Returns a hash that identifies the statement with its parameters.
    fn mark(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        hasher.update(self.sql.as_bytes());
        hasher.update(&[0]);
        for value in self.params.iter().flatten() {
            hasher.update(value.to_string().as_bytes());
            hasher.update(&[0]);
        }
        hasher.finalize().to_hex()[..12].to_owned()
    }

    /// Returns the number of rows that earlier answers had.
    fn skip(&self) -> Result<u64, ToolError> {
        let Some(cursor) = &self.cursor else { return Ok(0) };
        let (rows, mark) = cursor.split_once('-').unwrap_or_default();
        match rows.parse() {
            Ok(rows) if mark == self.mark() => Ok(rows),
            Ok(_) if mark.len() == 12 => Err(ToolError::validation("cursor", "belongs to another statement")
                .hint("repeat `sql` and `params` unchanged")),
            _ => Err(ToolError::validation("cursor", "is not the `cursor` of a result")),
        }
    }
}

impl Tool for DbQuery {
    type Args = Args;
    type Output = Output;

    const SPEC: Spec = Spec {
        name: "db_query",
        title: "Query the database",
        description: "Run one read-only SQL statement on the workspace's SQLite database.",
        example: Example {
            files: &[],
            arguments: r#"{"sql": "SELECT ? AS name, 1 + 1 AS sum", "params": ["x"]}"#,
            result: r#"{"rows": [{"name": "x", "sum": 2}], "columns": ["name", "sum"], "row_count": 1}"#,
        },
        level: Level::Safe,
        class: Class::READ,
        timeout: Timeout { default: Duration::from_secs(30), max: Duration::from_mins(10) },
        lane: Lane::Read,
        text: TextCap::ByArguments,
        presentation: Presentation::Record,
    };

    fn plan(&self, args: &Args, _place: &Place) -> Result<Plan, ToolError> {
        named(&self.0, args.database.as_deref())?;
        parameters(args.params.as_deref())?;
        args.skip()?;
        Ok(Plan::of(vec![]))
    }

    fn timeout(&self, args: &Args) -> Option<Duration> {
        args.timeout.map(Duration::from_secs)
    }

    fn answer_bytes(&self, args: &Args) -> u64 {
        // In JSON, bytes and escapes rarely take more than twice their size.
        u64::from(args.max_bytes.unwrap_or(BYTES.0).min(BYTES.1)) * 2 + 16 * 1024
    }

    async fn run(&self, context: &Context, args: Args) -> Result<Output, ToolError> {
        let skip = args.skip()?;
        let bounds = Bounds {
            skip,
            rows: usize::try_from(args.limit.unwrap_or(ROWS.0).clamp(1, ROWS.1)).unwrap_or(usize::MAX),
            bytes: usize::try_from(args.max_bytes.unwrap_or(BYTES.0).clamp(1, BYTES.1)).unwrap_or(usize::MAX),
        };
        let parameters = parameters(args.params.as_deref())?;
        let page = named(&self.0, args.database.as_deref())?
            .query(&args.sql, &parameters, bounds, &stopped(context))
            .map_err(|error| failed_in(context, error))?;
        let row_count = page.rows.len();
        let cursor = page.has_more.then(|| format!("{}-{}", skip + row_count as u64, args.mark()));
        let columns = page.columns.clone();
        Ok(Output { rows: rows(page), columns, row_count, cursor })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tool::Code;

    use crate::tests::World;

    fn filled() -> World {
        let world = World::new();
        for sql in [
            "CREATE TABLE n (v)",
            "INSERT INTO n WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT 5) SELECT x FROM c",
        ] {
            world.run("db_write", json!({ "sql": sql })).unwrap();
        }
        world
    }

    #[test]
    fn a_cursor_leads_through_all_rows_and_belongs_to_its_statement() {
        let world = filled();
        let sql = "SELECT v FROM n ORDER BY v";
        let (mut seen, mut cursor) = (Vec::new(), json!(null));
        loop {
            let mut arguments = json!({"sql": sql, "limit": 2});
            if !cursor.is_null() {
                arguments["cursor"] = cursor;
            }
            let page = world.run("db_query", arguments).unwrap();
            seen.extend(page["rows"].as_array().unwrap().iter().map(|row| row["v"].as_i64().unwrap()));
            cursor = page["cursor"].clone();
            if cursor.is_null() {
                break;
            }
            let other = json!({"sql": "SELECT 1", "cursor": cursor});
            assert_eq!(world.run("db_query", other).unwrap_err().code, Code::Validation);
        }
        assert_eq!(seen, [1, 2, 3, 4, 5]);
    }

    #[test]
    fn refuses_everything_but_reading_and_says_what_to_do() {
        let world = filled();
        for (sql, code, said) in [
            ("DELETE FROM n", Code::Validation, "`sql`"),
            ("SELECT 1; DELETE FROM n", Code::Validation, "several"),
            ("ATTACH 'x' AS y", Code::Permission, "ATTACH"),
            ("PRAGMA journal_mode = off", Code::Permission, "PRAGMA"),
            ("SELECT * FROM nowhere", Code::Validation, "no such table"),
            ("SELECT ?", Code::Validation, "`params`"),
            ("SELECT zeroblob(900000000)", Code::Quota, "too big"),
        ] {
            let error = world.run("db_query", json!({ "sql": sql })).unwrap_err();
            assert_eq!(error.code, code, "{sql}: {}", error.message);
            assert!(error.message.contains(said) && error.hint.is_some(), "{sql}: {}", error.message);
        }
        assert_eq!(world.run("db_query", json!({"sql": "SELECT v FROM n"})).unwrap()["row_count"], 5);
        let unknown = world.run("db_query", json!({"sql": "SELECT 1", "database": "other"})).unwrap_err();
        assert_eq!(unknown.code, Code::NotFound);
    }

    #[test]
    fn a_real_number_stays_one_however_whole_it_is() {
        let world = World::new();
        let typed = json!({"sql": "SELECT typeof(?) AS a, typeof(?) AS b, typeof(?) AS c, ? AS d", "params": [1.0, -0.0, 1, -0.0]});
        let row = world.run("db_query", typed).unwrap()["rows"][0].clone();
        assert_eq!(row.to_string(), json!({"a": "real", "b": "real", "c": "integer", "d": -0.0}).to_string());
        // An integer of the schema may be written as 5.0.
        assert!(world.run("db_query", json!({"sql": "SELECT 1", "limit": 5.0})).is_ok());
    }

    #[test]
    fn its_plan_is_safe_and_touches_nothing() {
        let plan = World::new().plan("db_query", json!({"sql": "DELETE FROM n"})).unwrap();
        assert_eq!((plan.effects, plan.level), (vec![], None));
    }
}
