//! Parts of the language that the test suite of openCypher leaves out: shortest paths, subqueries that count,
//! map projections, regular expressions, procedures of the schema, and arithmetic at its limits.

use cypher::{Detail, Field, FieldType, Graph, Options, Parameters, Procedures, Signature, Value, query};

use crate::small::{graph, rows, run};

/// Returns the single value of an expression.
fn value(text: &str) -> String {
    rows(&graph(), &format!("RETURN {text}")).remove(0)
}

#[test]
fn a_shortest_path_is_found_from_both_ends_and_between_bounds() {
    let graph = graph();
    let ends = "(a:Function {id: 0}), (b:Function {id: 116})";
    // 116 is two steps of 50, two of 7 and two of 1.
    for path in ["(a)-[:CALLS*]->(b)", "(b)<-[:CALLS*]-(a)", "(a)-[:CALLS*..6]->(b)"] {
        let text = format!(
            "MATCH {ends} MATCH p = shortestPath({path}) RETURN length(p), [n IN nodes(p) | n.id][0] IN [0, 116]"
        );
        assert_eq!(rows(&graph, &text), ["6 true"], "{path}");
    }
    assert_eq!(
        rows(&graph, &format!("MATCH {ends} MATCH p = shortestPath((a)-[:CALLS*..5]->(b)) RETURN p")).len(),
        0
    );
    assert_eq!(
        rows(&graph, &format!("MATCH {ends}, p = allShortestPaths((a)-[:CALLS*]->(b)) RETURN count(p)")),
        ["90"]
    );
    assert_eq!(
        rows(
            &graph,
            &format!(
                "MATCH {ends}, p = allShortestPaths((b)<-[:CALLS*]-(a)) RETURN count(DISTINCT nodes(p))"
            )
        ),
        ["90"]
    );
    assert_eq!(rows(&graph, &format!("MATCH {ends} RETURN length(shortestPath((a)-[:CALLS*]->(b)))")), ["6"]);
    let all =
        "MATCH p = shortestPath((a:Function {id: 0})-[:CALLS*..2]->(b)) RETURN b.id, length(p) ORDER BY b.id";
    assert_eq!(rows(&graph, all).len(), 9);
    let order = "MATCH p = shortestPath((b:Function {id: 8})<-[:CALLS*]-(a:Function {id: 0})) RETURN [n IN nodes(p) | n.id]";
    assert_eq!(rows(&graph, order).len(), 1);
    assert!(rows(&graph, order)[0].starts_with("[8, "), "a path runs as it is written");
    assert_eq!(
        rows(&graph, "MATCH (a {id: 1}) MATCH p = shortestPath((a)-[*0..]->(a)) RETURN length(p)"),
        ["0"]
    );
    let error = run(&graph, "MATCH p = shortestPath((a)-[*2..]->(b)) RETURN p").unwrap_err();
    assert_eq!(error.detail, Detail::InvalidRelationshipPattern);
    let filtered = "MATCH p = shortestPath((:Function {id: 0})-[:CALLS* {line: 0}]->(:Function {id: 7})) RETURN length(p)";
    assert_eq!(rows(&graph, filtered), ["1"]);
}

#[test]
fn subqueries_exist_and_count() {
    let graph = graph();
    assert_eq!(
        rows(&graph, "MATCH (c:Class) WHERE EXISTS { (c)<-[:DEFINES]-(:File) } RETURN count(c)"),
        ["10"]
    );
    assert_eq!(rows(&graph, "MATCH (f:Function {id: 1}) RETURN COUNT { (f)-[:CALLS]->() }"), ["3"]);
    assert_eq!(
        rows(&graph, "MATCH (f:Function {id: 1}) RETURN COUNT { MATCH (f)-[:CALLS]->(g) WHERE g.id < 10 }"),
        ["2"]
    );
    assert_eq!(rows(&graph, "MATCH (f:Function) WHERE NOT (f)<-[:DEFINES]-() RETURN count(f)"), ["190"]);
    assert_eq!(
        rows(
            &graph,
            "MATCH (f:Function {id: 5}) WHERE EXISTS { MATCH (f)-->(g) WITH count(g) AS c WHERE c = 3 } RETURN f.id"
        ),
        ["5"]
    );
}

#[test]
fn ends_of_long_paths_are_found_once_each_where_repetition_does_not_matter() {
    let graph = graph();
    let by_paths = rows(&graph, "MATCH (a:Function {id: 0})-[r:CALLS*1..4]->(b) RETURN DISTINCT b.id");
    let by_ends = rows(&graph, "MATCH (a:Function {id: 0})-[:CALLS*1..4]->(b) RETURN DISTINCT b.id");
    assert_eq!(by_paths, by_ends);
    for (with_list, without) in [
        ("MATCH (a)-[r:CALLS*0..3]->(b {id: 20})", "MATCH (a)-[:CALLS*0..3]->(b {id: 20})"),
        ("MATCH (a {id: 0})-[r:CALLS*]->(b {id: 3})", "MATCH (a {id: 0})-[:CALLS*1..3]->(b {id: 3})"),
    ] {
        let ask = |pattern: &str| {
            rows(&graph, &format!("{} RETURN DISTINCT a.id, b.id", pattern.replace("*]", "*1..3]")))
        };
        assert_eq!(ask(with_list), ask(without));
    }
    assert_eq!(
        rows(&graph, "MATCH (a {id: 0})-[:CALLS*4..4]->(b) RETURN count(b)"),
        rows(&graph, "MATCH (a {id: 0})-[r:CALLS*4..4]->(b) RETURN count(r)")
    );
}

#[test]
fn maps_are_projected_and_texts_match_expressions() {
    let graph = graph();
    assert_eq!(
        rows(&graph, "MATCH (f:Function {id: 1}) RETURN f {.name, twice: f.id * 2}"),
        ["{name: 'f1', twice: 2}"]
    );
    assert_eq!(
        rows(&graph, "MATCH (f:Function {id: 1}) WITH f, 5 AS x RETURN f {.*, x}"),
        ["{id: 1, name: 'f1', x: 5}"]
    );
    assert_eq!(rows(&graph, "MATCH (f:Function) WHERE f.name =~ 'f1[0-9]' RETURN count(f)"), ["10"]);
    assert_eq!(rows(&graph, "WITH '(' AS bad RETURN 'a' =~ 'A|a'"), ["true"]);
    assert_eq!(run(&graph, "RETURN 'a' =~ '('").unwrap_err().detail, Detail::InvalidRegularExpression);
    assert_eq!(rows(&graph, "MATCH (n:Class|File) RETURN count(n)"), ["11"]);
    assert_eq!(rows(&graph, "MATCH (n:Function&Method) RETURN count(n)"), ["20"]);
}

#[test]
fn the_procedures_of_the_schema_answer() {
    let graph = graph();
    assert_eq!(rows(&graph, "CALL db.labels()"), ["'Class'", "'File'", "'Function'", "'Method'"]);
    assert_eq!(
        rows(
            &graph,
            "CALL db.relationshipTypes() YIELD relationshipType AS t WHERE t STARTS WITH 'C' RETURN t"
        ),
        ["'CALLS'"]
    );
    assert_eq!(rows(&graph, "CALL db.propertyKeys() YIELD propertyKey RETURN count(*)"), ["4"]);
    assert_eq!(run(&graph, "CALL dbms.shutdown()").unwrap_err().detail, Detail::ProcedureNotFound);
}

/// A procedure without outputs, and one that repeats its argument.
struct OwnProcedures;

impl Procedures for OwnProcedures {
    fn signature(&self, name: &str) -> Option<Signature> {
        let field = |name: &str| Field { name: name.into(), field_type: FieldType::Integer };
        match name {
            "own.nothing" => Some(Signature::default()),
            "own.twice" => Some(Signature { arguments: vec![field("of")], outputs: vec![field("twice")] }),
            _ => None,
        }
    }

    fn names(&self) -> Vec<String> {
        vec!["own.nothing".to_owned(), "own.twice".to_owned()]
    }

    fn call(&self, _: &str, arguments: &[Value], _: &dyn Graph) -> cypher::Result<Vec<Vec<Value>>> {
        Ok(arguments.iter().flat_map(|value| [vec![value.clone()], vec![value.clone()]]).collect())
    }
}

#[test]
fn procedures_of_a_caller_answer_and_one_without_outputs_passes_rows_on() {
    let options = Options { procedures: &OwnProcedures, ..Options::default() };
    let ask =
        |text: &str| query(&graph(), text, &Parameters::new(), &options).map(|answer| answer.rows.len());
    assert_eq!(ask("UNWIND [1, 2] AS x CALL own.nothing() RETURN x"), Ok(2));
    assert_eq!(ask("CALL own.nothing()"), Ok(0));
    assert_eq!(ask("UNWIND [1, 2] AS x CALL own.twice(x) YIELD twice RETURN x, twice"), Ok(4));
    assert_eq!(ask("CALL own.twice('a')").unwrap_err().detail, Detail::InvalidArgumentType);
    assert_eq!(ask("CALL own.twice()").unwrap_err().detail, Detail::InvalidNumberOfArguments);
    assert_eq!(ask("CALL db.labels()").unwrap_err().detail, Detail::ProcedureNotFound);
}

#[test]
fn arithmetic_ends_at_its_limits() {
    for (text, detail) in [
        ("9223372036854775807 + 1", Detail::IntegerOverflow),
        ("-9223372036854775808 - 1", Detail::IntegerOverflow),
        ("9223372036854775807 * 2", Detail::IntegerOverflow),
        ("-(-9223372036854775808)", Detail::IntegerOverflow),
        ("abs(-9223372036854775808)", Detail::IntegerOverflow),
        ("1 / 0", Detail::DivisionByZero),
        ("1 % 0", Detail::DivisionByZero),
        ("substring('abc', -1)", Detail::NumberOutOfRange),
    ] {
        let error = run(&graph(), &format!("WITH 0 AS zero RETURN {text}")).expect_err(text);
        assert_eq!(error.detail, detail, "{text}");
    }
    for (text, wanted) in [
        ("1.0 / 0", "Infinity"),
        ("0.0 / 0", "NaN"),
        ("-9223372036854775808 % -1", "0"),
        ("7 / 2", "3"),
        ("-7 / 2", "-3"),
        ("-7 % 3", "-1"),
        ("2 ^ 3 ^ 2", "64.0"),
        ("0x1F + 0o17", "46"),
        ("1e3", "1000.0"),
        ("toString(1e20)", "'1e20'"),
        ("9007199254740993 = 9007199254740992.0", "false"),
        ("toInteger('12.9')", "12"),
        ("toInteger('nope')", "null"),
        ("round(2.5)", "3.0"),
        ("round(-1.5)", "-1.0"),
        ("round(1.2345, 2)", "1.23"),
        ("[1, 2, 3][-1]", "3"),
        ("[1, 2, 3][1..]", "[2, 3]"),
        ("[1, 2, 3][-2..-1]", "[2]"),
        ("'a' + 1 + 2.0", "'a12.0'"),
        ("[1] + 2 + [3]", "[1, 2, 3]"),
        ("split('a,b', ',')", "['a', 'b']"),
        ("size('äö')", "2"),
        ("left('hello', 2) + right('hello', 1)", "'heo'"),
        ("percentileDisc(3, 0.5)", "3"),
        ("stDev(1)", "0.0"),
        ("null AND false", "false"),
        ("null OR true", "true"),
        ("null XOR true", "null"),
        ("3 IN [1, null]", "null"),
        ("[1, null] = [1, null]", "null"),
        ("[1, null] = [2, null]", "false"),
        ("1 < 'a'", "null"),
        ("reduce(sum = 0, x IN [1, 2, 3] | sum + x)", "6"),
        ("'\\u00e4'", "'ä'"),
    ] {
        assert_eq!(value(text), wanted, "{text}");
    }
}

#[test]
fn parts_of_a_row_survive_barriers() {
    let graph = graph();
    assert_eq!(
        rows(
            &graph,
            "MATCH (f:Function)<-[:CALLS]-(g) WITH f, count(g) AS callers ORDER BY callers DESC, f.id LIMIT 2 MATCH (f)-[:CALLS]->(h) RETURN f.id, callers, count(h)"
        ),
        ["0 3 3", "1 3 3"]
    );
    assert_eq!(
        rows(
            &graph,
            "MATCH (f:Function) WITH f.id % 2 AS odd, collect(f.id) AS ids UNWIND ids AS id RETURN odd, count(id) ORDER BY odd"
        ),
        ["0 100", "1 100"]
    );
    assert_eq!(
        rows(
            &graph,
            "UNWIND [1, 2, 2, null] AS x RETURN count(x), count(DISTINCT x), sum(x), avg(x), min(x), max(x), collect(x)"
        ),
        ["3 2 5 1.6666666666666667 1 2 [1, 2, 2]"]
    );
    assert_eq!(rows(&graph, "RETURN 1 AS x UNION RETURN 1 AS x"), ["1"]);
    assert_eq!(rows(&graph, "RETURN 1 AS x UNION ALL RETURN 1 AS x"), ["1", "1"]);
    assert_eq!(rows(&graph, "MATCH (f:Function) RETURN f.id SKIP 198 LIMIT 5").len(), 2);
}

#[test]
fn an_average_is_the_sum_by_the_count_also_if_no_float_holds_the_sum() {
    let graph = graph();
    assert_eq!(
        rows(&graph, "UNWIND [1, 0, 0] AS x RETURN avg(x) = 1.0 / 3, avg(x)"),
        ["true 0.3333333333333333"]
    );
    assert_eq!(rows(&graph, "UNWIND [1.7e308, 1.7e308] AS x RETURN avg(x)"), ["1.7e308"]);
}

#[test]
fn a_sign_after_a_parenthesis_is_arithmetic_unless_a_node_follows() {
    let graph = graph();
    let given = "WITH 7 AS a, 2 AS b, {k: 3} AS m, [1, 2] AS l";
    for (text, wanted) in [
        ("(a) - -(m.k)", "10"),
        ("-(a) - -(m.k)", "-4"),
        ("(a)--(m.k)", "10"),
        ("(a) - -(b + 1)", "10"),
        ("(a) - -b", "9"),
        ("(a)--1", "8"),
        ("(a) - - -(b + 0)", "5"),
        ("(a) - -size(l)", "9"),
        ("(a) - [1, 2][0]", "6"),
        ("(a) - [b][0]", "5"),
        ("(a) - [x IN l | x * 3][1]", "1"),
        ("(a) < - -(m.k)", "false"),
        ("(a)<--1", "false"),
        ("({k: 4}.k) - -(m.k)", "7"),
        ("(m {.k}.k) - -(m.k)", "6"),
        ("(null) - -(m.k)", "null"),
        ("[(a) - -(m.k), 1]", "[10, 1]"),
        ("head([(a) - -(m.k)])", "10"),
    ] {
        assert_eq!(rows(&graph, &format!("{given} RETURN {text}")), [wanted], "{text}");
    }
    // Both readings are open where a node follows, and the grammar names the pattern first.
    for text in
        ["(a)--(b)", "(a) - - (b)", "(a)<-[:CALLS]-(b)", "(a)-[]->({id: 7})", "(a)<--(:Function {id: 7})"]
    {
        let query = format!(
            "MATCH (a:Function {{id: 0}}), (b:Function {{id: 1}}) RETURN EXISTS {{ MATCH {text} }} = exists({text})"
        );
        assert_eq!(rows(&graph, &query), ["true"], "{text}");
    }
    let error = run(&graph, &format!("{given} RETURN exists((a)-->b)")).unwrap_err();
    assert_eq!(error.detail, Detail::UnexpectedSyntax, "no expression has such an arrow");
}
