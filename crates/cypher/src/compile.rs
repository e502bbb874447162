//! The compiler: from the tree of a query to its program. It resolves names, checks what the language demands
//! before the first row, and asks the planner for the order of each `MATCH`. It reads no property of the graph.

use std::sync::Arc;

use crate::ast::{self, Name};
use crate::error::{Detail, Error, ErrorClass, Result};
use crate::graph::Graph;
use crate::meter::Meter;
use crate::procedures::Procedures;
use crate::program::{Expression, Part, Pipeline, Program, Slot, Stage, Step};
use crate::value::Value;

mod aggregation;
mod call;
mod clause;
mod expression;
mod names;
mod pattern;
mod projection;
mod scope;
mod subquery;
mod types;

use scope::Scope;
use types::Type;

/// The settings of a compilation.
pub(crate) struct Settings<'a> {
    pub(crate) graph: &'a dyn Graph,
    pub(crate) procedures: &'a dyn Procedures,
    pub(crate) meter: &'a Meter<'a>,
    /// True if an unknown label, type or key is an error.
    pub(crate) strict_names: bool,
    /// Maximum length of a path whose pattern has no maximum.
    pub(crate) maximum_hops: u32,
    /// Returns the value of a parameter, for estimates.
    pub(crate) parameter: &'a dyn Fn(&str) -> Option<Value>,
}

/// The use of the rows of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// The rows are the answer, so the query ends with `RETURN`.
    Rows,
    /// The existence of a row is asked for.
    Exists,
    /// The number of rows is asked for.
    Count,
}

/// Compiles a query.
pub(crate) fn compile(query: &ast::Query, settings: &Settings<'_>) -> Result<Program> {
    let mut compiler = Compiler {
        settings,
        names: Vec::new(),
        parameters: Vec::new(),
        scope: Scope::default(),
        referenced: Vec::new(),
        replacements: Vec::new(),
        aggregation: aggregation::Mode::Forbidden,
        current: Stage::default(),
        finished: Vec::new(),
    };
    let (parts, columns) = compiler.union(&query.union, Purpose::Rows)?;
    let Compiler { names, parameters, .. } = compiler;
    Ok(Program { parts, columns, all: query.union.all, names, parameters })
}

/// A compilation in progress.
struct Compiler<'a> {
    settings: &'a Settings<'a>,
    names: Vec<Name>,
    parameters: Vec<Name>,
    scope: Scope,
    /// Every slot that a name was resolved to, in order.
    referenced: Vec<Slot>,
    /// Expressions that have a value in a slot already.
    replacements: Vec<aggregation::Replacement>,
    aggregation: aggregation::Mode,
    /// The stage that clauses add their steps to.
    current: Stage,
    finished: Vec<Stage>,
}

/// An expression with its type, as far as it is known.
struct Typed {
    expression: Expression,
    kind: Type,
}

impl Compiler<'_> {
    /// Compiles the parts of a union, with the names of their columns.
    fn union(&mut self, union: &ast::Union, purpose: Purpose) -> Result<(Vec<Part>, Vec<Name>)> {
        let mut parts = Vec::new();
        let mut columns: Option<Vec<Name>> = None;
        for clauses in &union.parts {
            let scope = self.scope.clone();
            let (outputs, names) = self.single_query(clauses, purpose)?;
            let pipeline = self.take_pipeline();
            self.scope = scope;
            if columns.as_ref().is_some_and(|known| *known != names) {
                let message = "The parts of a union have different columns.";
                return Err(Error::syntax(Detail::DifferentColumnsInUnion, union.at.0, message));
            }
            columns = Some(names);
            parts.push(Part { pipeline, outputs });
        }
        Ok((parts, columns.unwrap_or_default()))
    }

    fn step(&mut self, step: Step) {
        self.current.steps.push(step);
    }

    /// Returns the pipeline of the clauses so far.
    fn take_pipeline(&mut self) -> Pipeline {
        let mut stages = std::mem::take(&mut self.finished);
        stages.push(std::mem::take(&mut self.current));
        Pipeline { stages }
    }

    /// Runs a compilation whose steps do not become part of the current stage, and returns its pipeline.
    fn apart<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<(T, Pipeline)> {
        let current = std::mem::take(&mut self.current);
        let finished = std::mem::take(&mut self.finished);
        let result = work(self);
        let pipeline = self.take_pipeline();
        self.current = current;
        self.finished = finished;
        Ok((result?, pipeline))
    }

    /// Returns a new slot.
    fn slot(&mut self, name: &str) -> Slot {
        self.names.push(name.into());
        self.names.len() - 1
    }

    /// Returns a new slot for something without a name.
    fn hidden_slot(&mut self, kind: &str) -> Slot {
        let name = format!("_{kind}{}", self.names.len());
        self.slot(&name)
    }

    /// Returns the number of a parameter.
    fn parameter(&mut self, name: &Name) -> usize {
        let known = self.parameters.iter().position(|known| known == name);
        known.unwrap_or_else(|| {
            self.parameters.push(name.clone());
            self.parameters.len() - 1
        })
    }

    /// Returns the value of an expression that is known before the first row.
    fn known_value(&self, expression: &Expression) -> Option<Value> {
        match expression {
            Expression::Constant(value) => Some(value.clone()),
            Expression::Parameter(number) => {
                self.parameters.get(*number).and_then(|name| (self.settings.parameter)(name))
            }
            _ => None,
        }
    }
}

fn undefined(name: &str, at: usize) -> Error {
    Error::syntax(Detail::UndefinedVariable, at, format!("The variable `{name}` is not defined here."))
}

fn wrong_type(at: usize, message: impl Into<String>) -> Error {
    Error::compile(ErrorClass::SyntaxError, Detail::InvalidArgumentType, at, message)
}

/// Returns a name for something that has none in the query.
fn name(text: &str) -> Name {
    Arc::from(text)
}
