//! The comparison of call graphs that are known with those that are found, edge by edge.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use codegraph::{CodeIndex, ExtractLimits, Sources};
use cypher::{Options, Parameters, Value, query};

/// Lowest share of the edges found that are right.
pub(crate) const PRECISION: f64 = 0.95;

/// Lowest share of the right edges that are found.
pub(crate) const RECALL: f64 = 0.80;

/// The file of a program that has its call graph: the callees of each caller.
const KNOWN: &str = "callgraph.json";

/// Edges of a call graph, each a caller and its callee.
pub(crate) type Edges = BTreeSet<(String, String)>;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The files of a program.
struct Files(BTreeMap<String, Vec<u8>>);

impl Sources for Files {
    fn paths(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }

    fn read(&self, path: &str) -> Option<Vec<u8>> {
        self.0.get(path).cloned()
    }
}

/// Counts of edges.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Score {
    /// Number of edges that are found and known.
    pub(crate) right: u32,
    /// Number of edges that are found, but not known.
    pub(crate) wrong: u32,
    /// Number of edges that are known, but not found.
    pub(crate) missing: u32,
}

impl Score {
    /// Adds the counts of another program.
    pub(crate) fn add(&mut self, other: Self) {
        self.right += other.right;
        self.wrong += other.wrong;
        self.missing += other.missing;
    }

    /// Returns the share of the edges found that are right.
    pub(crate) fn precision(self) -> f64 {
        share(self.right, self.wrong)
    }

    /// Returns the share of the known edges that are found.
    pub(crate) fn recall(self) -> f64 {
        share(self.right, self.missing)
    }

    /// Returns true if both shares are high enough.
    pub(crate) fn is_enough(self) -> bool {
        self.precision() >= PRECISION && self.recall() >= RECALL
    }
}

fn share(right: u32, other: u32) -> f64 {
    let all = right + other;
    if all == 0 { 1.0 } else { f64::from(right) / f64::from(all) }
}

/// A program whose edges were compared.
#[derive(Debug)]
pub(crate) struct Comparison {
    /// Edges that are found, but not known.
    pub(crate) wrong: Edges,
    /// Edges that are known, but not found.
    pub(crate) missing: Edges,
    /// Counts.
    pub(crate) score: Score,
}

/// Returns the folders at or below a folder that have a known call graph, in the order of their paths.
pub(crate) fn programs(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(at) = open.pop() {
        if at.join(KNOWN).is_file() {
            found.push(at);
            continue;
        }
        for entry in fs::read_dir(&at).map_err(|error| failed(&at, &error))? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                open.push(entry.path());
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Compares the edges that are found in a program with those that are known.
pub(crate) fn compare(program: &Path) -> Result<Comparison> {
    let (known, found) = (known(program)?, found(program)?);
    let wrong: Edges = found.difference(&known).cloned().collect();
    let missing: Edges = known.difference(&found).cloned().collect();
    let right = known.intersection(&found).count();
    let score = Score {
        right: u32::try_from(right)?,
        wrong: u32::try_from(wrong.len())?,
        missing: u32::try_from(missing.len())?,
    };
    Ok(Comparison { wrong, missing, score })
}

fn known(program: &Path) -> Result<Edges> {
    let path = program.join(KNOWN);
    let text = fs::read_to_string(&path).map_err(|error| failed(&path, &error))?;
    let callees: BTreeMap<String, Vec<String>> =
        serde_json::from_str(&text).map_err(|error| failed(&path, &error))?;
    let pairs = callees
        .into_iter()
        .flat_map(|(caller, callees)| callees.into_iter().map(move |callee| (caller.clone(), callee)));
    Ok(pairs.collect())
}

fn found(program: &Path) -> Result<Edges> {
    let graph = CodeIndex::build(&read(program)?, ExtractLimits::default()).graph("project")?;
    let mut options = Options::default();
    options.limits.rows = 1_000_000;
    // A busy machine may take its time.
    options.limits.time = Duration::MAX;
    options.strict_names = false;
    let answer = query(&graph, "MATCH (a)-[:CALLS]->(b) RETURN a.id, b.id", &Parameters::new(), &options)?;
    let edge = |row: &Vec<Value>| match row.as_slice() {
        [Value::String(caller), Value::String(callee)] => Some((name(caller)?, name(callee)?)),
        _ => None,
    };
    answer
        .rows
        .iter()
        .map(|row| edge(row).ok_or_else(|| format!("an edge without names: {row:?}").into()))
        .collect()
}

/// Reads the files of a program. Links are not followed.
fn read(program: &Path) -> Result<Files> {
    let mut files = BTreeMap::new();
    let mut open = vec![program.to_owned()];
    while let Some(at) = open.pop() {
        for entry in fs::read_dir(&at).map_err(|error| failed(&at, &error))? {
            let entry = entry?;
            let (path, kind) = (entry.path(), entry.file_type()?);
            if kind.is_dir() {
                open.push(path);
            } else if kind.is_file() {
                let name = path.strip_prefix(program)?.to_string_lossy().into_owned();
                files.insert(name, fs::read(&path).map_err(|error| failed(&path, &error))?);
            }
        }
    }
    Ok(Files(files))
}

/// Turns a key of the graph into a name of the benchmark.
fn name(key: &str) -> Option<String> {
    if let Some(path) = key.strip_prefix("external:python:") {
        let builtin = path.strip_prefix("builtins.").map(|name| format!("<builtin>.{name}"));
        return Some(builtin.unwrap_or_else(|| path.to_owned()));
    }
    let (path, symbol) = key.split_once('#')?;
    let module = path.strip_suffix(".py")?;
    let module = module.strip_suffix("/__init__").unwrap_or(module).replace('/', ".");
    let symbol = symbol.split('~').next().unwrap_or_default();
    Some(if symbol.is_empty() { module } else { format!("{module}.{symbol}") })
}

fn failed(path: &Path, error: &dyn std::fmt::Display) -> Box<dyn Error> {
    format!("cannot use {}: {error}", path.display()).into()
}
