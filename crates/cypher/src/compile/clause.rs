//! The clauses of one query, in order.

use super::aggregation::has_aggregation;
use super::types::Type;
use super::{Compiler, Purpose};
use crate::ast::{Clause, ClauseKind, Expression as Source, Kind, Name, PathPattern};
use crate::error::{Detail, Error, Result};
use crate::functions::{self, AggregateFunction};
use crate::program::{Slot, Step};

impl Compiler<'_> {
    /// Compiles the clauses of one part of a union, and returns the slots and names of its columns.
    pub(super) fn single_query(
        &mut self,
        clauses: &[Clause],
        purpose: Purpose,
    ) -> Result<(Vec<Slot>, Vec<Name>)> {
        for (index, clause) in clauses.iter().enumerate() {
            let at = clause.at.0;
            match &clause.kind {
                ClauseKind::Match { optional, patterns, filter } => {
                    let next = clauses.get(index + 1);
                    let ends_only = next.map_or(purpose == Purpose::Exists, ignores_repetition);
                    self.match_clause(*optional, patterns, filter.as_ref(), ends_only)?;
                }
                ClauseKind::Unwind { list, name } => self.unwind(list, name)?,
                ClauseKind::With { projection, filter } => {
                    self.projection(projection, filter.as_ref(), at, false)?;
                }
                ClauseKind::Return(projection) => {
                    let columns = self.projection(projection, None, at, true)?;
                    return Ok(columns.into_iter().map(|column| (column.slot, column.name)).unzip());
                }
                ClauseKind::Call(call) => {
                    let is_alone = clauses.len() == 1 && purpose == Purpose::Rows;
                    let outputs = self.call(call, is_alone, at)?;
                    if is_alone {
                        return Ok(outputs.into_iter().unzip());
                    }
                }
            }
        }
        if purpose == Purpose::Rows {
            let at = clauses.last().map_or(0, |clause| clause.at.0);
            let message = "A query ends with `RETURN`.";
            return Err(Error::syntax(Detail::InvalidClauseComposition, at, message));
        }
        Ok((Vec::new(), Vec::new()))
    }

    fn match_clause(
        &mut self,
        optional: bool,
        patterns: &[PathPattern],
        filter: Option<&Source>,
        ends_only: bool,
    ) -> Result<()> {
        let known = self.scope.variables.len();
        let steps = self.matching(patterns, filter, true, ends_only)?;
        if optional {
            let introduced = self.scope.variables.get(known..).unwrap_or_default();
            let slots = introduced.iter().map(|variable| variable.slot).collect();
            self.step(Step::Optional { steps, slots });
        } else {
            self.current.steps.extend(steps);
        }
        Ok(())
    }

    fn unwind(&mut self, list: &Source, name: &Name) -> Result<()> {
        let compiled = self.expression(list)?;
        if self.scope.find(name).is_some() {
            let message = format!("The variable `{name}` is defined already.");
            return Err(Error::syntax(Detail::VariableAlreadyBound, list.at.0, message));
        }
        let kind = match &compiled.kind {
            Type::List(item) => (**item).clone(),
            Type::Any | Type::Null => Type::Any,
            scalar => scalar.clone(),
        };
        let slot = self.slot(name);
        self.scope.define(name, slot, kind);
        self.step(Step::Unwind { list: compiled.expression, slot });
        Ok(())
    }
}

/// Returns true if a clause gives the same rows however often a row before it is repeated.
fn ignores_repetition(clause: &Clause) -> bool {
    let (ClauseKind::With { projection, .. } | ClauseKind::Return(projection)) = &clause.kind else {
        return false;
    };
    let items = projection.items.iter().map(|item| &item.expression);
    let groups = items.clone().any(has_aggregation);
    let orders = projection.order.iter().map(|order| &order.expression);
    (groups || projection.distinct) && !items.chain(orders).any(|source| source.any(&counts_repetition))
}

/// Returns true for an aggregation whose result depends on how often a row is repeated.
fn counts_repetition(source: &Source) -> bool {
    match &source.kind {
        Kind::CountStar => true,
        Kind::Function { name, distinct, .. } => {
            let function = functions::aggregate(name).map(|(function, _)| function);
            let is_extreme =
                matches!(function, Some(AggregateFunction::Minimum | AggregateFunction::Maximum));
            function.is_some() && !distinct && !is_extreme || &**name == "rand"
        }
        _ => false,
    }
}
