//! Builds a graph of 200,000 nodes and 1,000,000 relationships, as that of a large repository, and prints the
//! median times of queries, each written in both directions, with the memory of the process. A second engine that
//! is named answers the same queries about the same functions and calls, in turns.
//!
//! Run it with `cargo run --release -p cypher --example measure [-- PYTHON SCRIPT]`.

#![allow(clippy::print_stdout, reason = "its output is its purpose")]

mod cases;
mod graph;
mod peer;

use std::error::Error;
use std::time::{Duration, Instant};

use cypher::{Limits, MemoryGraph, Options, Parameters, Value, query};

use cases::{CASES, Case};
use graph::{FIRST_FUNCTION, FUNCTIONS, Numbers};
use peer::Peer;

/// Most resident memory of the graph, in MiB.
const MEMORY: usize = 150;

/// Times of one query, and the number of its rows.
#[derive(Default)]
struct Times {
    all: Vec<Duration>,
    rows: usize,
}

fn main() -> Result<(), Box<dyn Error>> {
    let before = memory("VmRSS");
    let begin = Instant::now();
    let graph = graph::build();
    let built = begin.elapsed();
    println!(
        "200,000 nodes and 1,000,000 relationships built in {built:.2?}: resident {} MiB, {} before (target {MEMORY}); \
         peak while building {} MiB",
        memory("VmRSS"),
        before,
        memory("VmHWM")
    );
    let mut arguments = std::env::args().skip(1);
    let mut peer = match (arguments.next(), arguments.next()) {
        (Some(python), Some(script)) => Some(Peer::start(&python, &script)?),
        _ => None,
    };
    if peer.is_none() {
        println!("no peer was named");
    }
    println!(
        "{:<30} {:>10} {:>10} {:>10} {:>12} {:>12} {:>7}",
        "median (p95), ms", "forward", "backward", "target", "p95", "kuzu", "ratio"
    );
    for case in &CASES {
        measure(&graph, case, peer.as_mut())?;
    }
    println!("resident {} MiB, peak {} MiB", memory("VmRSS"), memory("VmHWM"));
    Ok(())
}

/// Asks each form of a query and the peer in turns, and prints a line.
fn measure(graph: &MemoryGraph, case: &Case, mut peer: Option<&mut Peer>) -> Result<(), Box<dyn Error>> {
    let is_whole_graph = !case.forward.contains('$');
    let runs = if is_whole_graph { 5 } else { 301 };
    let options = Options { limits: Limits { rows: 10_000, ..Limits::default() }, ..Options::default() };
    let mut numbers = Numbers(7);
    let (mut ours, mut theirs) = ([Times::default(), Times::default()], Times::default());
    for _ in 0..runs {
        let id = FIRST_FUNCTION + numbers.below(FUNCTIONS);
        // Frequently called functions, so that most pairs are connected.
        let other = FIRST_FUNCTION + numbers.skewed(FUNCTIONS / 100);
        let name = format!("function_{id}");
        let parameters = Parameters::from([
            ("id".to_owned(), Value::Integer(i64::try_from(id)?)),
            ("other".to_owned(), Value::Integer(i64::try_from(other)?)),
            ("name".to_owned(), Value::string(&name)),
        ]);
        if id == other {
            continue;
        }
        for (text, times) in [case.forward, case.backward].into_iter().zip(&mut ours) {
            let begin = Instant::now();
            let answer = query(graph, text, &parameters, &options)?;
            times.all.push(begin.elapsed());
            times.rows += answer.rows.len();
        }
        if let Some(peer) = &mut peer {
            let (took, rows) = peer.ask(case.peer, id, other, &name)?;
            theirs.all.push(took);
            theirs.rows += rows;
        }
    }
    let [forward, backward] = &mut ours;
    if forward.rows != backward.rows || peer.is_some() && forward.rows != theirs.rows {
        let (one, two, three) = (forward.rows, backward.rows, theirs.rows);
        return Err(format!("{}: {one}, {two} and {three} rows", case.name).into());
    }
    let worst = forward.at(50).max(backward.at(50));
    let p95 = forward.at(95).max(backward.at(95));
    let target = case.target.map_or_else(String::new, |target| format!("{target}"));
    let (peer_time, ratio) = match peer {
        Some(_) => (format!("{:.3}", theirs.at(50)), format!("{:.3}", worst / theirs.at(50))),
        None => (String::new(), String::new()),
    };
    println!(
        "{:<30} {:>10.4} {:>10.4} {target:>10} {p95:>12.4} {peer_time:>12} {ratio:>7}",
        case.name,
        forward.at(50),
        backward.at(50)
    );
    Ok(())
}

impl Times {
    /// Returns the time that a share of the runs does not exceed, in milliseconds.
    fn at(&mut self, share: usize) -> f64 {
        self.all.sort();
        let at = self.all.len().saturating_sub(1) * share / 100;
        self.all.get(at).map_or(0.0, |time| time.as_secs_f64() * 1000.0)
    }
}

/// Returns a figure of the process in MiB, or 0 where the system does not say.
fn memory(field: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<usize>().ok()).unwrap_or(0) / 1024
}
