//! The plan of a pattern does not depend on how the pattern is written.

use cypher::MemoryGraph;

use crate::small::{graph, rows, run};

/// Returns the lines of the plan of a query.
fn plan(graph: &MemoryGraph, text: &str) -> Vec<String> {
    let answer = run(graph, &format!("EXPLAIN {text}")).unwrap();
    answer.rows.iter().map(|row| row[0].to_string()).collect()
}

#[test]
fn both_directions_of_writing_give_one_answer_and_one_start() {
    let graph = graph();
    for (one, two) in [
        ("(g:Function {id: 1})-[:CALLS]->(f:Function)", "(f:Function)<-[:CALLS]-(g:Function {id: 1})"),
        ("(f:Function)-[:CALLS]->(g {name: 'f7'})", "(g {name: 'f7'})<-[:CALLS]-(f:Function)"),
        ("(f:Function)-[:CALLS]->(g:Function)", "(g:Function)<-[:CALLS]-(f:Function)"),
        ("(f)-[:CALLS]->(g)", "(g)<-[:CALLS]-(f)"),
        ("(f)-[:CALLS]-(g {id: 3})", "(g {id: 3})-[:CALLS]-(f)"),
        (
            "(c:Class)-[:DEFINES]->(f)-[:CALLS]->(g {id: 1})",
            "(g {id: 1})<-[:CALLS]-(f)<-[:DEFINES]-(c:Class)",
        ),
        ("(f {id: 1})-[:CALLS*1..3]->(g)", "(g)<-[:CALLS*1..3]-(f {id: 1})"),
        ("(f)-[:CALLS]->(g), (g)-[:CALLS]->(h {id: 9})", "(h {id: 9})<-[:CALLS]-(g), (g)<-[:CALLS]-(f)"),
    ] {
        let ask = |pattern: &str| format!("MATCH {pattern} RETURN f.name, g.name");
        assert_eq!(rows(&graph, &ask(one)), rows(&graph, &ask(two)), "{one}");
        let (first, second) = (plan(&graph, &ask(one)), plan(&graph, &ask(two)));
        assert_eq!(first[0], second[0], "{one}\n{first:#?}\n{second:#?}");
    }
}

#[test]
fn a_pattern_starts_at_its_most_selective_end() {
    let graph = graph();
    let start = |text: &str| plan(&graph, text).remove(0);
    assert_eq!(
        start("MATCH (f:Function)<-[:CALLS]-(g:Function {id: 1}) RETURN f"),
        "'look Function id up as g'"
    );
    assert_eq!(start("MATCH (f)-[:CALLS]->(g) WHERE g.name = 'f1' RETURN f"), "'look name up as g'");
    assert_eq!(
        start("MATCH (f)-[:CALLS]->(g) WHERE 'f1' = g.name AND g:Method RETURN f"),
        "'look Method name up as g'"
    );
    assert_eq!(start("MATCH (f)-[:DEFINES]->(g:File) RETURN f"), "'scan File as g'");
    assert_eq!(
        start("MATCH (f:Function)-[:CALLS]->(g) WHERE id(g) = 4 RETURN f"),
        "'take the node by its id as g'"
    );
    assert_eq!(start("MATCH (f:Function) RETURN f"), "'scan Function as f'");
    assert_eq!(start("MATCH (f) RETURN f"), "'scan all nodes as f'");
    let unwound = plan(&graph, "UNWIND [1, 2] AS id MATCH (f:Function {id: id}) RETURN f");
    assert_eq!(unwound[1], "'look Function id up as f'");
}

#[test]
fn a_plan_shows_its_steps() {
    let text =
        "MATCH p = (c:Class)-[:DEFINES]->(f)-[:CALLS*1..2]->(g) WHERE g.id > 3 OPTIONAL MATCH (g)-->(h:File)
                WITH DISTINCT g.name AS name, h ORDER BY name LIMIT 3 RETURN name, count(*)";
    let expected = [
        "'scan Class as c'",
        "'expand (c)-[:DEFINES]->(f)'",
        "'expand (f)-[:CALLS*1..2]->(g)'",
        "'filter'",
        "'build the path p'",
        "'optionally'",
        "'  start at g'",
        "'  expand (g)-[]->(h)'",
        "'  check the labels of h'",
        "'compute name'",
        "'distinct'",
        "'sort by 1 keys, limited'",
        "'aggregate 1 values by 1 keys'",
        "'return name, count(*)'",
    ];
    assert_eq!(plan(&graph(), text), expected);
}
