//! The micro-benchmark of `PyCG`: the edges of small programs of Python, compared one by one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::files::{Files, rows};

/// Lowest share of the edges found that are right.
const PRECISION: f64 = 0.95;
/// Lowest share of the right edges that are found.
const RECALL: f64 = 0.80;

type Edges = BTreeSet<(String, String)>;

fn snippets() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/pycg");
    let mut found = Vec::new();
    for category in std::fs::read_dir(folder).unwrap() {
        let category = category.unwrap().path();
        if category.is_dir() {
            found.extend(std::fs::read_dir(category).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
    found.sort();
    found
}

/// Returns the edges that a snippet has.
fn expected(snippet: &Path) -> Edges {
    let text = std::fs::read_to_string(snippet.join("callgraph.json")).unwrap();
    let callees: BTreeMap<String, Vec<String>> = serde_json::from_str(&text).unwrap();
    let pairs = callees
        .into_iter()
        .flat_map(|(caller, callees)| callees.into_iter().map(move |callee| (caller.clone(), callee)));
    pairs.collect()
}

/// Returns the edges that are found in a snippet, in the names of the benchmark.
fn found(snippet: &Path) -> Edges {
    let graph = Files::in_folder(snippet).graph();
    let text = "MATCH (a)-[:CALLS]->(b) RETURN a.id, b.id";
    let pairs = rows(&graph, text).into_iter().map(|row| {
        let (caller, callee) = row.split_once(' ').unwrap();
        (name(caller), name(callee))
    });
    pairs.collect()
}

/// Turns a key of the graph into a name of the benchmark.
fn name(key: &str) -> String {
    if let Some(path) = key.strip_prefix("external:python:") {
        return path.strip_prefix("builtins.").map_or(path.to_owned(), |name| format!("<builtin>.{name}"));
    }
    let (path, symbol) = key.split_once('#').unwrap();
    let module = path.strip_suffix(".py").unwrap();
    let module = module.strip_suffix("/__init__").unwrap_or(module).replace('/', ".");
    let symbol = symbol.split('~').next().unwrap();
    if symbol.is_empty() { module } else { format!("{module}.{symbol}") }
}

#[test]
fn calls_of_the_pycg_micro_benchmark_are_found() {
    let (mut right, mut wrong, mut missing) = (0.0_f64, 0.0_f64, 0.0_f64);
    let snippets = snippets();
    assert_eq!(snippets.len(), 119);
    for snippet in snippets {
        let (expected, found) = (expected(&snippet), found(&snippet));
        let title: Vec<_> = snippet.iter().rev().take(2).map(|part| part.to_string_lossy()).collect();
        for (caller, callee) in found.difference(&expected) {
            println!("{}/{}: wrong   {caller} -> {callee}", title[1], title[0]);
            wrong += 1.0;
        }
        for (caller, callee) in expected.difference(&found) {
            println!("{}/{}: missing {caller} -> {callee}", title[1], title[0]);
            missing += 1.0;
        }
        for _ in found.intersection(&expected) {
            right += 1.0;
        }
    }
    let (precision, recall) = (right / (right + wrong), right / (right + missing));
    println!("precision {precision:.3}, recall {recall:.3} of {} edges", right + missing);
    assert!(precision >= PRECISION && recall >= RECALL, "precision {precision:.3}, recall {recall:.3}");
}
