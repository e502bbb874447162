//! The scenarios of the openCypher test suite, from commit 677cbafabb8c of `opencypher/openCypher`.
//!
//! A scenario is skipped by one of two rules. Its query uses temporal functions, which the engine does not
//! have. Or its query writes, which the parser refuses, and the scenario expects something else.
//! `known_failures.txt` lists the others that fail, each with its reason; a listed one must fail.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cypher::{
    Answer, Detail, Error, Field, FieldType, Graph, Limits, MemoryGraph, Options, Parameters, Phase,
    Procedures, Signature, Value, query,
};

use crate::gherkin::{Scenario, Step, scenarios};
use crate::rendered;
use crate::setup::Store;

/// Number of scenarios that pass. It only grows.
const PASSED: usize = 1809;

/// The result of one scenario.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Clone)]
enum Outcome {
    Passed,
    SkippedTemporal,
    SkippedWriting,
    Failed(String),
}

#[test]
fn the_test_suite_of_opencypher_passes() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tck");
    let known = known_failures(include_str!("known_failures.txt"));
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut wrong = Vec::new();
    let mut failed = Vec::new();
    for path in features(&folder) {
        let text = std::fs::read_to_string(&path).unwrap();
        let feature = path.strip_prefix(&folder).unwrap().display().to_string();
        for scenario in scenarios(&text) {
            let name = format!("{feature}: {}", scenario.name);
            let outcome = run(&folder, &scenario);
            let kind = match &outcome {
                Outcome::Passed => "passed",
                Outcome::SkippedTemporal => "skipped: temporal functions",
                Outcome::SkippedWriting => "skipped: writes",
                Outcome::Failed(_) => "failed",
            };
            *counts.entry(kind).or_default() += 1;
            match outcome {
                Outcome::Failed(why) => {
                    if !known.contains_key(&name) {
                        wrong.push(format!("{name}\n    {why}"));
                    }
                    failed.push(name);
                }
                _ if known.contains_key(&name) => {
                    wrong.push(format!("{name}\n    is listed, and does not fail"));
                }
                _ => {}
            }
        }
    }
    println!("{counts:#?}");
    wrong.extend(
        known
            .keys()
            .filter(|name| !failed.contains(name))
            .map(|name| format!("{name} is no scenario that fails")),
    );
    assert!(wrong.is_empty(), "{} scenarios are wrong\n{}\n{counts:#?}", wrong.len(), wrong.join("\n"));
    assert_eq!(counts["passed"], PASSED, "set PASSED to the number of scenarios that pass");
}

/// Returns the listed failures with their reasons: lines of scenario, ` | `, and reason.
fn known_failures(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let split = |line: &str| {
        let (name, reason) = line.rsplit_once(" | ").unwrap_or_else(|| panic!("no reason: {line}"));
        (name.to_owned(), reason.to_owned())
    };
    lines.map(split).collect()
}

fn features(folder: &Path) -> Vec<PathBuf> {
    let mut open = vec![folder.to_path_buf()];
    let mut features = Vec::new();
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "feature") {
                features.push(path);
            }
        }
    }
    features.sort();
    features
}

/// The state of one scenario.
#[derive(Default)]
struct World {
    store: Store,
    graph: Option<MemoryGraph>,
    parameters: Parameters,
    procedures: TestProcedures,
    result: Option<Result<Answer, Error>>,
}

fn run(folder: &Path, scenario: &Scenario) -> Outcome {
    let documents = scenario.steps.iter().filter_map(|step| step.document.as_deref());
    if documents.clone().any(is_temporal) {
        return Outcome::SkippedTemporal;
    }
    let mut world = World::default();
    for step in &scenario.steps {
        match world.step(folder, step) {
            Ok(()) => {}
            Err(Outcome::Failed(why)) => {
                let texts: Vec<&str> = documents.clone().collect();
                return Outcome::Failed(format!(
                    "{why}\n    {}",
                    texts.join("\n    ").replace('\n', "\n    ")
                ));
            }
            Err(outcome) => return outcome,
        }
    }
    Outcome::Passed
}

/// Returns true if a query calls a temporal function.
fn is_temporal(query: &str) -> bool {
    let names = ["date", "time", "datetime", "localtime", "localdatetime", "duration"];
    let lower = query.to_lowercase();
    lower.match_indices(['(', '.']).any(|(at, _)| {
        let before = &lower[..at];
        let word = before.rsplit(|c: char| !c.is_alphanumeric() && c != '.').next().unwrap_or_default();
        names.contains(&word)
    })
}

impl World {
    fn step(&mut self, folder: &Path, step: &Step) -> Result<(), Outcome> {
        let text = step.text.trim_end_matches(':');
        if text == "an empty graph" || text == "any graph" || text.contains("side effects") {
            return Ok(());
        }
        if let Some(name) = text.strip_prefix("the ").and_then(|text| text.strip_suffix(" graph")) {
            let path = folder.join(format!("graphs/{name}.cypher"));
            self.store.run(&std::fs::read_to_string(path).unwrap(), &self.parameters);
        } else if text == "having executed" {
            self.store.run(step.document.as_ref().unwrap(), &self.parameters);
        } else if text == "parameters are" {
            for row in &step.table {
                self.parameters.insert(row[0].clone(), literal(&row[1]));
            }
        } else if let Some(signature) = text.strip_prefix("there exists a procedure ") {
            self.procedures.add(signature, &step.table);
        } else if text == "executing query" || text == "executing control query" {
            self.execute(step.document.as_ref().unwrap());
        } else if text.contains("should be raised") {
            return self.check_error(text);
        } else if text.starts_with("the result should be") {
            return self.check_result(text, &step.table);
        } else {
            panic!("unknown step: {text}");
        }
        Ok(())
    }

    fn execute(&mut self, text: &str) {
        let graph = self.graph.get_or_insert_with(|| self.store.graph());
        let options = Options {
            limits: Limits { rows: 1_000_000, ..Limits::default() },
            strict_names: false,
            procedures: &self.procedures,
            cancel: None,
        };
        self.result = Some(query(graph, text, &self.parameters, &options));
    }

    fn check_error(&self, text: &str) -> Result<(), Outcome> {
        let (class, rest) = text.trim_start_matches("a ").split_once(" should be raised at ").unwrap();
        let (phase, detail) = rest.split_once(": ").unwrap();
        let error = match self.result.as_ref().unwrap() {
            Err(error) => error,
            Ok(answer) => {
                return Err(Outcome::Failed(format!("expected {text}, got {} rows", answer.rows.len())));
            }
        };
        let found = if error.phase == Phase::Runtime { "runtime" } else { "compile time" };
        let matches = format!("{:?}", error.class) == class
            && (phase == "any time" || phase == found)
            && (detail == "*" || detail == error.detail.name());
        if matches {
            Ok(())
        } else if error.detail == Detail::WritingClause {
            Err(Outcome::SkippedWriting)
        } else {
            Err(Outcome::Failed(format!("expected {text}, got {error} at {found}")))
        }
    }

    fn check_result(&self, text: &str, table: &[Vec<String>]) -> Result<(), Outcome> {
        let answer = match self.result.as_ref().unwrap() {
            Ok(answer) => answer,
            Err(error) if error.detail == Detail::WritingClause => return Err(Outcome::SkippedWriting),
            Err(error) => return Err(Outcome::Failed(format!("got an error: {error}"))),
        };
        let graph = self.graph.as_ref().unwrap();
        let any_list_order = text.contains("ignoring element order for lists");
        let render = |value: &Value| rendered::value(graph, value, any_list_order);
        let mut found: Vec<Vec<String>> =
            answer.rows.iter().map(|row| row.iter().map(render).collect()).collect();
        let expect = |cell: &String| rendered::expected(cell, any_list_order);
        let mut expected: Vec<Vec<String>> =
            table.iter().skip(1).map(|row| row.iter().map(expect).collect()).collect();
        if !text.contains("in order") {
            found.sort();
            expected.sort();
        }
        let columns = table.first().cloned().unwrap_or_default();
        if !table.is_empty() && columns != answer.columns {
            return Err(Outcome::Failed(format!("expected columns {columns:?}, got {:?}", answer.columns)));
        }
        if found != expected {
            return Err(Outcome::Failed(format!("expected {expected:?},\n         got {found:?}")));
        }
        Ok(())
    }
}

/// Returns the value of a literal of the suite.
fn literal(text: &str) -> Value {
    let answer = query(
        &MemoryGraph::default(),
        &format!("RETURN {text} AS value"),
        &Parameters::new(),
        &Options::default(),
    );
    answer.unwrap_or_else(|error| panic!("no literal: {text}: {error}")).rows.remove(0).remove(0)
}

/// Procedures whose rows a scenario lists.
#[derive(Default)]
struct TestProcedures(BTreeMap<String, (Signature, Vec<Vec<Value>>)>);

impl TestProcedures {
    fn add(&mut self, text: &str, table: &[Vec<String>]) {
        let (name, rest) = text.split_once('(').unwrap();
        let (arguments, outputs) = rest.split_once(") :: ").unwrap();
        let outputs =
            outputs.trim().trim_start_matches('(').trim_end_matches([':', ' ']).trim_end_matches(')');
        let signature = Signature { arguments: fields(arguments), outputs: fields(outputs) };
        let rows = table.iter().skip(1).map(|row| row.iter().map(|cell| literal(cell)).collect()).collect();
        self.0.insert(name.to_owned(), (signature, rows));
    }
}

fn fields(text: &str) -> Vec<Field> {
    let parts = text.split(',').filter(|part| !part.trim().is_empty());
    let field = |part: &str| {
        let (name, kind) = part.split_once("::").unwrap();
        let field_type = match kind.trim().trim_end_matches('?') {
            "INTEGER" => FieldType::Integer,
            "FLOAT" => FieldType::Float,
            "NUMBER" => FieldType::Number,
            "STRING" => FieldType::String,
            "BOOLEAN" => FieldType::Boolean,
            _ => FieldType::Any,
        };
        Field { name: name.trim().into(), field_type }
    };
    parts.map(field).collect()
}

impl Procedures for TestProcedures {
    fn signature(&self, name: &str) -> Option<Signature> {
        self.0.get(name).map(|(signature, _)| signature.clone())
    }

    fn names(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }

    fn call(&self, name: &str, arguments: &[Value], _: &dyn Graph) -> cypher::Result<Vec<Vec<Value>>> {
        let (signature, rows) = &self.0[name];
        let count = signature.arguments.len();
        let same = |one: &Value, two: &Value| cypher::total_order(one, two).is_eq();
        let fits = |row: &&Vec<Value>| row[..count].iter().zip(arguments).all(|(one, two)| same(one, two));
        Ok(rows.iter().filter(fits).map(|row| row[count..].to_vec()).collect())
    }
}
