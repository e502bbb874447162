//! Call edges of small programs in twelve languages, annotated by hand by others.

use std::collections::BTreeSet;
use std::path::Path;

use crate::files::{Files, rows};

/// Languages with the lowest precision and recall that are accepted.
const FLOORS: [(&str, f64, f64); 12] = [
    ("bash", 1.0, 1.0),
    ("c", 1.0, 1.0),
    ("cpp", 1.0, 1.0),
    ("csharp", 1.0, 1.0),
    ("go", 1.0, 1.0),
    ("java", 1.0, 1.0),
    ("javascript", 0.97, 0.85),
    ("php", 1.0, 1.0),
    ("python", 1.0, 1.0),
    ("ruby", 1.0, 1.0),
    ("rust", 1.0, 1.0),
    ("typescript", 1.0, 0.9),
];

type Edges = BTreeSet<(String, String)>;

/// Returns the edges of a program between its own definitions.
fn expected(folder: &Path) -> Edges {
    let text = std::fs::read_to_string(folder.join("expected-edges.json")).unwrap();
    let parsed: serde_json::Value = serde_json::from_str(&text).unwrap();
    let end = |edge: &serde_json::Value, side: &str| {
        let (name, file) = (&edge[side]["name"], &edge[side]["file"]);
        format!("{}#{}", file.as_str().unwrap(), name.as_str().unwrap().replace("::", "."))
    };
    parsed["edges"]
        .as_array()
        .unwrap()
        .iter()
        .map(|edge| (end(edge, "source"), end(edge, "target")))
        .collect()
}

/// Returns the edges that are found, as far as the annotations have such edges: they leave out the calls of top
/// levels, and have the creation of an instance as an edge to the class, to its constructor, or to both.
fn found(folder: &Path, expected: &Edges) -> Edges {
    let mut files = Files::in_folder(folder);
    files.0.remove("driver.mjs");
    let graph = files.graph();
    let split =
        |row: &String| row.split_once(' ').map(|(from, to)| (from.to_owned(), to.to_owned())).unwrap();
    let calls =
        rows(&graph, "MATCH (a)-[:CALLS]->(b) WHERE NOT b:External AND NOT a:Module RETURN a.id, b.id");
    let creations = rows(&graph, "MATCH (a)-[:INSTANTIATES]->(b) RETURN a.id, b.id");
    let creations: Edges = creations.iter().map(split).collect();
    let mut edges: Edges = calls.iter().map(split).collect();
    edges.retain(|edge @ (from, to)| {
        let class = to.rsplit_once('.').map_or("", |(class, _)| class);
        let creation = (from.clone(), class.to_owned());
        expected.contains(edge) || !(creations.contains(&creation) && expected.contains(&creation))
    });
    edges.extend(creations.into_iter().filter(|edge| expected.contains(edge)));
    edges
}

#[test]
fn calls_of_the_annotated_programs_are_found() {
    let mut low = Vec::new();
    for (language, least_precision, least_recall) in FLOORS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/resolution").join(language);
        let expected = expected(&folder);
        let found = found(&folder, &expected);
        let right = found.intersection(&expected).count();
        for (from, to) in found.difference(&expected) {
            println!("{language}: wrong   {from} -> {to}");
        }
        for (from, to) in expected.difference(&found) {
            println!("{language}: missing {from} -> {to}");
        }
        let share = |whole: usize| {
            f64::from(u32::try_from(right).unwrap()) / f64::from(u32::try_from(whole).unwrap())
        };
        let (precision, recall) = (share(found.len()), share(expected.len()));
        println!("{language}: precision {precision:.3}, recall {recall:.3} of {} edges", expected.len());
        if precision < least_precision || recall < least_recall {
            low.push(format!("{language}: {precision:.3} {recall:.3}"));
        }
    }
    assert!(low.is_empty(), "{low:?}");
}
