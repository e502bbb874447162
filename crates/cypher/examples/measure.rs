//! Builds a graph of 200,000 nodes and 1,000,000 relationships, as that of a large repository, and prints the
//! median times of queries, each written in both directions, with the memory of the process.
//!
//! Run it with `cargo run --release -p cypher --example measure`.

use std::time::{Duration, Instant};

use cypher::{GraphBuilder, Limits, MemoryGraph, NodeId, Options, Parameters, Value, query};

const FILES: usize = 10_000;
const CLASSES: usize = 20_000;
const FUNCTIONS: usize = 170_000;

/// Numbers that look random and are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or(0) % bound
    }

    /// Returns a number below a bound; small ones are far more frequent, so that some nodes are hubs.
    fn skewed(&mut self, bound: usize) -> usize {
        let first = self.below(bound) + 1;
        let second = self.below(first) + 1;
        self.below(second)
    }
}

#[expect(clippy::print_stdout, reason = "its output is its purpose")]
fn main() {
    let begin = Instant::now();
    let graph = build();
    let built = begin.elapsed();
    println!("built in {built:?}, resident {} MiB, peak {} MiB", memory("VmRSS"), memory("VmHWM"));
    let cases: [(&str, &[&str]); 10] = [
        ("lookup by id", &["MATCH (f:Function {id: $id}) RETURN f.name"]),
        (
            "lookup by name",
            &["MATCH (f:Function {name: $name}) RETURN f.id", "MATCH (f) WHERE $name = f.name RETURN f.id"],
        ),
        (
            "one hop",
            &[
                "MATCH (f:Function {id: $id})-[:CALLS]->(g:Function) RETURN g.name",
                "MATCH (g:Function)<-[:CALLS]-(f:Function {id: $id}) RETURN g.name",
            ],
        ),
        (
            "callers, one hop",
            &[
                "MATCH (f:Function {id: $id})<-[:CALLS]-(g:Function) RETURN g.name",
                "MATCH (g:Function)-[:CALLS]->(f:Function {id: $id}) RETURN g.name",
            ],
        ),
        (
            "1..3 hops, distinct",
            &[
                "MATCH (f:Function {id: $id})-[:CALLS*1..3]->(g:Function) RETURN DISTINCT g.name",
                "MATCH (g:Function)<-[:CALLS*1..3]-(f:Function {id: $id}) RETURN DISTINCT g.name",
            ],
        ),
        (
            "callers, 1..3 hops, counted",
            &[
                "MATCH (f:Function {id: $id})<-[:CALLS*1..3]-(g:Function) RETURN count(DISTINCT g)",
                "MATCH (g:Function)-[:CALLS*1..3]->(f:Function {id: $id}) RETURN count(DISTINCT g)",
            ],
        ),
        (
            "shortest path up to 6",
            &[
                "MATCH (a:Function {id: $id}), (b:Function {id: $other}) MATCH p = shortestPath((a)-[:CALLS*..6]->(b)) RETURN length(p)",
                "MATCH p = shortestPath((b:Function {id: $other})<-[:CALLS*..6]-(a:Function {id: $id})) RETURN length(p)",
            ],
        ),
        (
            "functions without a caller",
            &[
                "MATCH (f:Function) WHERE NOT (f)<-[:CALLS]-() RETURN count(f)",
                "MATCH (f:Function) WHERE NOT ()-[:CALLS]->(f) RETURN count(f)",
            ],
        ),
        (
            "10 most called",
            &[
                "MATCH (f:Function)<-[:CALLS]-(g) RETURN f.name, count(*) AS callers ORDER BY callers DESC LIMIT 10",
                "MATCH (g)-[:CALLS]->(f:Function) RETURN f.name, count(*) AS callers ORDER BY callers DESC LIMIT 10",
            ],
        ),
        (
            "10 files with most callees",
            &[
                "MATCH (f:Function)-[:CALLS]->(g:Function) RETURN g.file, count(*) AS calls ORDER BY calls DESC LIMIT 10",
                "MATCH (g:Function)<-[:CALLS]-(f:Function) RETURN g.file, count(*) AS calls ORDER BY calls DESC LIMIT 10",
            ],
        ),
    ];
    for (name, texts) in cases {
        for text in texts {
            measure(&graph, name, text);
        }
    }
    println!("resident {} MiB, peak {} MiB", memory("VmRSS"), memory("VmHWM"));
}

fn build() -> MemoryGraph {
    let mut builder = GraphBuilder::new();
    let mut numbers = Numbers(1);
    let node = |builder: &mut GraphBuilder, label: &str, id: usize| {
        let name = format!("{}_{id}", label.to_lowercase());
        let file = format!("src/module_{}/file_{}.rs", id % 100, id % FILES);
        let properties = [
            ("id", Value::Integer(i64::try_from(id).unwrap_or(0))),
            ("name", Value::string(&name)),
            ("file", Value::string(&file)),
            ("start_line", Value::Integer(i64::try_from(id % 2000).unwrap_or(0))),
            ("end_line", Value::Integer(i64::try_from(id % 2000 + 20).unwrap_or(0))),
        ];
        builder.add_node(&[label], &properties).unwrap_or(NodeId(0))
    };
    let mut id = 0;
    let mut many = |builder: &mut GraphBuilder, label: &str, count: usize| {
        let begin = id;
        id += count;
        (begin..id).map(|id| node(builder, label, id)).collect::<Vec<NodeId>>()
    };
    let files = many(&mut builder, "File", FILES);
    let classes = many(&mut builder, "Class", CLASSES);
    let functions = many(&mut builder, "Function", FUNCTIONS);
    let mut connect = |start: NodeId, name: &str, end: NodeId, line: usize| {
        let line = [("line", Value::Integer(i64::try_from(line).unwrap_or(0)))];
        builder.add_relationship(start, name, end, &line).unwrap_or(());
    };
    for (at, class) in classes.iter().enumerate() {
        connect(files[at % FILES], "DEFINES", *class, at % 1000);
    }
    for (at, function) in functions.iter().enumerate() {
        let owner = if at % 3 == 0 { files[at % FILES] } else { classes[at % CLASSES] };
        connect(owner, "DEFINES", *function, at % 1000);
    }
    for _ in 0..100_000 {
        connect(files[numbers.below(FILES)], "IMPORTS", files[numbers.skewed(FILES)], numbers.below(100));
    }
    for _ in 0..610_000 {
        connect(
            functions[numbers.below(FUNCTIONS)],
            "CALLS",
            functions[numbers.skewed(FUNCTIONS)],
            numbers.below(2000),
        );
    }
    for _ in 0..100_000 {
        connect(
            functions[numbers.below(FUNCTIONS)],
            "REFS",
            classes[numbers.below(CLASSES)],
            numbers.below(2000),
        );
    }
    for key in ["id", "name"] {
        builder.add_index(key).unwrap_or(());
    }
    builder.build()
}

#[expect(clippy::print_stdout, reason = "its output is its purpose")]
fn measure(graph: &MemoryGraph, name: &str, text: &str) {
    let mut numbers = Numbers(7);
    let is_whole_graph = !text.contains('$');
    let runs = if is_whole_graph { 9 } else { 301 };
    let options = Options { limits: Limits { rows: 10_000, ..Limits::default() }, ..Options::default() };
    let mut times: Vec<Duration> = Vec::new();
    let mut rows = 0;
    for _ in 0..runs {
        let id = FILES + CLASSES + numbers.below(FUNCTIONS);
        // Frequently called functions, so that most pairs are connected.
        let other = FILES + CLASSES + numbers.skewed(FUNCTIONS / 100);
        let parameters = Parameters::from([
            ("id".to_owned(), Value::Integer(i64::try_from(id).unwrap_or(0))),
            ("other".to_owned(), Value::Integer(i64::try_from(other).unwrap_or(0))),
            ("name".to_owned(), Value::string(&format!("function_{id}"))),
        ]);
        let begin = Instant::now();
        let answer = query(graph, text, &parameters, &options);
        times.push(begin.elapsed());
        match answer {
            Ok(answer) => rows += answer.rows.len(),
            Err(error) => println!("{text}: {error}"),
        }
    }
    times.sort();
    let at = |share: usize| times[(times.len() - 1) * share / 100].as_secs_f64() * 1000.0;
    println!(
        "{name:<28} p50 {:>9.4} ms  p95 {:>9.4} ms  {rows:>7} rows in {runs} runs  {text}",
        at(50),
        at(95)
    );
}

/// Returns a figure of the process in MiB, or 0 where the system does not say.
fn memory(field: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<usize>().ok()).unwrap_or(0) / 1024
}
