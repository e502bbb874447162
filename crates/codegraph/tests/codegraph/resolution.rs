//! Call edges of small programs in twelve languages, annotated by hand by others.

use std::collections::BTreeSet;
use std::path::Path;

use crate::files::{Files, rows};

/// Languages with the lowest precision and recall that are accepted.
const FLOORS: [(&str, f64, f64); 12] = [
    ("bash", 1.0, 1.0),
    ("c", 1.0, 1.0),
    ("cpp", 1.0, 0.9),
    ("csharp", 1.0, 0.9),
    ("go", 1.0, 0.9),
    ("java", 1.0, 0.9),
    ("javascript", 0.95, 0.85),
    ("php", 1.0, 0.85),
    ("python", 1.0, 0.85),
    ("ruby", 1.0, 0.85),
    ("rust", 1.0, 0.85),
    ("typescript", 0.95, 0.85),
];

type Edges = BTreeSet<(String, String)>;

/// Returns the edges of a program between its own definitions.
fn expected(folder: &Path) -> Edges {
    let text = std::fs::read_to_string(folder.join("expected-edges.json")).unwrap();
    let parsed: serde_json::Value = serde_json::from_str(&text).unwrap();
    let end = |edge: &serde_json::Value, side: &str| {
        let (name, file) = (&edge[side]["name"], &edge[side]["file"]);
        format!("{}#{}", file.as_str().unwrap(), name.as_str().unwrap())
    };
    parsed["edges"].as_array().unwrap().iter().map(|edge| (end(edge, "source"), end(edge, "target"))).collect()
}

/// Returns the edges that are found. The creation of an instance counts as an edge to the class and to its
/// constructor, because the annotations have either.
fn found(folder: &Path, expected: &Edges) -> Edges {
    let graph = Files::in_folder(folder).graph();
    let mut edges = Edges::new();
    let split = |row: &String| row.split_once(' ').map(|(from, to)| (from.to_owned(), to.to_owned())).unwrap();
    edges.extend(rows(&graph, "MATCH (a)-[:CALLS]->(b) WHERE NOT b:External RETURN a.id, b.id").iter().map(split));
    for edge in rows(&graph, "MATCH (a)-[:INSTANTIATES]->(b) RETURN a.id, b.id").iter().map(split) {
        if expected.contains(&edge) {
            edges.insert(edge);
        }
    }
    edges
}

/// Returns a key as the annotations write it: the top level of a file has the name of no function.
fn comparable(edges: Edges, known: &Edges) -> Edges {
    let constructor = |key: &String| {
        let short = ["constructor", "__init__", "initialize", "__construct"]
            .iter()
            .find_map(|name| key.strip_suffix(&format!(".{name}")));
        let by_class = key.rsplit_once('.').filter(|(class, name)| class.ends_with(name)).map(|(class, _)| class);
        short.or(by_class).map(str::to_owned)
    };
    let mut compared = Edges::new();
    for (from, to) in edges {
        let class = constructor(&to).filter(|class| known.contains(&(from.clone(), class.clone())));
        compared.insert((from, class.unwrap_or(to)));
    }
    compared
}

#[test]
fn calls_of_the_annotated_programs_are_found() {
    let mut low = Vec::new();
    for (language, least_precision, least_recall) in FLOORS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/resolution").join(language);
        let expected = expected(&folder);
        let found = comparable(found(&folder, &expected), &expected);
        let right = found.intersection(&expected).count();
        for (from, to) in found.difference(&expected) {
            println!("{language}: wrong   {from} -> {to}");
        }
        for (from, to) in expected.difference(&found) {
            println!("{language}: missing {from} -> {to}");
        }
        let share = |whole: usize| f64::from(u32::try_from(right).unwrap()) / f64::from(u32::try_from(whole).unwrap());
        let (precision, recall) = (share(found.len()), share(expected.len()));
        println!("{language}: precision {precision:.3}, recall {recall:.3} of {} edges", expected.len());
        if precision < least_precision || recall < least_recall {
            low.push(format!("{language}: {precision:.3} {recall:.3}"));
        }
    }
    assert!(low.is_empty(), "{low:?}");
}
