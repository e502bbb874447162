//! A small graph of code for the tests: files, classes and functions that call each other.

use std::time::Duration;

use cypher::{Answer, Error, GraphBuilder, Limits, MemoryGraph, Options, Parameters, Value, query};

/// Returns a graph of one file, 200 functions in a ring with shortcuts, and ten classes.
pub(crate) fn graph() -> MemoryGraph {
    let mut builder = GraphBuilder::new();
    let file = builder.add_node(&["File"], &[("path", Value::from("src/lib.rs"))]).unwrap();
    let mut functions = Vec::new();
    for number in 0..200 {
        let properties = [("id", Value::from(number)), ("name", Value::from(format!("f{number}").as_str()))];
        let labels: &[&str] = if number % 10 == 0 { &["Function", "Method"] } else { &["Function"] };
        functions.push(builder.add_node(labels, &properties).unwrap());
    }
    for number in 0..10 {
        let class =
            builder.add_node(&["Class"], &[("name", Value::from(format!("C{number}").as_str()))]).unwrap();
        builder.add_relationship(file, "DEFINES", class, &[]).unwrap();
        builder.add_relationship(class, "DEFINES", functions[number * 10], &[]).unwrap();
    }
    for number in 0..200 {
        for step in [1, 7, 50] {
            let line = [("line", Value::from(i64::try_from(number).unwrap()))];
            builder
                .add_relationship(functions[number], "CALLS", functions[(number + step) % 200], &line)
                .unwrap();
        }
    }
    builder.add_index("id").unwrap();
    builder.add_index("name").unwrap();
    builder.build()
}

/// Runs a query with the default options.
pub(crate) fn run(graph: &MemoryGraph, text: &str) -> Result<Answer, Error> {
    query(graph, text, &Parameters::new(), &Options::default())
}

/// Returns the rows of a query as texts, sorted.
pub(crate) fn rows(graph: &MemoryGraph, text: &str) -> Vec<String> {
    // A busy machine may take its time.
    let limits = Limits { time: Duration::MAX, ..Limits::default() };
    let options = Options { limits, ..Options::default() };
    let answer =
        query(graph, text, &Parameters::new(), &options).unwrap_or_else(|error| panic!("{text}: {error}"));
    let show = |row: &Vec<Value>| row.iter().map(Value::to_string).collect::<Vec<_>>().join(" ");
    let mut rows: Vec<String> = answer.rows.iter().map(show).collect();
    rows.sort();
    rows
}
