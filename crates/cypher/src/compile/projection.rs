//! Projections by `WITH` and `RETURN`: columns, groups, order and limits.

use super::aggregation::{Mode, Replacement, has_aggregation, is_aggregation, is_simple};
use super::scope::{Scope, Variable};
use super::types::Type;
use super::{Compiler, Typed, wrong_type};
use crate::ast::{Expression as Source, Item, Kind, Name, Projection};
use crate::error::{Detail, Error, Result};
use crate::program::{Barrier, Expression, Slot, SortKey, Stage, Step};
use crate::value::Value;

/// Maximum number of columns.
const MAXIMUM_COLUMNS: usize = 1000;

/// A projected column.
#[derive(Debug, Clone)]
pub(super) struct Column {
    pub(super) name: Name,
    pub(super) slot: Slot,
    kind: Type,
    source: Source,
    /// True if an aggregation is part of it.
    aggregates: bool,
}

impl Compiler<'_> {
    /// Compiles a projection. Afterwards only its columns are in scope.
    pub(super) fn projection(
        &mut self,
        projection: &Projection,
        filter: Option<&Source>,
        at: usize,
        is_return: bool,
    ) -> Result<Vec<Column>> {
        let items = self.items(projection, at, is_return)?;
        let aggregates = items.iter().any(|item| has_aggregation(&item.expression));
        let mut replacements = Vec::new();
        let columns = if aggregates { self.grouped(&items, &mut replacements)? } else { self.plain(&items)? };
        let slots: Vec<Slot> = columns.iter().map(|column| column.slot).collect();
        if projection.distinct {
            let state = self.next_state();
            self.step(Step::Distinct { slots: slots.clone(), state });
        }
        // Without a grouping, the variables before the projection stay visible up to its end.
        let before = std::mem::take(&mut self.scope);
        let hides = aggregates || projection.distinct;
        self.scope = if hides { Scope::default() } else { before.clone() };
        for column in &columns {
            self.scope.define(&column.name, column.slot, column.kind.clone());
        }
        let mut kept = slots;
        if filter.is_some() && !hides {
            kept.extend(before.variables.iter().map(|variable| variable.slot));
        }
        kept.sort_unstable();
        kept.dedup();
        if hides {
            replacements.extend(columns.iter().map(Column::replacement));
        }
        self.order(projection, &columns, &replacements, kept, aggregates)?;
        if let Some(filter) = filter {
            replacements.retain(|replacement| !has_aggregation(&replacement.source));
            let outer = std::mem::replace(&mut self.replacements, replacements);
            let condition = self.predicate(filter);
            self.replacements = outer;
            self.step(Step::Filter(condition?.expression));
        }
        if !is_return {
            check_names(&items)?;
        }
        self.scope = Scope::default();
        for column in &columns {
            self.scope.define(&column.name, column.slot, column.kind.clone());
        }
        Ok(columns)
    }

    fn items(&self, projection: &Projection, at: usize, is_return: bool) -> Result<Vec<Item>> {
        let mut items = Vec::new();
        if projection.all {
            let visible = self.scope.visible();
            if visible.is_empty() && is_return {
                let message = "`RETURN *` has nothing to return: no variable is defined.";
                return Err(Error::syntax(Detail::NoVariablesInScope, at, message));
            }
            items.extend(visible.into_iter().map(|Variable { name, .. }| Item {
                expression: Source::new(at, Kind::Variable(name.clone())),
                alias: None,
                text: name,
            }));
        }
        items.extend(projection.items.iter().cloned());
        if items.len() > MAXIMUM_COLUMNS {
            let message =
                format!("More than {MAXIMUM_COLUMNS} columns are projected: collect them in a map.");
            return Err(Error::syntax(Detail::QueryTooComplex, at, message));
        }
        let mut names = std::collections::HashSet::new();
        for item in &items {
            let name = item.alias.as_ref().unwrap_or(&item.text);
            if !names.insert(name.clone()) {
                let message = format!("Two columns have the name `{name}`.");
                return Err(Error::syntax(Detail::ColumnNameConflict, item.expression.at.0, message));
            }
        }
        Ok(items)
    }

    fn plain(&mut self, items: &[Item]) -> Result<Vec<Column>> {
        let mut columns = Vec::with_capacity(items.len());
        let mut projected = Vec::new();
        for item in items {
            let Typed { expression, kind } = self.expression(&item.expression)?;
            let slot = self.slot_of(item, expression, &mut projected);
            columns.push(Column::new(item, slot, kind, false));
        }
        if !projected.is_empty() {
            self.step(Step::Project(projected));
        }
        Ok(columns)
    }

    /// Returns the slot of a column; a variable keeps the slot that it has.
    fn slot_of(&mut self, item: &Item, value: Expression, projected: &mut Vec<(Expression, Slot)>) -> Slot {
        if let Expression::Slot(slot) = value {
            return slot;
        }
        let slot = self.slot(item.alias.as_ref().unwrap_or(&item.text));
        projected.push((value, slot));
        slot
    }

    /// Compiles a projection with aggregations: its other columns are the keys of the groups.
    fn grouped(&mut self, items: &[Item], replacements: &mut Vec<Replacement>) -> Result<Vec<Column>> {
        let mut groups = Vec::new();
        let mut keys = Vec::new();
        for item in items.iter().filter(|item| !has_aggregation(&item.expression)) {
            let Typed { expression, kind } = self.expression(&item.expression)?;
            let slot = match expression {
                Expression::Slot(slot) => slot,
                _ => self.slot(item.alias.as_ref().unwrap_or(&item.text)),
            };
            groups.push((expression, slot));
            keys.push(Column::new(item, slot, kind, false));
        }
        let simple = keys.iter().filter(|key| is_simple(&key.source)).map(Column::replacement).collect();
        let outer = std::mem::replace(&mut self.replacements, simple);
        let watermark = self.names.len();
        self.aggregation = Mode::Collecting { aggregates: Vec::new(), watermark };
        let compiled = self.aggregating(items, keys);
        let mode = std::mem::replace(&mut self.aggregation, Mode::Forbidden);
        replacements.extend(std::mem::replace(&mut self.replacements, outer));
        let (columns, projected) = compiled?;
        let aggregates = match mode {
            Mode::Collecting { aggregates, .. } => aggregates,
            _ => Vec::new(),
        };
        self.barrier(Barrier::Aggregate { groups, aggregates });
        if !projected.is_empty() {
            self.step(Step::Project(projected));
        }
        Ok(columns)
    }

    #[expect(clippy::type_complexity, reason = "the pair has one caller")]
    fn aggregating(
        &mut self,
        items: &[Item],
        keys: Vec<Column>,
    ) -> Result<(Vec<Column>, Vec<(Expression, Slot)>)> {
        let mut keys = keys.into_iter();
        let mut columns = Vec::with_capacity(items.len());
        let mut projected = Vec::new();
        for item in items {
            if !has_aggregation(&item.expression) {
                columns.extend(keys.next());
                continue;
            }
            let Typed { expression, kind } = self.expression(&item.expression)?;
            let slot = self.slot_of(item, expression, &mut projected);
            columns.push(Column::new(item, slot, kind, true));
        }
        Ok((columns, projected))
    }

    /// Ends the current stage.
    fn barrier(&mut self, barrier: Barrier) {
        let mut stage = std::mem::take(&mut self.current);
        stage.barrier = Some(barrier);
        self.finished.push(stage);
        self.current = Stage::default();
    }

    fn next_state(&mut self) -> usize {
        self.current.states += 1;
        self.current.states - 1
    }

    fn order(
        &mut self,
        projection: &Projection,
        columns: &[Column],
        replacements: &[Replacement],
        kept: Vec<Slot>,
        aggregates: bool,
    ) -> Result<()> {
        let skip = projection.skip.as_ref().map(|count| self.count(count, "SKIP")).transpose()?;
        let limit = projection.limit.as_ref().map(|count| self.count(count, "LIMIT")).transpose()?;
        if projection.order.is_empty() {
            if let Some(count) = skip {
                let state = self.next_state();
                self.step(Step::Skip { count, state });
            }
            if let Some(count) = limit {
                let state = self.next_state();
                self.step(Step::Limit { count, state });
            }
            return Ok(());
        }
        let mut keys = Vec::with_capacity(projection.order.len());
        for order in &projection.order {
            let is_mixed = has_aggregation(&order.expression);
            let usable = |replacement: &&Replacement| {
                !is_mixed
                    || replacement.source == order.expression
                    || is_simple(&replacement.source)
                    || is_aggregation(&replacement.source)
            };
            let usable = replacements.iter().filter(usable).cloned().collect();
            let outer = std::mem::replace(&mut self.replacements, usable);
            if aggregates {
                let key_names = if is_mixed { names_of_keys(columns) } else { Vec::new() };
                self.aggregation = Mode::Grouped { key_names };
            }
            let compiled = self.expression(&order.expression);
            self.aggregation = Mode::Forbidden;
            self.replacements = outer;
            keys.push(SortKey { expression: compiled?.expression, descending: order.descending });
        }
        self.barrier(Barrier::Sort { keys, slots: kept, skip, limit });
        Ok(())
    }

    /// Compiles the count of `SKIP` or `LIMIT`, which depends on no row.
    fn count(&mut self, source: &Source, clause: &str) -> Result<Expression> {
        let at = source.at.0;
        let depends_on_row = |part: &Source| {
            matches!(
                part.kind,
                Kind::Variable(_)
                    | Kind::Pattern(_)
                    | Kind::PatternComprehension { .. }
                    | Kind::Subquery { .. }
            )
        };
        if source.any(&depends_on_row) {
            let message = format!("`{clause}` takes a number that depends on no row.");
            return Err(Error::syntax(Detail::NonConstantExpression, at, message));
        }
        match &source.kind {
            Kind::Literal(Value::Integer(count)) if *count < 0 => {
                let message = format!("`{clause}` takes no negative number.");
                return Err(Error::syntax(Detail::NegativeIntegerArgument, at, message));
            }
            Kind::Literal(value) if !matches!(value, Value::Integer(_)) => {
                let message = format!("`{clause}` takes an integer, and not {}.", value.type_name());
                return Err(wrong_type(at, message));
            }
            _ => {}
        }
        Ok(self.expression(source)?.expression)
    }
}

impl Column {
    fn new(item: &Item, slot: Slot, kind: Type, aggregates: bool) -> Self {
        let name = item.alias.clone().unwrap_or_else(|| item.text.clone());
        Self { name, slot, kind, source: item.expression.clone(), aggregates }
    }

    fn replacement(&self) -> Replacement {
        Replacement { source: self.source.clone(), slot: self.slot, kind: self.kind.clone() }
    }
}

/// Checks that every column of `WITH` has a name.
fn check_names(items: &[Item]) -> Result<()> {
    let is_nameless = |item: &&Item| item.alias.is_none() && item.expression.as_variable().is_none();
    match items.iter().find(is_nameless) {
        None => Ok(()),
        Some(item) => {
            let message = format!("`{}` needs a name in `WITH`: add `AS name`.", item.text);
            Err(Error::syntax(Detail::NoExpressionAlias, item.expression.at.0, message))
        }
    }
}

/// Returns the variables in the keys of groups that are more than a variable or its property.
fn names_of_keys(columns: &[Column]) -> Vec<Name> {
    let keys = columns.iter().filter(|column| !column.aggregates && !is_simple(&column.source));
    let mut names = Vec::new();
    let mut open: Vec<&Source> = keys.map(|column| &column.source).collect();
    while let Some(source) = open.pop() {
        names.extend(source.as_variable().cloned());
        open.extend(source.children());
    }
    names
}
