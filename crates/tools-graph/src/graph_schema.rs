//! `graph_schema`: what the graph of the workspace's code has, for authors of queries.

use std::collections::{BTreeMap, BTreeSet};

use codegraph::Language;
use cypher::{Graph, LabelId, Side, TypeId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{
    Class, Context, Effect, Example, Lane, Level, Place, Plan, Presentation, Spec, TextCap, Timeout, Tool,
    ToolError,
};

use crate::answer::Fresh;
use crate::graphs::CodeGraphs;
use crate::symbols::nodes;
use crate::values::text;

/// Number of nodes of a label whose properties are looked at.
const SAMPLE: usize = 50;

/// The `graph_schema` tool.
pub struct GraphSchema;

/// Arguments of `graph_schema`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {}

/// Result of `graph_schema`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Labels of nodes that occur.
    labels: Vec<Label>,
    /// Relationship types that occur.
    relationships: Vec<Relationship>,
    /// Property keys of relationships.
    relationship_properties: Vec<String>,
    /// Queries to start from.
    examples: Vec<ExampleQuery>,
    /// Number of nodes.
    nodes: usize,
    /// Number of relationships.
    relationship_count: usize,
    /// Languages of the files.
    languages: Vec<LanguageFiles>,
    /// Freshness of the graph.
    freshness: Fresh,
}

/// The files of a language.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
pub(crate) struct LanguageFiles {
    /// Name.
    language: &'static str,
    /// Number of files.
    files: u64,
    /// True if the files are not in the graph, because the language is not installed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    missing: bool,
}

/// A label of nodes.
#[expect(clippy::struct_field_names, reason = "a label is named so in queries")]
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
pub(crate) struct Label {
    /// Name.
    label: String,
    /// Number of nodes.
    count: usize,
    /// Property keys.
    properties: Vec<String>,
}

/// A relationship type.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
pub(crate) struct Relationship {
    /// Name.
    r#type: String,
    /// Number of relationships.
    count: usize,
    /// Labels of their starts.
    from: Vec<String>,
    /// Labels of their ends.
    to: Vec<String>,
}

/// An example of a query.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
pub(crate) struct ExampleQuery {
    /// Question that it answers.
    asks: String,
    /// Query.
    query: String,
}

impl Tool for GraphSchema {
    type Args = Args;
    type Output = Output;

    const SPEC: Spec = Spec {
        name: "graph_schema",
        title: "Schema of the code graph",
        description: "Show the labels, relationship types and properties of the code graph, with counts and example queries for graph_query.",
        example: Example {
            files: &[("app.py", "def load():\n    pass\n\ndef main():\n    load()\n")],
            arguments: "{}",
            result: r#"{"freshness": {"indexed": 1, "pending": 0}}"#,
        },
        level: Level::Safe,
        class: Class::READ,
        timeout: Timeout::fixed(300),
        lane: Lane::Read,
        text: TextCap::Default,
        presentation: Presentation::Record,
    };

    fn plan(&self, _args: &Args, place: &Place) -> Result<Plan, ToolError> {
        Ok(Plan::of(vec![Effect::Read { path: place.workspace.clone() }]))
    }

    async fn run(&self, context: &Context, _args: Args) -> Result<Output, ToolError> {
        let graphs = context.service::<CodeGraphs>()?;
        let answerable = graphs.answerable(context)?;
        let (freshness, graph) = Fresh::split(&answerable);
        let graph = graph.as_ref();
        Ok(Output {
            languages: languages(graph, &answerable.missing),
            labels: labels(graph),
            relationships: relationships(graph),
            relationship_properties: relationship_properties(graph),
            examples: examples(graph),
            nodes: graph.node_count(),
            relationship_count: graph.relationship_count(),
            freshness,
        })
    }
}

fn label_ids(graph: &dyn Graph) -> impl Iterator<Item = (LabelId, &str)> {
    (0_u16..).map(LabelId).zip(graph.labels().iter().map(|name| &**name))
}

fn type_ids(graph: &dyn Graph) -> impl Iterator<Item = (TypeId, &str)> {
    (0_u16..).map(TypeId).zip(graph.relationship_types().iter().map(|name| &**name))
}

fn labels(graph: &dyn Graph) -> Vec<Label> {
    let keys = graph.property_keys();
    let label = |(id, name): (LabelId, &str)| {
        let nodes = graph.nodes_with_label(id);
        let used: BTreeSet<u16> =
            nodes.iter().take(SAMPLE).flat_map(|node| graph.keys_of_node(*node)).map(|key| key.0).collect();
        let properties = used.iter().filter_map(|key| Some(keys.get(*key as usize)?.to_string())).collect();
        (!nodes.is_empty()).then(|| Label { label: name.to_owned(), count: nodes.len(), properties })
    };
    label_ids(graph).filter_map(label).collect()
}

fn relationships(graph: &dyn Graph) -> Vec<Relationship> {
    let ends = |kind: TypeId, side: Side| {
        let has = move |(label, _): &(LabelId, &str)| graph.count_at(kind, side, *label) > 0;
        label_ids(graph).filter(has).map(|(_, name)| name.to_owned()).collect()
    };
    let relationship = |(kind, name): (TypeId, &str)| {
        let count = graph.count_of_type(kind);
        (count > 0).then(|| Relationship {
            r#type: name.to_owned(),
            count,
            from: ends(kind, Side::Outgoing),
            to: ends(kind, Side::Incoming),
        })
    };
    type_ids(graph).filter_map(relationship).collect()
}

/// Counts the files of each language, those in the graph first.
fn languages(graph: &dyn Graph, missing: &BTreeMap<Language, u64>) -> Vec<LanguageFiles> {
    let label = label_ids(graph).find(|(_, name)| *name == "File").map(|(id, _)| id);
    let nodes = label.map(|label| graph.nodes_with_label(label)).unwrap_or_default();
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for node in nodes {
        *counts.entry(text(graph, *node, "language").to_string()).or_default() += 1;
    }
    let known = Language::ALL.into_iter().filter_map(|language| {
        let files = *counts.get(language.name())?;
        Some(LanguageFiles { language: language.name(), files, missing: false })
    });
    let absent = missing.iter().map(|(language, files)| LanguageFiles {
        language: language.name(),
        files: *files,
        missing: true,
    });
    known.chain(absent).collect()
}

/// Returns the property keys of the first relationships of each type.
fn relationship_properties(graph: &dyn Graph) -> Vec<String> {
    let links = nodes(graph).take(SAMPLE * SAMPLE).flat_map(|node| graph.links(node, Side::Outgoing, None));
    let used: BTreeSet<u16> =
        links.flat_map(|link| graph.keys_of_relationship(link.relationship)).map(|key| key.0).collect();
    let keys = graph.property_keys();
    used.iter().filter_map(|key| Some(keys.get(*key as usize)?.to_string())).collect()
}

/// Returns three queries, about a function of this graph if it has one.
fn examples(graph: &dyn Graph) -> Vec<ExampleQuery> {
    let calls = type_ids(graph).find(|(_, name)| *name == "CALLS").map(|(id, _)| id);
    let functions = label_ids(graph).find(|(_, name)| *name == "Function").map(|(id, _)| id);
    let nodes = functions.map(|label| graph.nodes_with_label(label)).unwrap_or_default();
    let callers = |node: &&cypher::NodeId| graph.links(**node, Side::Incoming, calls).len();
    let most = nodes.iter().max_by_key(callers).map(|node| text(graph, *node, "name"));
    let name = most.filter(|name| name.chars().all(|letter| letter.is_alphanumeric() || letter == '_'));
    let name = name.unwrap_or_else(|| "main".into());
    let example = |asks: String, query: String| ExampleQuery { asks, query };
    vec![
        example(
            format!("Who calls {name}?"),
            format!(
                "MATCH (f:Function {{name: '{name}'}})<-[c:CALLS]-(g) RETURN g.name, g.file, c.line, c.confidence"
            ),
        ),
        example(
            "Which functions are called most?".to_owned(),
            "MATCH (f:Function)<-[c:CALLS]-() RETURN f.name, f.file, f.start_line, sum(c.count) AS calls ORDER BY calls DESC LIMIT 10".to_owned(),
        ),
        example(
            "Which files depend on which, within two steps?".to_owned(),
            "MATCH (a:File)-[:IMPORTS*1..2]->(b:File) RETURN DISTINCT a.path, b.path LIMIT 50".to_owned(),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use testkit::{DenyNames, Workspace};

    use crate::tests::World;

    const FILES: [(&str, &str); 2] = [
        ("a.py", "import b\n\ndef one():\n    b.two()\n\ndef three():\n    b.two()\n"),
        ("b.py", "def two():\n    pass\n"),
    ];

    #[test]
    fn the_schema_counts_what_there_is_and_its_examples_are_queries_that_find_something() {
        let world = World::new(Workspace::new().with_files(&FILES));
        let schema = world.run("graph_schema", json!({})).unwrap();
        let of = |list: &str, name: &str, value: &str| {
            let all = schema[list].as_array().unwrap().iter();
            all.clone().find(|one| one[name] == value).unwrap_or_else(|| panic!("{value}: {schema}")).clone()
        };
        assert_eq!(of("labels", "label", "Function")["count"], 3);
        assert!(of("labels", "label", "Function")["properties"].to_string().contains("start_line"));
        let calls = of("relationships", "type", "CALLS");
        assert_eq!((&calls["count"], &calls["to"]), (&json!(2), &json!(["Function"])));
        assert!(schema["relationship_properties"].to_string().contains("confidence"), "{schema}");
        let examples = schema["examples"].as_array().unwrap();
        assert_eq!(examples.len(), 3);
        assert!(examples[0]["asks"].as_str().unwrap().contains("two"), "{schema}");
        for example in examples {
            let found = world.ask(example["query"].as_str().unwrap()).unwrap();
            assert!(!found["rows"].as_array().unwrap().is_empty(), "{example}");
        }
    }

    #[test]
    fn denied_files_are_in_no_count() {
        let count = |world: &World| world.run("graph_schema", json!({})).unwrap()["nodes"].clone();
        let open = World::new(Workspace::new().with_files(&FILES));
        let closed = World::new(
            Workspace::new().with_files(&FILES).guarded(DenyNames { read: &["a.py"], write: &[] }),
        );
        let without = World::new(Workspace::new().with_files(&FILES[1..]));
        assert_eq!(count(&closed), count(&without));
        assert_ne!(count(&open), count(&without));
    }
}
