//! One query from its text to its answer: parse, compile, execute.

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::compile::{Settings, compile};
use crate::error::{Detail, Error, ErrorClass, Phase, Result};
use crate::execute::{Execution, Flow};
use crate::explain;
use crate::graph::Graph;
use crate::meter::Meter;
use crate::parse::parse;
use crate::procedures::{Procedures, SchemaProcedures};
use crate::program::Program;
use crate::row::Row;
use crate::value::{Equivalent, MAXIMUM_DEPTH, Value};

/// The limits of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum time from the start of the compilation.
    pub time: Duration,
    /// Maximum number of rows of the answer; further rows are left out.
    pub rows: usize,
    /// Maximum size of all values that are kept at one time, in bytes.
    pub memory: usize,
    /// Maximum length of a path whose pattern has no maximum, or a larger one.
    pub hops: u32,
}

impl Default for Limits {
    /// Returns 5 seconds, 1,000 rows, 256 MiB and 32 hops.
    fn default() -> Self {
        Self { time: Duration::from_secs(5), rows: 1000, memory: 256 << 20, hops: 32 }
    }
}

/// The surroundings of a query.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// Limits.
    pub limits: Limits,
    /// True if an unknown label, relationship type or property key is an error that names the nearest ones.
    /// Otherwise it only matches nothing, as in openCypher.
    pub strict_names: bool,
    /// Procedures that `CALL` can call.
    pub procedures: &'a dyn Procedures,
    /// A flag that ends the query once it is true.
    pub cancel: Option<&'a AtomicBool>,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Self { limits: Limits::default(), strict_names: true, procedures: &SchemaProcedures, cancel: None }
    }
}

/// The parameters of a query by their names, without the dollar sign.
pub type Parameters = BTreeMap<String, Value>;

/// The rows of a query.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Answer {
    /// Names of the columns.
    pub columns: Vec<String>,
    /// Rows with one value for each column.
    pub rows: Vec<Vec<Value>>,
    /// True if rows were left out because of the limit.
    pub is_truncated: bool,
    /// True if longer paths were left out because of [`Limits::hops`].
    pub is_capped: bool,
}

/// Answers a query. `EXPLAIN` before it returns the plan, with one line a row.
///
/// # Errors
/// Returns an [`Error`] if the text is no query, if it writes, or if it exceeds a limit other than the
/// number of rows.
pub fn query(
    graph: &dyn Graph,
    text: &str,
    parameters: &Parameters,
    options: &Options<'_>,
) -> Result<Answer> {
    answer(graph, text, parameters, options).map_err(|error| error.locate(text))
}

fn answer(graph: &dyn Graph, text: &str, parameters: &Parameters, options: &Options<'_>) -> Result<Answer> {
    let meter = Meter::new(options.limits.time, options.limits.memory, options.cancel);
    let tree = parse(text)?;
    let settings = Settings {
        graph,
        procedures: options.procedures,
        meter: &meter,
        strict_names: options.strict_names,
        maximum_hops: options.limits.hops,
        parameter: &|name| parameters.get(name).cloned(),
    };
    let program = compile(&tree, &settings)?;
    if tree.explain {
        let rows = explain::lines(&program, graph).iter().map(|line| vec![Value::string(line)]).collect();
        return Ok(Answer { columns: vec!["plan".to_owned()], rows, ..Answer::default() });
    }
    let parameters = values(&program, parameters)?;
    let execution =
        Execution { graph, procedures: options.procedures, parameters: &parameters, meter: &meter };
    rows(&program, &execution, options.limits.rows)
}

/// Returns the values of the parameters that a query names.
fn values(program: &Program, parameters: &Parameters) -> Result<Vec<Value>> {
    let value = |name: &std::sync::Arc<str>| {
        let value = parameters.get(&**name).ok_or_else(|| Error {
            class: ErrorClass::ParameterMissing,
            detail: Detail::MissingParameter,
            phase: Phase::CompileTime,
            message: format!("The parameter `{name}` was not given."),
            position: None,
        })?;
        if value.depth() > MAXIMUM_DEPTH {
            let message = format!("The parameter `{name}` is nested deeper than {MAXIMUM_DEPTH} levels.");
            return Err(Error::limit(Detail::NestingTooDeep, message));
        }
        Ok(value.clone())
    };
    program.parameters.iter().map(value).collect()
}

fn rows(program: &Program, execution: &Execution<'_>, most: usize) -> Result<Answer> {
    let mut answer =
        Answer { columns: program.columns.iter().map(ToString::to_string).collect(), ..Answer::default() };
    let mut seen: HashSet<Vec<Equivalent>> = HashSet::new();
    let mut hold = execution.meter.hold(0)?;
    for part in &program.parts {
        let mut row = Row::new(program.names.len());
        execution.run(&part.pipeline, &mut row, &mut |row| {
            let values: Vec<Value> = part.outputs.iter().map(|slot| row.get(*slot).clone()).collect();
            if !program.all && !seen.insert(values.iter().cloned().map(Equivalent).collect()) {
                return Ok(Flow::Continue);
            }
            if answer.rows.len() >= most {
                answer.is_truncated = true;
                return Ok(Flow::Stop);
            }
            let weight = values.iter().map(Value::weight).sum::<usize>() + 32;
            execution.meter.check(weight)?;
            hold.grow(weight);
            answer.rows.push(values);
            Ok(Flow::Continue)
        })?;
        if answer.is_truncated {
            break;
        }
    }
    answer.is_capped = execution.meter.cap_mattered();
    Ok(answer)
}
