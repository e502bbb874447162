//! Compares the calls of the code graph with those that a compiler finds, and prints precision and recall. Fails if
//! too few of them are right or found.
//!
//! `cargo run --release -p codegraph --example oracle -- FOLDER CALLS.json [--all]`
//!
//! A call leads from the innermost function around it to a definition of the folder. A class and its constructor count
//! as one, and so do overloads. The file has the calls (`edges`) by their places, and the places at which the compiler
//! decides nothing (`undecided`), with the name or for any name. Calls of the graph there are not judged, and neither
//! are those that no compiler lists: of functions without a name, by operators, of the constructor that a class
//! inherits, and of a method that overrides the one that the compiler names.

#![allow(clippy::print_stdout, reason = "an example prints its results")]

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use codegraph::{CodeIndex, ExtractLimits, Sources, is_indexed};
use cypher::{Graph, Options, Parameters, Value, query};
use serde::Deserialize;

/// Lowest share of the calls found that are right.
const PRECISION: f64 = 0.95;

/// Lowest share of the right calls that are found.
const RECALL: f64 = 0.70;

/// Calls that a compiler finds.
#[derive(Deserialize)]
struct Known {
    edges: Vec<Call>,
    undecided: Vec<Site>,
}

/// A call: its place, and the name and place of what it calls.
#[derive(Deserialize)]
struct Call {
    file: String,
    line: i64,
    name: String,
    to_file: String,
    to_line: i64,
}

/// A place with a name.
#[derive(Deserialize)]
struct Site {
    file: String,
    line: i64,
    name: String,
}

/// A definition of the graph.
struct Definition {
    id: String,
    name: String,
    first: i64,
    last: i64,
    /// Line of the first decorator, or the first line.
    decorated: i64,
    /// Line of the body's function, class or variable.
    is_function: bool,
}

/// The definitions of each file.
type Definitions = BTreeMap<String, Vec<Definition>>;

/// Callers and callees.
type Edges = BTreeSet<(String, String)>;

struct Folder(PathBuf);

impl Sources for Folder {
    fn paths(&self) -> Vec<String> {
        let (mut paths, mut open) = (Vec::new(), vec![self.0.clone()]);
        while let Some(folder) = open.pop() {
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                let Ok(kind) = entry.file_type() else { continue };
                if kind.is_dir() && entry.file_name() != "tests" {
                    open.push(entry.path());
                } else if kind.is_file()
                    && let Ok(path) = entry.path().strip_prefix(&self.0)
                {
                    paths.push(path.to_string_lossy().into_owned());
                }
            }
        }
        paths.retain(|path| is_indexed(path));
        paths
    }

    fn read(&self, path: &str) -> Option<Vec<u8>> {
        fs::read(self.0.join(Path::new(path))).ok()
    }
}

fn rows(graph: &dyn Graph, text: &str) -> Result<Vec<Vec<Value>>, Box<dyn Error>> {
    let mut options = Options::default();
    options.limits.rows = 10_000_000;
    options.limits.time = Duration::MAX;
    options.strict_names = false;
    Ok(query(graph, text, &Parameters::new(), &options)?.rows)
}

fn text(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.to_string(),
        _ => String::new(),
    }
}

fn number(value: Option<&Value>) -> i64 {
    match value {
        Some(Value::Integer(number)) => *number,
        _ => 0,
    }
}

fn definitions(graph: &dyn Graph) -> Result<Definitions, Box<dyn Error>> {
    let mut found = Definitions::new();
    let found_rows = rows(
        graph,
        "MATCH (n) WHERE n.start_line IS NOT NULL AND n.file IS NOT NULL \
         RETURN n.file, n.id, n.name, n.start_line, n.end_line, n.decorated_from, labels(n)",
    )?;
    for row in found_rows {
        let labels = row.get(6).map(ToString::to_string).unwrap_or_default();
        let first = number(row.get(3));
        let decorated = number(row.get(5));
        found.entry(text(row.first())).or_default().push(Definition {
            id: text(row.get(1)),
            name: text(row.get(2)),
            first,
            last: number(row.get(4)),
            decorated: if decorated == 0 { first } else { decorated },
            is_function: labels.contains("Function") || labels.contains("Module"),
        });
    }
    Ok(found)
}

/// Returns the innermost function around a line, or the file.
fn caller(all: &Definitions, file: &str, line: i64) -> String {
    let around = all.get(file).into_iter().flatten().filter(|one| one.is_function);
    let around = around.filter(|one| one.first <= line && line <= one.last);
    around.min_by_key(|one| one.last - one.first).map_or_else(|| format!("{file}#"), |one| one.id.clone())
}

/// Returns the definition at a line, by its name if several stand there.
fn callee(all: &Definitions, file: &str, line: i64, name: &str) -> Option<String> {
    let at = all.get(file).into_iter().flatten();
    let mut at: Vec<&Definition> =
        at.filter(|one| one.decorated <= line && line <= one.first && !one.id.ends_with('#')).collect();
    at.sort_by_key(|one| (one.name != name, one.last - one.first));
    at.first().map(|one| one.id.clone())
}

/// Names a constructor as its class, and an overload as the first one.
fn of_class(id: &str) -> String {
    let mut id = id.to_owned();
    while let Some(at) = id.find('~') {
        let digits = id.get(at + 1..).map_or(0, |rest| rest.bytes().take_while(u8::is_ascii_digit).count());
        id.replace_range(at..=at + digits, "");
    }
    for end in [".constructor", ".__init__", ".__new__"] {
        if let Some(class) = id.strip_suffix(end) {
            return class.to_owned();
        }
    }
    id
}

/// Returns the methods that each method may stand in for: those of its name in the classes above.
fn overridden(graph: &dyn Graph) -> Result<BTreeMap<String, BTreeSet<String>>, Box<dyn Error>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let query = "MATCH (s)-[:INHERITS|IMPLEMENTS*1..8]->(b) RETURN DISTINCT s.id, b.id";
    let pairs: Edges = rows(graph, query)?.iter().map(|row| (text(row.first()), text(row.get(1)))).collect();
    let mut members: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    for row in rows(graph, "MATCH (c)-[:DEFINES]->(m:Method) RETURN c.id, m.id, m.name")? {
        members.entry(text(row.first())).or_default().push((text(row.get(1)), text(row.get(2))));
    }
    for (sub, base) in &pairs {
        for (own, name) in members.get(sub).into_iter().flatten() {
            for (of_base, _) in members.get(base).into_iter().flatten().filter(|(_, other)| other == name) {
                found.entry(of_class(own)).or_default().insert(of_class(of_base));
            }
        }
    }
    Ok(found)
}

/// Returns true for a definition that compilers do not list as the target of a call.
fn is_unlisted(name: &str) -> bool {
    let is_operator = name.len() > 4 && name.starts_with("__") && name.ends_with("__");
    name.is_empty() || name.starts_with("<lambda") || is_operator && !["__init__", "__new__"].contains(&name)
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, calls, rest @ ..] = arguments.as_slice() else {
        return Err("name a folder and a file".into());
    };
    let known: Known = serde_json::from_slice(&fs::read(calls)?)?;
    let graph = CodeIndex::build(&Folder(folder.into()), ExtractLimits::default()).graph("project")?;
    let all = definitions(&graph)?;
    let (mut right, mut unknown) = (Edges::new(), 0);
    for call in &known.edges {
        match callee(&all, &call.to_file, call.to_line, &call.name) {
            Some(to) => drop(right.insert((of_class(&caller(&all, &call.file, call.line)), of_class(&to)))),
            None => unknown += 1,
        }
    }
    let at_lines: BTreeSet<(&str, i64)> = known
        .undecided
        .iter()
        .filter(|site| site.name.is_empty())
        .map(|site| (site.file.as_str(), site.line))
        .collect();
    let by_name: BTreeSet<(String, &str)> = known
        .undecided
        .iter()
        .filter(|site| !site.name.is_empty())
        .map(|site| (of_class(&caller(&all, &site.file, site.line)), site.name.as_str()))
        .collect();
    let implied = "MATCH (a)-[:INSTANTIATES]->()-[:INHERITS*1..8]->(b) RETURN DISTINCT a.id, b.id";
    let implied: Edges = rows(&graph, implied)?
        .iter()
        .map(|row| (of_class(&text(row.first())), of_class(&text(row.get(1)))))
        .collect();
    let overridden = overridden(&graph)?;
    let query = "MATCH (a)-[r:CALLS|INSTANTIATES]->(b) WHERE b.file IS NOT NULL \
                 RETURN a.id, b.id, b.name, a.file, r.line";
    let (mut found, mut unjudged) = (Edges::new(), 0);
    for row in rows(&graph, query)? {
        let edge = (of_class(&text(row.first())), of_class(&text(row.get(1))));
        let name = text(row.get(2));
        let is_judged = !at_lines.contains(&(text(row.get(3)).as_str(), number(row.get(4))))
            && !by_name.contains(&(edge.0.clone(), name.as_str()))
            && !implied.contains(&edge)
            && !overridden
                .get(&edge.1)
                .into_iter()
                .flatten()
                .any(|of| right.contains(&(edge.0.clone(), of.clone())))
            && !is_unlisted(&name);
        if is_judged || right.contains(&edge) {
            found.insert(edge);
        } else {
            unjudged += 1;
        }
    }
    if rest.iter().any(|word| word == "--all") {
        for (from, to) in found.difference(&right) {
            println!("wrong   {from} -> {to}");
        }
        for (from, to) in right.difference(&found) {
            println!("missing {from} -> {to}");
        }
    }
    let both = right.intersection(&found).count();
    #[expect(clippy::cast_precision_loss, reason = "counts of calls are small")]
    let share = |of: usize| if of == 0 { 1.0 } else { both as f64 / of as f64 };
    let (precision, recall) = (share(found.len()), share(right.len()));
    println!(
        "{:>6} calls known, {:>6} found, {both:>6} of both; {unjudged} not judged, {unknown} lead to no definition of \
         the graph: precision {precision:.3}, recall {recall:.3}",
        right.len(),
        found.len()
    );
    if precision >= PRECISION && recall >= RECALL {
        return Ok(());
    }
    Err(format!("the precision must be at least {PRECISION} and the recall at least {RECALL}").into())
}
