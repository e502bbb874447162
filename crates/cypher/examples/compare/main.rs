//! Compares the answers of the engine with those of a second one, on random small graphs and random queries.
//! Rows are compared as multisets, and in their order where the query sorts by all columns. Fails if more than one
//! answer in a thousand differs without a known fault of the second engine.
//!
//! `cargo run --release -p cypher --example compare -- PYTHON SCRIPT [GRAPHS [SEED]]`

#![allow(clippy::print_stdout, reason = "an example prints its results")]

mod generate;
mod known;
mod peer;

use std::collections::BTreeMap;
use std::error::Error;
use std::time::Duration;

use cypher::{Detail, GraphBuilder, Limits, MemoryGraph, Options, Parameters, Value, query};
use serde_json::json;

use generate::{Generator, Plain, Query};
use peer::{Answer, Peer};

/// Number of queries on each graph.
const QUERIES: usize = 20;

/// Number of differences that are printed.
const PRINTED: usize = 20;

/// Number of queries of which one may differ without a known reason. It was chosen after 12 of 20,000 had been seen
/// with the seed 2: one was a fault of this engine, since mended, and the others were faults of the second one that no
/// short rule tells, as names of `WITH` in its `WHERE`, and null in a pattern.
const ONE_IN: usize = 1_000;

/// The outcomes, counted.
#[derive(Default)]
struct Counts {
    equal: usize,
    equal_errors: usize,
    differences: usize,
    /// Differences that are known faults of the second engine, by their reasons.
    known: BTreeMap<&'static str, usize>,
    /// Queries that one of the engines did not finish.
    unfinished: usize,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let python = arguments.next().ok_or("name the Python that has the second engine")?;
    let script = arguments.next().ok_or("name the script that asks it")?;
    let graphs: usize = arguments.next().map_or(Ok(500), |number| number.parse())?;
    let seed: u64 = arguments.next().map_or(Ok(1), |number| number.parse())?;
    let mut peer = Peer::start(&python, &script)?;
    let mut generator = Generator::new(seed);
    let mut counts = Counts::default();
    for _ in 0..graphs {
        let plain = generator.graph();
        let graph = built(&plain)?;
        let queries: Vec<Query> = (0..QUERIES).map(|_| generator.query()).collect();
        let texts: Vec<&str> = queries.iter().map(|query| query.text.as_str()).collect();
        let answers = peer.ask(&plain.statement(), &texts)?;
        for (query, theirs) in queries.iter().zip(answers) {
            counts.add(&plain, query, &ours(&graph, query), &theirs);
        }
    }
    println!(
        "{} queries on {graphs} graphs with the seed {seed}: {} with equal rows, {} refused by both, {} unfinished, \
         {} different",
        graphs * QUERIES,
        counts.equal,
        counts.equal_errors,
        counts.unfinished,
        counts.differences
    );
    for (reason, count) in &counts.known {
        println!("{count} times another answer for a known reason: {reason}");
    }
    if counts.differences * ONE_IN > graphs * QUERIES {
        return Err(format!("{} answers differ without a known reason", counts.differences).into());
    }
    if counts.equal * 2 < graphs * QUERIES {
        return Err("fewer than half of the queries were compared by their rows".into());
    }
    Ok(())
}

impl Counts {
    fn add(&mut self, plain: &Plain, query: &Query, ours: &Answer, theirs: &Answer) {
        match (ours, theirs) {
            (Answer::Unfinished, _) | (_, Answer::Unfinished) => self.unfinished += 1,
            (Answer::Refused(_), Answer::Refused(_)) => self.equal_errors += 1,
            (Answer::Rows(one), Answer::Rows(two)) if is_equal(one, two, query.is_sorted) => self.equal += 1,
            _ => {
                if let Some(reason) = known::reason(&query.text, ours, theirs) {
                    *self.known.entry(reason).or_default() += 1;
                    return;
                }
                self.differences += 1;
                if self.differences <= PRINTED {
                    println!("graph: {}", plain.statement());
                    println!("query: {}\n ours: {ours}\ntheirs: {theirs}\n", query.text);
                }
            }
        }
    }
}

fn is_equal(one: &[String], two: &[String], is_sorted: bool) -> bool {
    if is_sorted {
        return one == two;
    }
    let sorted = |rows: &[String]| {
        let mut rows = rows.to_vec();
        rows.sort();
        rows
    };
    sorted(one) == sorted(two)
}

fn built(plain: &Plain) -> Result<MemoryGraph, Box<dyn Error>> {
    let mut builder = GraphBuilder::new();
    builder.declare(&generate::LABELS, &generate::TYPES, &["k", "x", "s", "w"])?;
    let mut nodes = Vec::new();
    for node in &plain.nodes {
        nodes.push(builder.add_node(&node.labels, &node.properties)?);
    }
    for (start, name, end, properties) in &plain.relationships {
        let end_of = |at: usize| nodes.get(at).copied().ok_or("a relationship without an end");
        builder.add_relationship(end_of(*start)?, name, end_of(*end)?, properties)?;
    }
    builder.add_index("k")?;
    builder.add_index("x")?;
    Ok(builder.build())
}

fn ours(graph: &MemoryGraph, asked: &Query) -> Answer {
    let limits = Limits { rows: usize::MAX, time: Duration::from_secs(5), ..Limits::default() };
    let options = Options { limits, ..Options::default() };
    match query(graph, &asked.text, &Parameters::new(), &options) {
        Ok(answer) => {
            let rows = answer.rows.iter().map(|row| json!(row.iter().map(as_json).collect::<Vec<_>>()));
            Answer::Rows(rows.map(|row| row.to_string()).collect())
        }
        Err(error) if matches!(error.detail, Detail::DeadlineExceeded | Detail::MemoryExceeded) => {
            Answer::Unfinished
        }
        Err(error) => Answer::Refused(error.to_string()),
    }
}

fn as_json(value: &Value) -> serde_json::Value {
    match value {
        Value::Null => json!(null),
        Value::Boolean(value) => json!(value),
        Value::Integer(value) => json!(value),
        Value::Float(value) if value.is_finite() => json!(value),
        Value::String(text) => json!(&**text),
        Value::List(list) => json!(list.items().iter().map(as_json).collect::<Vec<_>>()),
        // The queries return nothing else.
        other => json!(other.to_string()),
    }
}
