//! Queries that are malformed, huge, or meant to exhaust time and memory: each ends with a clear error or a
//! bounded answer.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use cypher::{Detail, ErrorClass, Graph, Limits, Options, Parameters, Value, query};

use crate::small::{graph, rows, run};

fn detail(text: &str) -> Detail {
    run(&graph(), text).expect_err(text).detail
}

/// Runs a query with little memory, and enough time to use it up.
fn limited(text: &str) -> Result<cypher::Answer, cypher::Error> {
    let limits = Limits { time: Duration::from_mins(1), memory: 8 << 20, ..Limits::default() };
    query(&graph(), text, &Parameters::new(), &Options { limits, ..Options::default() })
}

/// Runs a query with little time.
fn hurried(text: &str) -> Result<cypher::Answer, cypher::Error> {
    let limits = Limits { time: Duration::from_millis(100), ..Limits::default() };
    query(&graph(), text, &Parameters::new(), &Options { limits, ..Options::default() })
}

#[test]
fn unclosed_texts_names_comments_and_brackets_are_refused_at_their_place() {
    for text in [
        "RETURN 'abc",
        "RETURN \"abc",
        "RETURN `abc",
        "RETURN 1 /* abc",
        "RETURN (1",
        "RETURN [1",
        "RETURN {a: 1",
    ] {
        let error = run(&graph(), text).expect_err(text);
        assert_eq!(
            (error.class, error.detail),
            (ErrorClass::SyntaxError, Detail::UnexpectedSyntax),
            "{text}"
        );
        assert!(error.position.is_some(), "{text}");
    }
    let error = run(&graph(), "MATCH (n)\nRETURN n.näme +").unwrap_err();
    let place = error.position.unwrap();
    assert_eq!((place.line, place.column), (2, 16));
}

#[test]
fn a_query_of_a_megabyte_is_read_and_a_longer_one_is_refused() {
    let list = format!("RETURN size([{}1])", "1,".repeat(500_000));
    assert_eq!(rows(&graph(), &list), ["500001"]);
    assert_eq!(detail(&format!("RETURN '{}'", "a".repeat(1 << 20))), Detail::QueryTooLong);
}

#[test]
fn nesting_of_ten_thousand_is_refused_in_every_construct() {
    let deep = 10_000;
    let texts = [
        format!("RETURN {}1{}", "(".repeat(deep), ")".repeat(deep)),
        format!("RETURN {}1{}", "[".repeat(deep), "]".repeat(deep)),
        format!("RETURN {}1{}", "{a: ".repeat(deep), "}".repeat(deep)),
        format!("RETURN {}1", "- (".repeat(deep)),
        format!("RETURN {}true", "NOT (".repeat(deep)),
        format!("RETURN {}1", "CASE WHEN true THEN ".repeat(deep)),
        format!("RETURN {}1", "abs(".repeat(deep)),
        format!("RETURN {}1", "[x IN ".repeat(deep)),
        format!("RETURN a{}", ".b".repeat(deep)),
        format!("RETURN a{}", "[0]".repeat(deep)),
        format!("RETURN {}", "EXISTS { MATCH (n) WHERE ".repeat(deep)),
        format!("MATCH (n) WHERE {}", "({a: ".repeat(deep)),
    ];
    for text in texts {
        assert_eq!(detail(&text), Detail::NestingTooDeep, "{}", &text[..40]);
    }
}

#[test]
fn nesting_within_the_limit_runs_on_a_small_stack() {
    let graph = graph();
    let deep = 75;
    let nested = move |open: &str, inner: &str, close: &str| {
        format!("{}{inner}{}", open.repeat(deep), close.repeat(deep))
    };
    let run_all = move || {
        // A subquery and its condition are two levels.
        let deep = 38;
        let exists = format!("{}true{}", "EXISTS { MATCH (n:File) WHERE ".repeat(deep), " }".repeat(deep));
        assert_eq!(rows(&graph, &format!("RETURN {exists}")), ["true"]);
        assert_eq!(rows(&graph, &format!("RETURN {}", nested("abs(", "-1", ")"))), ["1"]);
        assert_eq!(rows(&graph, &format!("RETURN {}", nested("CASE WHEN true THEN ", "1", " END"))), ["1"]);
        assert_eq!(rows(&graph, &format!("RETURN size({})", nested("[x IN [1] | ", "1", "]"))), ["1"]);
        assert_eq!(rows(&graph, &format!("RETURN {} = 1", nested("(1 + ", "1", ")"))), ["false"]);
        assert_eq!(rows(&graph, &format!("RETURN {}", nested("(true AND NOT ", "false", ")"))).len(), 1);
        let patterns = nested("[(n)-->() WHERE true | ", "1", "]");
        assert_eq!(rows(&graph, &format!("MATCH (n:Class {{name: 'C1'}}) RETURN size({patterns})")), ["1"]);
    };
    // Threads of Rust have 2 MiB by default.
    std::thread::Builder::new().stack_size(2 << 20).spawn(run_all).unwrap().join().unwrap();
}

#[test]
fn long_rows_of_operators_need_no_deep_stack() {
    let count = 50_000;
    let graph = graph();
    assert_eq!(rows(&graph, &format!("RETURN 0{}", "+1".repeat(count))), ["50000"]);
    assert_eq!(rows(&graph, &format!("RETURN true{}", " AND true".repeat(count))), ["true"]);
    assert_eq!(rows(&graph, &format!("RETURN false{}", " OR false".repeat(count))), ["false"]);
    assert_eq!(rows(&graph, &format!("RETURN {}true", "NOT ".repeat(count))), ["true"]);
    assert_eq!(rows(&graph, &format!("RETURN {}1", "-".repeat(count))), ["1"]);
    assert_eq!(rows(&graph, &format!("RETURN 0{}", " < 1 > 0".repeat(count / 2))), ["true"]);
}

#[test]
fn a_query_of_too_many_clauses_or_operators_is_refused() {
    assert_eq!(detail(&format!("{} RETURN 1", "WITH 1 AS x ".repeat(10_000))), Detail::QueryTooComplex);
    assert_eq!(
        detail(&format!("UNWIND [1] AS a {} RETURN 1", "OPTIONAL MATCH (:File) ".repeat(390))),
        Detail::QueryTooComplex
    );
    let path = "-->()".repeat(100);
    assert_eq!(detail(&format!("MATCH (){path} RETURN 1")), Detail::QueryTooComplex);
    let columns: Vec<String> = (0..2_000).map(|number| format!("1 AS c{number}")).collect();
    assert_eq!(detail(&format!("RETURN {}", columns.join(", "))), Detail::QueryTooComplex);
}

#[test]
fn a_product_of_ten_to_the_twelfth_ends_at_a_limit() {
    let product = "MATCH (a), (b), (c), (d), (e)";
    let error = hurried(&format!("{product} RETURN count(*)")).unwrap_err();
    assert_eq!(error.detail, Detail::DeadlineExceeded);
    let error = limited(&format!("{product} RETURN collect([a, b, c])")).unwrap_err();
    assert_eq!(error.detail, Detail::MemoryExceeded);
    let error = limited(&format!("{product} RETURN a, b, c, d ORDER BY rand()")).unwrap_err();
    assert_eq!(error.detail, Detail::MemoryExceeded);
    let distinct = limited("MATCH (a), (b) RETURN DISTINCT a, b").unwrap();
    assert!(distinct.is_truncated, "distinct rows stream to the limit of rows");
    let answer = limited(&format!("{product} RETURN a, b")).unwrap();
    assert_eq!((answer.rows.len(), answer.is_truncated), (1000, true));
    let best =
        limited("MATCH (a:Function), (b:Function) RETURN a.id + b.id AS sum ORDER BY sum DESC LIMIT 2")
            .unwrap();
    assert_eq!(best.rows[0][0].to_string(), "398", "the first rows of a sort take little memory");
}

#[test]
fn values_that_grow_are_refused_before_they_are_made() {
    for text in [
        "RETURN range(1, 1000000000000)",
        "RETURN reduce(t = 'a', x IN range(1, 60) | t + t)",
        "RETURN reduce(l = [1], x IN range(1, 60) | l + l)",
        "RETURN reduce(l = [1], x IN range(1, 60) | [l, l])",
        "RETURN [a IN range(1, 1000) | [b IN range(1, 1000) | range(1, 1000)]]",
        "UNWIND range(1, 200000) AS a UNWIND range(1, 200000) AS b UNWIND range(1, 200000) AS c RETURN count(*)",
        "RETURN replace('aaaaaaaaaaaaaaaaaaaa', 'a', reduce(t = 'a', x IN range(1, 21) | t + t))",
    ] {
        let error = limited(text).expect_err(text);
        assert!(matches!(error.detail, Detail::MemoryExceeded | Detail::NestingTooDeep), "{text}: {error}");
    }
    assert_eq!(detail("RETURN reduce(l = [1], x IN range(1, 100000) | [l])"), Detail::NestingTooDeep);
}

#[test]
fn paths_without_a_bound_on_a_cycle_end_and_say_that_they_were_capped() {
    let error = hurried("MATCH (a:Function {id: 0})-[:CALLS*]->(b) RETURN count(*)").unwrap_err();
    assert_eq!(error.detail, Detail::DeadlineExceeded);
    let distinct = limited("MATCH (a:Function {id: 0})-[:CALLS*]->(b) RETURN count(DISTINCT b)").unwrap();
    assert_eq!((distinct.rows[0][0].to_string().as_str(), distinct.is_capped), ("200", false));
    let limits = Limits { hops: 3, ..Limits::default() };
    let options = Options { limits, ..Options::default() };
    let text = "MATCH (a:Function {id: 0})-[:CALLS*]->(b) RETURN count(*)";
    let capped = query(&graph(), text, &Parameters::new(), &options).unwrap();
    assert_eq!((capped.rows[0][0].to_string().as_str(), capped.is_capped), ("39", true));
    let bounded = run(&graph(), "MATCH (a:Function {id: 0})-[:CALLS*..3]->(b) RETURN count(*)").unwrap();
    assert_eq!((bounded.rows[0][0].to_string().as_str(), bounded.is_capped), ("39", false));
}

#[test]
fn a_cancelled_query_ends() {
    let cancel = AtomicBool::new(true);
    let options = Options { cancel: Some(&cancel), ..Options::default() };
    let text = "MATCH (a), (b), (c), (d), (e) RETURN count(*)";
    let error = query(&graph(), text, &Parameters::new(), &options).unwrap_err();
    assert_eq!(error.detail, Detail::Cancelled);
}

#[test]
fn writing_clauses_are_refused_when_parsed() {
    for text in [
        "CREATE (n)",
        "MERGE (n)",
        "MATCH (n) SET n.a = 1",
        "MATCH (n) DELETE n",
        "MATCH (n) DETACH DELETE n",
        "MATCH (n) REMOVE n.a",
        "FOREACH (x IN [1] | CREATE ())",
        "LOAD CSV FROM 'file:///etc/passwd' AS row RETURN row",
        "DROP INDEX x",
        "MATCH (n) WITH n CREATE (m) RETURN m",
    ] {
        let error = run(&graph(), text).expect_err(text);
        assert_eq!(error.detail, Detail::WritingClause, "{text}");
        assert!(error.message.contains("can only be read"), "{text}");
    }
}

#[test]
fn parameters_are_values_and_never_text_of_the_query() {
    let graph = graph();
    let hostile = "f1'}) MATCH (n) RETURN n //";
    let parameters = Parameters::from([("name".to_owned(), Value::from(hostile))]);
    let ask = |text: &str, parameters: &Parameters| query(&graph, text, parameters, &Options::default());
    let answer = ask("MATCH (f:Function {name: $name}) RETURN f", &parameters).unwrap();
    assert_eq!(answer.rows.len(), 0);
    let answer = ask("RETURN $name AS name", &parameters).unwrap();
    assert_eq!(answer.rows, [[Value::from(hostile)]]);
    let error = ask("RETURN $missing", &parameters).unwrap_err();
    assert_eq!((error.class, error.detail), (ErrorClass::ParameterMissing, Detail::MissingParameter));
    let error = ask("MATCH (f:$name) RETURN f", &parameters).unwrap_err();
    assert_eq!(error.detail, Detail::UnexpectedSyntax);
}

#[test]
fn parameters_of_wrong_types_match_nothing_or_are_refused() {
    let graph = graph();
    let values = [
        Value::from(1.5),
        Value::from("x"),
        Value::list(vec![Value::from(1)]),
        Value::Null,
        Value::from(true),
    ];
    for value in values {
        let parameters = Parameters::from([("x".to_owned(), value.clone())]);
        let ask = |text: &str| query(&graph, text, &parameters, &Options::default());
        assert_eq!(ask("MATCH (f:Function {id: $x}) RETURN f").unwrap().rows.len(), 0, "{value}");
        assert!(ask("MATCH (f:Function) RETURN f LIMIT $x").is_err(), "{value}");
        let is_list = matches!(value, Value::List(_));
        assert_eq!(ask("RETURN 1 IN $x").is_ok(), is_list || value.is_null(), "{value}");
        assert_eq!(
            ask("MATCH (f:File) WHERE $x RETURN f").is_ok(),
            value.is_null() || value == Value::from(true),
            "{value}"
        );
        assert_eq!(ask("RETURN $x.a").is_ok(), value.is_null(), "{value}");
    }
    let float = Parameters::from([("x".to_owned(), Value::from(7.0))]);
    let found =
        query(&graph, "MATCH (f:Function {id: $x}) RETURN f.name", &float, &Options::default()).unwrap();
    assert_eq!(found.rows, [[Value::from("f7")]], "7.0 equals 7, also in the index");
    let node = Parameters::from([("x".to_owned(), Value::Node(cypher::NodeId(u32::MAX)))]);
    let unknown = query(&graph, "WITH $x AS n MATCH (n)-->(m) RETURN m", &node, &Options::default());
    assert_eq!(unknown.unwrap().rows.len(), 0, "a node that is not in the graph matches nothing");
}

#[test]
fn names_in_backquotes_may_contain_anything() {
    let mut builder = cypher::GraphBuilder::new();
    let node =
        builder.add_node(&["a b"], &[("it`s", Value::from(1)), ("'; RETURN", Value::from(2))]).unwrap();
    builder.add_relationship(node, "RETURN", node, &[]).unwrap();
    let graph = builder.build();
    let text =
        "MATCH (`my node`:`a b`)-[:`RETURN`]->() RETURN `my node`.`it``s`, `my node`.`'; RETURN` AS `x y`";
    let answer = run(&graph, text).unwrap();
    assert_eq!(answer.rows, [[Value::from(1), Value::from(2)]]);
    assert_eq!(answer.columns[1], "x y");
    assert_eq!(graph.labels_of(node).len(), 1);
}

#[test]
fn an_unknown_name_is_an_error_with_the_nearest_names() {
    let graph = graph();
    for (text, wanted, hint) in [
        ("MATCH (n:Funktion) RETURN n", Detail::UnknownLabel, "`Function`"),
        ("MATCH (n) WHERE n:function RETURN n", Detail::UnknownLabel, "`Function`"),
        ("MATCH ()-[:CALL]->() RETURN 1", Detail::UnknownRelationshipType, "`CALLS`"),
        ("MATCH (n) RETURN n.nmae", Detail::UnknownPropertyKey, "`name`"),
        ("MATCH (n {ID: 1}) RETURN n", Detail::UnknownPropertyKey, "`id`"),
    ] {
        let error = run(&graph, text).expect_err(text);
        assert_eq!((error.class, error.detail), (ErrorClass::SemanticError, wanted), "{text}");
        assert!(error.message.contains(hint), "{text}: {error}");
        let options = Options { strict_names: false, ..Options::default() };
        query(&graph, text, &Parameters::new(), &options).unwrap_or_else(|error| panic!("{text}: {error}"));
    }
    assert_eq!(rows(&graph, "WITH {anything: 1} AS map RETURN map.anything"), ["1"]);
    assert!(detail("RETURN lenght('a')") == Detail::UnknownFunction);
}

#[test]
fn any_text_gives_an_answer_or_an_error() {
    let words = [
        "MATCH", "(", ")", "[", "]", "{", "}", "-", "->", "<", "n", ":", "Function", "RETURN", "WHERE", "*",
        "1", "..", "'a'", "$x", ",", ".", "=", "WITH", "AS", "EXISTS", "CASE", "END", "NOT", "IN", "|",
        "count", "`q`", "1.5e", "\\",
    ];
    let graph = graph();
    let mut state = 1_u64;
    for _ in 0..5_000 {
        let mut text = String::new();
        for _ in 0..12 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            text += words[usize::try_from(state >> 33).unwrap() % words.len()];
            text.push(' ');
        }
        let limits = Limits { time: Duration::from_millis(50), ..Limits::default() };
        drop(query(&graph, &text, &Parameters::new(), &Options { limits, ..Options::default() }));
    }
}
