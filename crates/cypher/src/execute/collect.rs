//! Barriers: rows are kept until all have come, and then passed on in order.

use std::cmp::Ordering;
use std::collections::HashMap;

use super::Execution;
use super::aggregate::Accumulator;
use crate::error::Result;
use crate::meter::Hold;
use crate::program::{Aggregate, Barrier, Expression, Slot, SortKey};
use crate::row::Row;
use crate::value::{Equivalent, Value, total_order};

/// A barrier with what it has collected.
pub(super) struct Collector<'r> {
    execution: &'r Execution<'r>,
    hold: Hold<'r>,
    kind: Kind<'r>,
}

enum Kind<'r> {
    Groups(Groups<'r>),
    Rows(Sorted<'r>),
}

/// Rows that leave a barrier. Their memory counts until they are dropped.
pub(super) struct Collected<'r> {
    pub(super) slots: Vec<Slot>,
    pub(super) rows: Box<dyn Iterator<Item = Vec<Value>> + 'r>,
    _hold: Hold<'r>,
}

struct Groups<'r> {
    groups: &'r [(Expression, Slot)],
    aggregates: &'r [(Aggregate, Slot)],
    numbers: HashMap<Box<[Equivalent]>, usize>,
    accumulators: Vec<Vec<Accumulator>>,
    /// The keys of the current row, kept to save an allocation for each row.
    scratch: Vec<Equivalent>,
}

struct Sorted<'r> {
    keys: &'r [SortKey],
    slots: &'r [Slot],
    skip: usize,
    limit: Option<usize>,
    /// The keys and the values of each row.
    rows: Vec<(Vec<Value>, Vec<Value>)>,
}

impl Execution<'_> {
    pub(super) fn collector<'r>(&'r self, barrier: &'r Barrier, row: &mut Row) -> Result<Collector<'r>> {
        let kind = match barrier {
            Barrier::Aggregate { groups, aggregates } => {
                let (numbers, accumulators) = (HashMap::new(), Vec::new());
                Kind::Groups(Groups { groups, aggregates, numbers, accumulators, scratch: Vec::new() })
            }
            Barrier::Sort { keys, slots, skip, limit } => {
                let mut count = |count: &Option<Expression>| {
                    let count = count.as_ref().map(|count| self.count(count, row)).transpose()?;
                    Ok(count.map(|count| usize::try_from(count).unwrap_or(usize::MAX)))
                };
                let (skip, limit) = (count(skip)?.unwrap_or(0), count(limit)?);
                Kind::Rows(Sorted { keys, slots, skip, limit, rows: Vec::new() })
            }
        };
        Ok(Collector { execution: self, hold: self.meter.hold(0)?, kind })
    }
}

impl<'r> Collector<'r> {
    /// Takes a row in.
    pub(super) fn add(&mut self, row: &mut Row) -> Result<super::Flow> {
        match &mut self.kind {
            Kind::Groups(groups) => groups.add(self.execution, &mut self.hold, row)?,
            Kind::Rows(rows) => rows.add(self.execution, &mut self.hold, row)?,
        }
        Ok(super::Flow::Continue)
    }

    /// Returns the rows that the barrier passes on.
    pub(super) fn finish(self) -> Result<Collected<'r>> {
        let (slots, rows): (_, Box<dyn Iterator<Item = Vec<Value>>>) = match self.kind {
            Kind::Groups(groups) => (groups.slots(), Box::new(groups.finish(self.execution)?.into_iter())),
            Kind::Rows(mut rows) => {
                rows.sort();
                let kept = rows.rows.into_iter().skip(rows.skip);
                (rows.slots.to_vec(), Box::new(kept.map(|(_, values)| values)))
            }
        };
        Ok(Collected { slots, rows, _hold: self.hold })
    }
}

impl Groups<'_> {
    fn slots(&self) -> Vec<Slot> {
        let groups = self.groups.iter().map(|(_, slot)| *slot);
        groups.chain(self.aggregates.iter().map(|(_, slot)| *slot)).collect()
    }

    fn add(&mut self, execution: &Execution<'_>, hold: &mut Hold<'_>, row: &mut Row) -> Result<()> {
        self.scratch.clear();
        for (expression, _) in self.groups {
            self.scratch.push(Equivalent(execution.evaluate(expression, row)?));
        }
        let number = match self.numbers.get(self.scratch.as_slice()) {
            Some(number) => *number,
            None => self.new_group(execution, hold, row)?,
        };
        if let Some(accumulators) = self.accumulators.get_mut(number) {
            for (accumulator, (aggregate, _)) in accumulators.iter_mut().zip(self.aggregates) {
                accumulator.add(execution, aggregate, hold, row)?;
            }
        }
        Ok(())
    }

    fn new_group(&mut self, execution: &Execution<'_>, hold: &mut Hold<'_>, row: &mut Row) -> Result<usize> {
        let keys: Box<[Equivalent]> = std::mem::take(&mut self.scratch).into();
        let weight = keys.iter().map(|key| key.0.weight()).sum::<usize>() + 64 + 64 * self.aggregates.len();
        execution.meter.check(weight)?;
        hold.grow(weight);
        let create = |(aggregate, _): &(Aggregate, Slot)| Accumulator::new(execution, aggregate, row);
        self.accumulators.push(self.aggregates.iter().map(create).collect::<Result<_>>()?);
        self.numbers.insert(keys, self.accumulators.len() - 1);
        Ok(self.accumulators.len() - 1)
    }

    fn finish(mut self, execution: &Execution<'_>) -> Result<Vec<Vec<Value>>> {
        if self.groups.is_empty() && self.accumulators.is_empty() {
            // Without keys there is always one group, also of no rows.
            let mut row = Row::new(0);
            let create =
                |(aggregate, _): &(Aggregate, Slot)| Accumulator::new(execution, aggregate, &mut row);
            self.accumulators.push(self.aggregates.iter().map(create).collect::<Result<_>>()?);
            self.numbers.insert(Box::default(), 0);
        }
        let mut rows: Vec<Vec<Value>> = vec![Vec::new(); self.accumulators.len()];
        for (keys, number) in self.numbers {
            if let Some(row) = rows.get_mut(number) {
                row.extend(keys.into_iter().map(|key| key.0));
            }
        }
        for (row, accumulators) in rows.iter_mut().zip(self.accumulators) {
            for accumulator in accumulators {
                row.push(execution.checked(accumulator.finish())?);
            }
        }
        Ok(rows)
    }
}

impl Sorted<'_> {
    fn add(&mut self, execution: &Execution<'_>, hold: &mut Hold<'_>, row: &mut Row) -> Result<()> {
        let mut keys = Vec::with_capacity(self.keys.len());
        for key in self.keys {
            keys.push(execution.evaluate(&key.expression, row)?);
        }
        let values: Vec<Value> = self.slots.iter().map(|slot| row.get(*slot).clone()).collect();
        let weight = weight(&keys, &values);
        execution.meter.check(weight)?;
        hold.grow(weight);
        self.rows.push((keys, values));
        // With a limit, only the first rows are kept.
        let most = self.limit.map_or(usize::MAX, |limit| limit.saturating_add(self.skip));
        if self.rows.len() >= most.saturating_mul(2).saturating_add(256) {
            self.sort();
            let kept = self.rows.iter().map(|(keys, values)| self::weight(keys, values)).sum();
            hold.reset(kept);
        }
        Ok(())
    }

    /// Sorts the rows, and drops those beyond the limit.
    fn sort(&mut self) {
        self.rows.sort_by(|one, two| order(self.keys, &one.0, &two.0));
        if let Some(limit) = self.limit {
            self.rows.truncate(limit.saturating_add(self.skip));
        }
    }
}

fn weight(keys: &[Value], values: &[Value]) -> usize {
    keys.iter().chain(values).map(Value::weight).sum::<usize>() + 48
}

fn order(keys: &[SortKey], one: &[Value], two: &[Value]) -> Ordering {
    let orders = keys.iter().zip(one.iter().zip(two)).map(|(key, (one, two))| {
        let order = total_order(one, two);
        if key.descending { order.reverse() } else { order }
    });
    orders.into_iter().find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}
