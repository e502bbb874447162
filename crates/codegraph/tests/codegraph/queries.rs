//! Queries over the crates of this repository: what an agent would ask.

use std::path::Path;
use std::sync::OnceLock;

use cypher::MemoryGraph;

use crate::files::{Files, rows};

/// Returns the graph of three crates of this repository.
fn graph() -> &'static MemoryGraph {
    static GRAPH: OnceLock<MemoryGraph> = OnceLock::new();
    GRAPH.get_or_init(|| {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let mut files = Files::default();
        for name in ["cypher", "beneath", "roots"] {
            for (path, content) in Files::in_folder(&crates.join(name)).0 {
                if codegraph::is_indexed(&path) {
                    files.0.insert(format!("crates/{name}/{path}"), content);
                }
            }
        }
        files.graph()
    })
}

fn ask(text: &str) -> Vec<String> {
    rows(graph(), text)
}

#[test]
fn who_calls_a_function_of_another_crate() {
    let callers = ask("MATCH (f:Function {id: 'crates/cypher/src/query.rs#query'})<-[c:CALLS]-(g) \
                       RETURN g.file, g.name, c.confidence, c.via");
    let measured = "crates/cypher/examples/measure/main.rs measure exact import";
    assert!(callers.iter().any(|row| row == measured), "{callers:?}");
    assert!(callers.len() > 5, "{callers:?}");
}

#[test]
fn what_a_function_calls() {
    let callees =
        ask("MATCH (:Function {id: 'crates/cypher/src/query.rs#query'})-[:CALLS]->(g:Function) RETURN g.id");
    assert_eq!(callees, ["crates/cypher/src/query.rs#answer"]);
    let next =
        ask("MATCH (:Function {id: 'crates/cypher/src/query.rs#answer'})-[:CALLS]->(g:Function) RETURN g.id");
    assert!(next.contains(&"crates/cypher/src/parse.rs#parse".to_owned()), "{next:?}");
    assert!(next.contains(&"crates/cypher/src/compile.rs#compile".to_owned()), "{next:?}");
}

#[test]
fn methods_of_a_type_are_its_definitions() {
    let methods =
        ask("MATCH (:Struct {name: 'GraphBuilder'})-[:DEFINES]->(m:Method) RETURN m.name, m.visibility");
    for method in
        ["add_node public", "add_relationship public", "build public", "cell private", "text private"]
    {
        assert!(methods.contains(&method.to_owned()), "{method}: {methods:?}");
    }
}

#[test]
fn a_trait_is_implemented_by_types() {
    let types = ask("MATCH (t)-[:IMPLEMENTS]->(:Trait {name: 'Graph'}) RETURN t.name");
    assert!(types.contains(&"MemoryGraph".to_owned()), "{types:?}");
}

#[test]
fn a_file_imports_files_and_things_outside() {
    let imports = ask(
        "MATCH (:File {path: 'crates/cypher/src/query.rs'})-[i:IMPORTS]->(f:File) WHERE i.resolved RETURN f.path",
    );
    assert!(imports.contains(&"crates/cypher/src/error.rs".to_owned()), "{imports:?}");
    let outside = ask(
        "MATCH (:File {path: 'crates/cypher/src/query.rs'})-[:IMPORTS]->(e:External) RETURN e.package, e.symbol",
    );
    assert!(outside.contains(&"std time::Duration".to_owned()), "{outside:?}");
}

#[test]
fn tests_name_what_they_test() {
    let tests = ask(
        "MATCH (t:Function)-[:TESTS]->(:Function {name: 'query', file: 'crates/cypher/src/query.rs'}) RETURN t.name",
    );
    assert!(tests.contains(&"a_cancelled_query_ends".to_owned()), "{tests:?}");
}

#[test]
fn the_shortest_way_from_one_function_to_another() {
    let length = ask("MATCH (a:Function {name: 'query', file: 'crates/cypher/src/query.rs'}), \
                      (b:Function {id: 'crates/cypher/src/parse.rs#parse'}) \
                      MATCH p = shortestPath((a)-[:CALLS*..12]->(b)) RETURN length(p)");
    assert_eq!(length, ["2"]);
}

#[test]
fn a_function_is_where_the_file_says() {
    let place =
        ask("MATCH (f:Function {id: 'crates/cypher/src/query.rs#query'}) RETURN f.start_line, f.end_line");
    let text = include_str!("../../../cypher/src/query.rs");
    let first = text.lines().position(|line| line.starts_with("pub fn query(")).unwrap() + 1;
    let length = text.lines().skip(first).position(|line| line == "}").unwrap() + 1;
    assert_eq!(place, [format!("{first} {}", first + length)]);
}

#[test]
fn the_most_called_functions_are_counted() {
    let most =
        ask("MATCH (f:Function)<-[c:CALLS]-() WITH f, sum(c.count) AS calls ORDER BY calls DESC LIMIT 5 \
                    RETURN f.name, calls > 10");
    assert_eq!(most.len(), 5);
    assert!(most.iter().all(|row| row.ends_with("true")), "{most:?}");
}

#[test]
fn callers_within_three_steps_are_the_impact_of_a_change() {
    let near = ask(
        "MATCH (:Function {id: 'crates/cypher/src/parse.rs#parse'})<-[:CALLS*1..3]-(f) RETURN DISTINCT f.id",
    );
    assert!(near.contains(&"crates/cypher/src/query.rs#query".to_owned()), "{near:?}");
    assert!(near.len() > 10, "{near:?}");
}

#[test]
fn fields_have_types() {
    let fields = ask(
        "MATCH (:Struct {name: 'MemoryGraph'})-[:DEFINES]->(f:Field)-[:HAS_TYPE]->(t) RETURN f.name, t.name",
    );
    assert!(fields.contains(&"outgoing Adjacency".to_owned()), "{fields:?}");
}

#[test]
fn calls_are_exact_inferred_or_apart() {
    let kinds = ask("MATCH ()-[c:CALLS]->() RETURN DISTINCT c.confidence");
    assert_eq!(kinds, ["exact", "inferred"]);
    assert_eq!(ask("MATCH ()-[c:MAY_CALL]->() RETURN DISTINCT c.confidence"), ["name_only"]);
}

#[test]
fn every_definition_has_one_place_that_defines_it() {
    let lost = ask(
        "MATCH (n) WHERE (n:Function OR n:Class OR n:Field OR n:Variable) AND NOT (n)<-[:DEFINES]-() RETURN n.id",
    );
    assert_eq!(lost, Vec::<String>::new());
    let twice = ask("MATCH (n)<-[:DEFINES]-(a) WITH n, count(*) AS times WHERE times > 1 RETURN n.id, times");
    assert_eq!(twice, Vec::<String>::new());
}
