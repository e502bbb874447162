//! The graph of the measurement, and its functions and calls as tables for a peer.

use std::fmt::Write as _;
use std::path::Path;

use cypher::{GraphBuilder, MemoryGraph, NodeId, Value};

/// Number of files.
const FILES: usize = 10_000;
const CLASSES: usize = 20_000;
/// Number of functions.
pub(crate) const FUNCTIONS: usize = 170_000;
/// Number of the first function.
pub(crate) const FIRST_FUNCTION: usize = FILES + CLASSES;
const CALLS: usize = 610_000;

/// Numbers that look random and are the same in every run.
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    /// Returns a number below a bound.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or(0) % bound
    }

    /// Returns a number below a bound; small ones are far more frequent, so that some nodes are hubs.
    pub(crate) fn skewed(&mut self, bound: usize) -> usize {
        let first = self.below(bound) + 1;
        let second = self.below(first) + 1;
        self.below(second)
    }
}

/// Returns the calls as numbers of functions, from and to, with their lines.
fn calls() -> impl Iterator<Item = (usize, usize, usize)> {
    let mut numbers = Numbers(2);
    (0..CALLS).map(move |_| (numbers.below(FUNCTIONS), numbers.skewed(FUNCTIONS), numbers.below(2000)))
}

/// Writes the functions and the calls as CSV files into a folder.
pub(crate) fn write_tables(folder: &Path) -> std::io::Result<()> {
    let (mut functions, mut all) = (String::new(), String::new());
    for id in FIRST_FUNCTION..FIRST_FUNCTION + FUNCTIONS {
        let _ = writeln!(functions, "{id},{},{}", name("Function", id), file(id));
    }
    for (from, to, line) in calls() {
        let _ = writeln!(all, "{},{},{line}", FIRST_FUNCTION + from, FIRST_FUNCTION + to);
    }
    std::fs::write(folder.join("functions.csv"), functions)?;
    std::fs::write(folder.join("calls.csv"), all)
}

fn name(label: &str, id: usize) -> String {
    format!("{}_{id}", label.to_lowercase())
}

fn file(id: usize) -> String {
    format!("src/module_{}/file_{}.rs", id % 100, id % FILES)
}

/// Builds the graph.
pub(crate) fn build() -> MemoryGraph {
    let mut builder = GraphBuilder::new();
    let mut numbers = Numbers(1);
    let node = |builder: &mut GraphBuilder, label: &str, id: usize| {
        let (name, file) = (name(label, id), file(id));
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
    for (from, to, line) in calls() {
        connect(functions[from], "CALLS", functions[to], line);
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
