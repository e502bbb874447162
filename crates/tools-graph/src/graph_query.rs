//! `graph_query`: rows that a query in openCypher finds in the graph of the workspace's code.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tool::{
    Class, Context, Effect, Example, Lane, Level, Place, Plan, Presentation, Spec, TextCap, Timeout, Tool,
    ToolError,
};

use crate::answer::Fresh;
use crate::ask::ask;
use crate::graphs::CodeGraphs;
use crate::values::{json_of, parameters};

/// Size of the rows of an answer from which further ones are left out, in bytes of JSON.
const ROW_BYTES: usize = 1 << 20;

/// The `graph_query` tool.
pub struct GraphQuery;

/// Arguments of `graph_query`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Cypher that only reads, such as `MATCH (f:Function {name: $name})<-[:CALLS]-(g) RETURN g`.
    query: String,
    /// Values of the query's `$parameters`.
    params: Option<Map<String, Value>>,
    /// Commit to ask about in place of the files as they are: an id, branch or tag, such as HEAD~3.
    commit: Option<String>,
}

/// Result of `graph_query`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Rows as objects, keyed by column; nodes have `file` and `start_line`.
    rows: Vec<Map<String, Value>>,
    /// Column names, in order.
    columns: Vec<String>,
    /// True if there are more rows: use ORDER BY, SKIP and LIMIT.
    truncated: bool,
    /// True if paths without a bound were cut at 32 steps.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    capped: bool,
    /// Id of the commit that was asked about.
    #[serde(skip_serializing_if = "Option::is_none")]
    commit: Option<String>,
    /// Freshness of the graph.
    freshness: Fresh,
}

impl Tool for GraphQuery {
    type Args = Args;
    type Output = Output;

    const SPEC: Spec = Spec {
        name: "graph_query",
        title: "Query the code graph",
        description: "Ask the graph of the workspace's code in Cypher: who calls, imports or inherits what. graph_schema shows its labels.",
        example: Example {
            files: &[("app.py", "def load():\n    pass\n\ndef main():\n    load()\n")],
            arguments: r#"{"query": "MATCH (f:Function {name: $name})<-[:CALLS]-(g) RETURN g.name AS caller, g.file AS file, g.start_line AS line", "params": {"name": "load"}}"#,
            result: r#"{"rows": [{"caller": "main", "file": "app.py", "line": 4}], "columns": ["caller", "file", "line"], "truncated": false}"#,
        },
        level: Level::Safe,
        class: Class::READ,
        timeout: Timeout::fixed(300),
        lane: Lane::Read,
        text: TextCap::Default,
        presentation: Presentation::Record,
    };

    fn plan(&self, args: &Args, place: &Place) -> Result<Plan, ToolError> {
        if args.query.trim().is_empty() {
            return Err(ToolError::validation("query", "is empty")
                .hint("such as `MATCH (f:Function) RETURN f.name LIMIT 10`"));
        }
        parameters(args.params.as_ref())?;
        if args.commit.as_ref().is_some_and(|commit| commit.trim().is_empty()) {
            return Err(ToolError::validation("commit", "is empty"));
        }
        Ok(Plan::of(vec![Effect::Read { path: place.workspace.clone() }]))
    }

    fn answer_bytes(&self, _args: &Args) -> u64 {
        2 * ROW_BYTES as u64
    }

    async fn run(&self, context: &Context, args: Args) -> Result<Output, ToolError> {
        let graphs = context.service::<CodeGraphs>()?;
        let parameters = parameters(args.params.as_ref())?;
        let (answerable, commit) = match &args.commit {
            None => (graphs.answerable(context)?, None),
            Some(revision) => {
                let found = graphs.of_commit(context, revision)?;
                (found.answerable, Some(found.commit))
            }
        };
        let (freshness, graph) = Fresh::split(&answerable);
        let answer = ask(context, &graphs, graph.as_ref(), &args.query, &parameters)?;
        let (mut rows, mut left) = (Vec::new(), ROW_BYTES);
        let mut truncated = answer.is_truncated;
        for values in &answer.rows {
            let cells = answer.columns.iter().zip(values);
            let row: Map<String, Value> =
                cells.map(|(column, value)| (column.clone(), json_of(graph.as_ref(), value))).collect();
            let size = serde_json::to_vec(&row).map_or(usize::MAX, |bytes| bytes.len());
            if size > left {
                truncated = true;
                context.warn(format!("rows beyond {ROW_BYTES} bytes were left out: return fewer properties"));
                break;
            }
            left -= size;
            rows.push(row);
        }
        Ok(Output { rows, columns: answer.columns, truncated, capped: answer.is_capped, commit, freshness })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use testkit::{DenyNames, Workspace};
    use tool::Code;

    use crate::tests::World;

    const FILES: [(&str, &str); 2] = [
        ("src/lib.rs", "pub fn run() {\n    helper();\n}\n\nfn helper() {}\n"),
        (
            "web/app.ts",
            "export class Cart {\n  total(): number {\n    return sum(1);\n  }\n}\nfunction sum(n: number) { return n; }\n",
        ),
    ];

    #[test]
    fn a_query_sees_every_edit_and_a_node_says_where_it_is() {
        let world = World::new(Workspace::new().with_files(&FILES));
        let query = "MATCH (f:Function {name: 'helper'})<-[:CALLS]-(g) RETURN g ORDER BY g.name";
        let names = || {
            let found = world.ask(query).unwrap();
            let rows = found["rows"].as_array().unwrap().iter();
            rows.map(|row| row["g"]["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let found = world.ask(query).unwrap();
        let node = &found["rows"][0]["g"];
        assert_eq!((&node["file"], &node["start_line"]), (&json!("src/lib.rs"), &json!(1)));
        assert_eq!(found["freshness"]["indexed"], 2);
        assert_eq!(names(), ["run"]);
        world.workspace.write("src/more.rs", "use crate::helper;\npub fn again() { helper(); }\n");
        world.workspace.write("src/lib.rs", "mod more;\npub fn run() {}\n\npub(crate) fn helper() {}\n");
        assert_eq!(names(), ["again"]);
        std::fs::remove_file(world.workspace.at("src/more.rs")).unwrap();
        assert_eq!(names(), Vec::<String>::new());
    }

    #[test]
    fn a_denied_file_is_in_no_answer_of_the_graph_that_another_call_has_made() {
        let files = [FILES[0], ("src/secret.rs", "use crate::helper;\npub fn hidden_name() { helper(); }\n")];
        let world = World::new(Workspace::new().with_files(&files));
        let query = "MATCH (n) RETURN n";
        let open = world.ask(query).unwrap();
        assert!(open.to_string().contains("hidden_name"), "the control: {open}");
        let World { workspace, graphs } = world;
        let world =
            World { workspace: workspace.guarded(DenyNames { read: &["secret.rs"], write: &[] }), graphs };
        let closed = world.ask(query).unwrap();
        assert!(
            !closed.to_string().contains("secret") && !closed.to_string().contains("hidden_name"),
            "{closed}"
        );
        let without =
            World::new(Workspace::new().with_files(&FILES[..1])).ask("MATCH (n) RETURN count(n)").unwrap();
        let counted = world.ask("MATCH (n) RETURN count(n)").unwrap();
        assert_eq!((&counted["rows"], &counted["freshness"]), (&without["rows"], &without["freshness"]));
    }

    #[test]
    fn refuses_writing_clauses_and_names_the_nearest_of_unknown_names() {
        let world = World::new(Workspace::new().with_files(&FILES));
        for (query, said) in [
            ("CREATE (n:Function)", "CREATE"),
            ("MATCH (n) DETACH DELETE n", "line 1, column 11"),
            ("MATCH (n) SET n.name = 'x'", "SET"),
            ("MATCH (n:Funktion) RETURN n", "Function"),
            ("MATCH (n)-[:CALS]->() RETURN n", "CALLS"),
            ("MATCH (n:Function) RETURN n.nmae", "name"),
            ("MATCH (n RETURN n", "line 1, column"),
            ("RETURN 'open", "line 1, column 8"),
            ("RETURN $missing", "missing"),
        ] {
            let error = world.ask(query).unwrap_err();
            assert_eq!(error.code, Code::Validation, "{query}: {}", error.message);
            assert!(error.message.contains(said) && error.hint.is_some(), "{query}: {}", error.message);
        }
        assert_eq!(world.ask(" ").unwrap_err().code, Code::Validation);
    }

    #[test]
    fn hostile_queries_end_within_their_limits() {
        let world = World::new(Workspace::new().with_files(&FILES));
        let deep = format!("RETURN {}1{}", "(".repeat(10_000), ")".repeat(10_000));
        let long = format!("RETURN '{}'", "x".repeat(1 << 20));
        for query in [&deep, &long] {
            assert_eq!(world.ask(query).unwrap_err().code, Code::Validation);
        }
        let rows = world.ask("UNWIND range(1, 5000) AS n RETURN n").unwrap();
        assert_eq!((rows["rows"].as_array().unwrap().len(), &rows["truncated"]), (1000, &json!(true)));
        let wide = world.ask("UNWIND range(1, 900) AS n RETURN [x IN range(1, 1000) | x] AS xs").unwrap();
        assert!(wide["truncated"] == true && wide["rows"].as_array().unwrap().len() < 900);
        let injected = world
            .run("graph_query", json!({"query": "RETURN $x AS x", "params": {"x": "'}) DETACH DELETE n //"}}))
            .unwrap();
        assert_eq!(injected["rows"], json!([{"x": "'}) DETACH DELETE n //"}]));
    }

    #[test]
    fn links_are_not_followed_and_ignored_folders_are_left_out() {
        let world = World::new(Workspace::new().with_files(&[
            FILES[0],
            (".gitignore", "build\n"),
            ("build/made.rs", "fn made() {}\n"),
            ("node_modules/x/index.js", "function packaged() {}\n"),
            (".hidden/x.rs", "fn dotted() {}\n"),
            ("../outside/o.rs", "fn outer() {}\n"),
        ]));
        world.workspace.link("src/round", "..");
        world.workspace.link("src/out.rs", "../../outside/o.rs");
        world.workspace.link("src/twice.rs", "lib.rs");
        let found = world.ask("MATCH (f:File) RETURN f.path AS path").unwrap();
        assert_eq!(found["rows"], json!([{"path": "src/lib.rs"}]));
        let names = world.ask("MATCH (f:Function) RETURN f.name AS name ORDER BY name").unwrap();
        assert_eq!(names["rows"], json!([{"name": "helper"}, {"name": "run"}]));
    }
}
