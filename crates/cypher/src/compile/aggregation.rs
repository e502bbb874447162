//! Aggregations: where they may stand, and what else may stand beside them.

use super::expression::typed;
use super::types::Type;
use super::{Compiler, Typed, undefined};
use crate::ast::{self, Kind, Name};
use crate::error::{Detail, Error, Result};
use crate::functions::{self, AggregateFunction};
use crate::program::{Aggregate, Expression, Slot};

/// The treatment of aggregations in the current expression.
#[derive(Debug)]
pub(super) enum Mode {
    /// No aggregation may stand here.
    Forbidden,
    /// The argument of an aggregation.
    Inside,
    /// Aggregations become slots. Variables below the watermark must be grouping keys.
    Collecting { aggregates: Vec<(Aggregate, Slot)>, watermark: Slot },
    /// The place behind a grouping, where aggregations must have been collected before. The names are those of the keys.
    Grouped { key_names: Vec<Name> },
}

/// An expression that has its value in a slot.
#[derive(Debug, Clone)]
pub(super) struct Replacement {
    pub(super) source: ast::Expression,
    pub(super) slot: Slot,
    pub(super) kind: Type,
}

/// Returns true if an expression is an aggregation itself.
pub(super) fn is_aggregation(source: &ast::Expression) -> bool {
    match &source.kind {
        Kind::CountStar => true,
        Kind::Function { name, .. } => functions::aggregate(name).is_some(),
        _ => false,
    }
}

/// Returns true if an expression contains an aggregation.
pub(super) fn has_aggregation(source: &ast::Expression) -> bool {
    source.any(&is_aggregation)
}

/// Returns true if an expression is a variable, or a property of one.
pub(super) fn is_simple(source: &ast::Expression) -> bool {
    match &source.kind {
        Kind::Variable(_) => true,
        Kind::Property(object, _) => object.as_variable().is_some(),
        _ => false,
    }
}

impl Compiler<'_> {
    pub(super) fn replacement(&mut self, source: &ast::Expression) -> Option<Typed> {
        let found = self.replacements.iter().find(|replacement| replacement.source == *source)?;
        let (slot, kind) = (found.slot, found.kind.clone());
        self.referenced.push(slot);
        Some(typed(Expression::Slot(slot), kind))
    }

    /// Compiles an aggregation.
    pub(super) fn aggregate(&mut self, source: &ast::Expression) -> Result<Typed> {
        let at = source.at.0;
        let mode = std::mem::replace(&mut self.aggregation, Mode::Inside);
        let Mode::Collecting { mut aggregates, watermark } = mode else {
            let (detail, message) = match mode {
                Mode::Inside => (
                    Detail::NestedAggregation,
                    "An aggregation stands within another one: compute the inner one in an earlier `WITH`.",
                ),
                Mode::Grouped { .. } => (
                    Detail::UndefinedVariable,
                    "`ORDER BY` can only use aggregations that are projected as well.",
                ),
                _ => (Detail::InvalidAggregation, "An aggregation may stand only in `WITH` and `RETURN`."),
            };
            self.aggregation = mode;
            return Err(Error::syntax(detail, at, message));
        };
        let replacements = std::mem::take(&mut self.replacements);
        let compiled = self.aggregate_call(source);
        self.replacements = replacements;
        let result = compiled.map(|(aggregate, kind)| {
            let slot = self.hidden_slot("aggregate");
            aggregates.push((aggregate, slot));
            self.replacements.push(Replacement { source: source.clone(), slot, kind: kind.clone() });
            typed(Expression::Slot(slot), kind)
        });
        self.aggregation = Mode::Collecting { aggregates, watermark };
        result
    }

    fn aggregate_call(&mut self, source: &ast::Expression) -> Result<(Aggregate, Type)> {
        let count = AggregateFunction::Count;
        let Kind::Function { name, written, distinct, arguments } = &source.kind else {
            let all = Aggregate { function: count, distinct: false, argument: None, share: None };
            return Ok((all, Type::Integer));
        };
        let (function, wanted) = functions::aggregate(name).unwrap_or((count, 1));
        if arguments.len() != wanted {
            let message = format!("`{written}` takes {wanted} arguments, and not {}.", arguments.len());
            return Err(Error::syntax(Detail::InvalidNumberOfArguments, source.at.0, message));
        }
        let is_random =
            |part: &ast::Expression| matches!(&part.kind, Kind::Function { name, .. } if &**name == "rand");
        if arguments.iter().any(|argument| argument.any(&is_random)) {
            let message = "An aggregation cannot contain `rand()`: compute it in an earlier `WITH`.";
            return Err(Error::syntax(Detail::NonConstantExpression, source.at.0, message));
        }
        let mut compiled = Vec::new();
        for argument in arguments {
            compiled.push(self.expression(argument)?);
        }
        let mut compiled = compiled.into_iter();
        let argument = compiled.next();
        let share = compiled.next().map(|share| share.expression);
        let argument_kind = argument.as_ref().map_or(Type::Any, |argument| argument.kind.clone());
        let kind = match function {
            AggregateFunction::Count => Type::Integer,
            AggregateFunction::Collect => Type::list(argument_kind),
            AggregateFunction::Minimum | AggregateFunction::Maximum => argument_kind,
            AggregateFunction::Sum => Type::Number,
            _ => Type::Any,
        };
        let argument = argument.map(|argument| argument.expression);
        Ok((Aggregate { function, distinct: *distinct, argument, share }, kind))
    }

    /// Runs a compilation in which no aggregation may stand. The check of grouping keys stays: the
    /// variables of an inner scope are above the watermark.
    pub(super) fn without_aggregation<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let Mode::Collecting { aggregates, .. } = &self.aggregation else {
            let mode = std::mem::replace(&mut self.aggregation, Mode::Forbidden);
            let result = work(self);
            self.aggregation = mode;
            return result;
        };
        let before = aggregates.len();
        let result = work(self);
        match &self.aggregation {
            Mode::Collecting { aggregates, .. } if aggregates.len() > before => {
                let message = "An aggregation may not stand within a comprehension or a subquery.";
                Err(Error::syntax(Detail::InvalidAggregation, 0, message))
            }
            _ => result,
        }
    }

    /// Checks that a variable beside an aggregation is a grouping key. Keys are replaced before this.
    pub(super) fn check_grouped(&self, name: &str, slot: Slot, at: usize) -> Result<()> {
        match &self.aggregation {
            Mode::Collecting { watermark, .. } if slot < *watermark => Err(ambiguous(name, at)),
            _ => Ok(()),
        }
    }

    /// Returns the error of a name that is not defined, or that is hidden by a grouping.
    pub(super) fn not_in_scope(&self, name: &Name, at: usize) -> Error {
        match &self.aggregation {
            Mode::Grouped { key_names } if key_names.contains(name) => ambiguous(name, at),
            _ => undefined(name, at),
        }
    }
}

fn ambiguous(name: &str, at: usize) -> Error {
    let message =
        format!("`{name}` stands beside an aggregation and is no grouping key: project it on its own.");
    Error::syntax(Detail::AmbiguousAggregationExpression, at, message)
}
