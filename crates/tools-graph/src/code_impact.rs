//! `code_impact`: who is affected if a definition changes, with the way to each.

use std::collections::{BTreeMap, BTreeSet};

use cypher::{Graph, NodeId, RelationshipId, Side, TypeId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{
    Class, Context, Effect, Example, Lane, Level, Place, Plan, Presentation, Spec, TextCap, Timeout, Tool,
    ToolError,
};

use crate::answer::Fresh;
use crate::graphs::CodeGraphs;
use crate::symbols::{at_line, kind, named};
use crate::values::{key_of, number, property, text};

/// Steps from the symbol: default and maximum.
const DEPTH: (u32, u32) = (3, 6);

/// Maximum number of affected definitions in an answer.
const ROWS: usize = 200;

/// Maximum number of definitions within the symbol that count as changed with it.
const PARTS: usize = 10_000;

/// Relationships that lead from what is affected to what it depends on. The last one connects by names alone.
const DEPENDS: [&str; 11] = [
    "CALLS",
    "INSTANTIATES",
    "INHERITS",
    "IMPLEMENTS",
    "OVERRIDES",
    "REFERENCES",
    "RETURNS_TYPE",
    "HAS_TYPE",
    "IMPORTS",
    "RE_EXPORTS",
    "MAY_CALL",
];

/// The `code_impact` tool.
pub struct CodeImpact;

/// Arguments of `code_impact`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Name, qualified name or id of a definition, or path of a file.
    symbol: Option<String>,
    /// File of the definition, with `line` in place of `symbol`.
    file: Option<String>,
    /// Line within the definition, from 1.
    #[schemars(range(min = 1))]
    line: Option<u32>,
    /// Maximum steps from the symbol, default 3.
    #[schemars(range(min = 1, max = 6))]
    depth: Option<u32>,
}

/// Result of `code_impact`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Id of the symbol.
    symbol: String,
    /// Definitions that may break, the nearest first.
    affected: Vec<Affected>,
    /// Number of all affected within the depth.
    count: usize,
    /// Files of all affected.
    files: Vec<String>,
    /// True if `affected` or `files` has not all of them.
    truncated: bool,
    /// Freshness of the graph.
    freshness: Fresh,
}

/// Something that depends on the symbol.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
pub(crate) struct Affected {
    /// Id.
    id: String,
    /// Kind, such as function.
    kind: String,
    /// File.
    file: String,
    /// First line of it.
    line: i64,
    /// Line at which it uses the next one of the path.
    #[serde(skip_serializing_if = "Option::is_none")]
    uses_at: Option<i64>,
    /// Steps from the symbol.
    distance: u32,
    /// Relationship with the next one of the path, such as CALLS.
    relation: String,
    /// False if a step is connected by names alone.
    certain: bool,
    /// True for tests.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_test: bool,
    /// Ids from it to the symbol.
    path: Vec<String>,
}

impl Tool for CodeImpact {
    type Args = Args;
    type Output = Output;

    const SPEC: Spec = Spec {
        name: "code_impact",
        title: "Impact of a change",
        description: "Find everything that depends on a function, type or file, with paths. Ask before you change or remove it.",
        example: Example {
            files: &[("app.py", "def load():\n    pass\n\ndef main():\n    load()\n")],
            arguments: r#"{"symbol": "load"}"#,
            result: r#"{"symbol": "app.py#load", "affected": [{"id": "app.py#main", "kind": "function", "file": "app.py", "line": 4, "uses_at": 5, "distance": 1, "relation": "CALLS", "certain": true, "path": ["app.py#main", "app.py#load"]}], "count": 1, "files": ["app.py"], "truncated": false}"#,
        },
        level: Level::Safe,
        class: Class::READ,
        timeout: Timeout::fixed(300),
        lane: Lane::Read,
        text: TextCap::Default,
        presentation: Presentation::Record,
    };

    fn plan(&self, args: &Args, place: &Place) -> Result<Plan, ToolError> {
        wanted(args, place)?;
        let depth = args.depth.unwrap_or(DEPTH.0);
        if depth == 0 || depth > DEPTH.1 {
            return Err(ToolError::validation("depth", format!("{depth} is not between 1 and {}", DEPTH.1)));
        }
        Ok(Plan::of(vec![Effect::Read { path: place.workspace.clone() }]))
    }

    async fn run(&self, context: &Context, args: Args) -> Result<Output, ToolError> {
        let graphs = context.service::<CodeGraphs>()?;
        let (freshness, graph) = Fresh::split(&graphs.answerable(context)?);
        let graph = graph.as_ref();
        let symbol = match wanted(&args, &context.place)? {
            Subject::Symbol(symbol) => named(graph, &symbol)?,
            Subject::Line(file, line) => at_line(graph, &file, line)?,
        };
        let mut search = Search::new(graph, symbol);
        for distance in 1..=args.depth.unwrap_or(DEPTH.0) {
            context.stop.check()?;
            search.step(distance);
        }
        let count = search.reached.len();
        let files: BTreeSet<String> =
            search.reached.keys().map(|node| text(graph, *node, "file").to_string()).collect();
        let files: Vec<String> = files.into_iter().filter(|file| !file.is_empty()).collect();
        let truncated = count > ROWS || files.len() > ROWS;
        let mut affected: Vec<Affected> = search.order.iter().map(|node| search.affected(*node)).collect();
        affected.sort_by(|one, two| {
            (one.distance, !one.certain, &one.id).cmp(&(two.distance, !two.certain, &two.id))
        });
        affected.truncate(ROWS);
        Ok(Output {
            symbol: text(graph, symbol, "id").to_string(),
            affected,
            count,
            files: files.into_iter().take(ROWS).collect(),
            truncated,
            freshness,
        })
    }
}

/// The subject of a call.
enum Subject {
    Symbol(String),
    Line(String, i64),
}

fn wanted(args: &Args, place: &Place) -> Result<Subject, ToolError> {
    match (&args.symbol, &args.file, args.line) {
        (Some(symbol), None, None) if !symbol.trim().is_empty() => Ok(Subject::Symbol(symbol.clone())),
        (None, Some(file), Some(line)) if line > 0 => {
            let resolved = place.resolve("file", file)?;
            let relative = resolved.strip_prefix(&place.workspace).map_err(|_| {
                ToolError::validation("file", "is outside the workspace, which is all that the graph has")
            })?;
            Ok(Subject::Line(tool::path_text(relative), i64::from(line)))
        }
        _ => Err(ToolError::validation("symbol", "give either `symbol`, or `file` and `line`")),
    }
}

/// The way by which something was reached.
struct Step {
    distance: u32,
    /// Next node on the way to the symbol.
    next: NodeId,
    relationship: RelationshipId,
    certain: bool,
}

/// A search from the symbol against the direction of dependencies, nearest first.
struct Search<'a> {
    graph: &'a dyn Graph,
    /// Types in the order of [`DEPENDS`], with whether they connect by more than names.
    types: Vec<(TypeId, bool)>,
    /// Symbol and what it defines.
    own: BTreeSet<NodeId>,
    reached: BTreeMap<NodeId, Step>,
    order: Vec<NodeId>,
    /// Nodes that were reached in the last step, with their certainty.
    front: Vec<(NodeId, bool)>,
}

impl<'a> Search<'a> {
    fn new(graph: &'a dyn Graph, symbol: NodeId) -> Self {
        let type_id = |wanted: &str| {
            let at = graph.relationship_types().iter().position(|name| &**name == wanted)?;
            u16::try_from(at).ok().map(TypeId)
        };
        let types = DEPENDS.iter().filter_map(|name| Some((type_id(name)?, *name != "MAY_CALL"))).collect();
        let mut own = BTreeSet::from([symbol]);
        let mut waiting = vec![symbol];
        if let Some(defines) = type_id("DEFINES") {
            while let Some(node) = waiting.pop() {
                for link in graph.links(node, Side::Outgoing, Some(defines)) {
                    if own.len() < PARTS && own.insert(link.neighbour) {
                        waiting.push(link.neighbour);
                    }
                }
            }
        }
        let front = own.iter().map(|node| (*node, true)).collect();
        Self { graph, types, own, reached: BTreeMap::new(), order: Vec::new(), front }
    }

    /// Reaches what depends on the nodes of the last step. Certain ways come first.
    fn step(&mut self, distance: u32) {
        let front = std::mem::take(&mut self.front);
        for certain in [true, false] {
            for (node, is_certain) in &front {
                for at in 0..self.types.len() {
                    let Some((kind, connects)) = self.types.get(at).copied() else { continue };
                    if (*is_certain && connects) != certain {
                        continue;
                    }
                    for link in self.graph.links(*node, Side::Incoming, Some(kind)) {
                        let from = link.neighbour;
                        if self.own.contains(&from) || self.reached.contains_key(&from) {
                            continue;
                        }
                        let step = Step { distance, next: *node, relationship: link.relationship, certain };
                        self.reached.insert(from, step);
                        self.order.push(from);
                        self.front.push((from, certain));
                    }
                }
            }
        }
    }

    fn affected(&self, node: NodeId) -> Affected {
        let graph = self.graph;
        let id = |node: NodeId| text(graph, node, "id").to_string();
        let mut path = vec![id(node)];
        let mut at = node;
        while let Some(step) = self.reached.get(&at) {
            at = step.next;
            path.push(id(at));
        }
        let step = self.reached.get(&node);
        let kind_of =
            |step: &Step| graph.relationship_types().get(graph.type_of(step.relationship).0 as usize);
        let line_of = |step: &Step| match key_of(graph, "line")
            .map(|key| graph.relationship_property(step.relationship, key))
        {
            Some(cypher::Value::Integer(line)) => Some(line),
            _ => None,
        };
        Affected {
            id: id(node),
            kind: kind(graph, node).to_owned(),
            file: text(graph, node, "file").to_string(),
            line: number(graph, node, "start_line").unwrap_or(1),
            uses_at: step.and_then(line_of),
            distance: step.map_or(0, |step| step.distance),
            relation: step.and_then(kind_of).map(ToString::to_string).unwrap_or_default(),
            certain: step.is_some_and(|step| step.certain),
            is_test: property(graph, node, "is_test") == cypher::Value::Boolean(true),
            path,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use testkit::{DenyNames, Workspace};
    use tool::Code;

    use crate::tests::World;

    fn world() -> World {
        let files = [
            (
                "base.py",
                "class Store:\n    def put(self):\n        return 1\n\ndef low():\n    return Store().put()\n\ndef make():\n    return Store()\n",
            ),
            ("mid.py", "from base import low\n\ndef middle():\n    return low()\n"),
            ("top.py", "from mid import middle\n\ndef top():\n    return middle()\n\ntop()\n"),
            ("other.py", "def low():\n    return 2\n"),
            ("made.py", "from base import make\n\ndef through_method():\n    return make().put()\n"),
        ];
        World::new(Workspace::new().with_files(&files))
    }

    fn ids(found: &Value) -> Vec<String> {
        let all = found["affected"].as_array().unwrap().iter();
        all.map(|one| format!("{} {}", one["distance"], one["id"].as_str().unwrap())).collect()
    }

    #[test]
    fn everything_that_depends_on_a_symbol_is_found_with_its_way() {
        let world = world();
        let found = world.run("code_impact", json!({"symbol": "base.py#low"})).unwrap();
        let reached = ids(&found);
        for expected in ["1 mid.py#middle", "2 top.py#top", "2 top.py#"] {
            assert!(reached.contains(&expected.to_owned()), "{expected}: {reached:?}");
        }
        let top = found["affected"].as_array().unwrap().iter().find(|one| one["id"] == "top.py#top").unwrap();
        assert_eq!(top["path"], json!(["top.py#top", "mid.py#middle", "base.py#low"]));
        assert_eq!((&top["file"], &top["line"], &top["uses_at"]), (&json!("top.py"), &json!(3), &json!(4)));
        assert!(found["files"].as_array().unwrap().contains(&json!("mid.py")), "{found}");
        let near = world.run("code_impact", json!({"symbol": "base.py#low", "depth": 1})).unwrap();
        assert!(!ids(&near).iter().any(|id| id.starts_with('2')), "{near}");
        for line in [5, 6] {
            let by_line = world.run("code_impact", json!({"file": "base.py", "line": line})).unwrap();
            assert_eq!(by_line["symbol"], "base.py#low");
            assert_eq!(ids(&by_line), reached);
        }
    }

    #[test]
    fn a_class_is_changed_with_its_methods() {
        let found = world().run("code_impact", json!({"symbol": "Store", "depth": 1})).unwrap();
        let by_method = "1 made.py#through_method".to_owned();
        assert!(ids(&found).contains(&by_method), "{found}");
        assert!(ids(&found).contains(&"1 base.py#low".to_owned()), "{found}");
        assert!(!found["affected"].to_string().contains("\"base.py#Store.put\",\"kind\""), "{found}");
    }

    #[test]
    fn refuses_names_that_are_unknown_or_of_several_and_says_which() {
        let world = world();
        for (arguments, code, said) in [
            (json!({"symbol": "low"}), Code::Validation, "other.py#low"),
            (json!({"symbol": "midle"}), Code::NotFound, "middle"),
            (json!({"file": "base.py", "line": 400}), Code::NotFound, "line 400"),
            (json!({"file": "gone.py", "line": 1}), Code::NotFound, "gone.py"),
            (json!({"symbol": "low", "line": 1}), Code::Validation, "either"),
            (json!({}), Code::Validation, "either"),
            (json!({"symbol": "low", "depth": 7}), Code::Validation, "depth"),
        ] {
            let error = world.run("code_impact", arguments.clone()).unwrap_err();
            assert_eq!(error.code, code, "{arguments}: {}", error.message);
            assert!(error.message.contains(said), "{arguments}: {}", error.message);
        }
    }

    #[test]
    fn a_denied_file_is_not_affected_and_its_names_are_unknown() {
        let World { workspace, graphs } = world();
        let open = World { workspace, graphs };
        assert!(ids(&open.run("code_impact", json!({"symbol": "base.py#low"})).unwrap()).len() >= 3);
        let World { workspace, graphs } = open;
        let world =
            World { workspace: workspace.guarded(DenyNames { read: &["mid.py"], write: &[] }), graphs };
        let found = world.run("code_impact", json!({"symbol": "base.py#low"})).unwrap();
        assert_eq!(ids(&found), Vec::<String>::new(), "{found}");
        let error = world.run("code_impact", json!({"symbol": "midle"})).unwrap_err();
        assert!(!error.message.contains("middle"), "{}", error.message);
    }
}
