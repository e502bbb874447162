//! Rows in order. With a limit, only as many rows are kept as can still be passed on.

use std::cmp::Ordering;

use super::super::Execution;
use crate::error::Result;
use crate::meter::Hold;
use crate::program::{Slot, SortKey};
use crate::row::Row;
use crate::value::{Value, total_order};

/// Number of rows beyond twice the limit that are kept before they are sorted and cut.
const SLACK: usize = 256;

pub(super) struct Sorted<'r> {
    keys: &'r [SortKey],
    slots: &'r [Slot],
    skip: usize,
    /// The number of rows that can be passed on or skipped.
    most: usize,
    /// The keys and the values of each row.
    rows: Vec<(Vec<Value>, Vec<Value>)>,
    /// True if the last of `most` rows is at its place, so that a row behind it can be dropped.
    is_cut: bool,
    /// The keys of the current row.
    scratch: Vec<Value>,
}

/// The rows in their order.
pub(super) struct SortedRows<'r> {
    slots: &'r [Slot],
    rows: std::iter::Skip<std::vec::IntoIter<(Vec<Value>, Vec<Value>)>>,
}

impl<'r> Sorted<'r> {
    pub(super) fn new(keys: &'r [SortKey], slots: &'r [Slot], skip: u64, limit: Option<u64>) -> Self {
        let count = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
        let most = limit.map_or(usize::MAX, |limit| count(limit.saturating_add(skip)));
        let (rows, scratch) = (Vec::new(), Vec::new());
        Self { keys, slots, skip: count(skip), most, rows, is_cut: false, scratch }
    }

    pub(super) fn add(
        &mut self,
        execution: &Execution<'_>,
        hold: &mut Hold<'_>,
        row: &mut Row,
    ) -> Result<()> {
        self.scratch.clear();
        for key in self.keys {
            self.scratch.push(execution.evaluate(&key.expression, row)?);
        }
        let last = self.most.checked_sub(1).and_then(|last| self.rows.get(last)).filter(|_| self.is_cut);
        if last.is_some_and(|last| order(self.keys, &self.scratch, &last.0).is_ge()) {
            return Ok(());
        }
        let keys = std::mem::take(&mut self.scratch);
        let values: Vec<Value> = self.slots.iter().map(|slot| row.get(*slot).clone()).collect();
        let weight = weight(&keys, &values);
        execution.meter.check(weight)?;
        hold.grow(weight);
        self.rows.push((keys, values));
        if self.rows.len() >= self.most.saturating_mul(2).saturating_add(SLACK) {
            self.cut();
            hold.reset(self.rows.iter().map(|(keys, values)| self::weight(keys, values)).sum());
        }
        Ok(())
    }

    /// Sorts the rows, and drops those beyond the limit.
    fn cut(&mut self) {
        // The sort is stable, so rows with equal keys keep their order.
        self.rows.sort_by(|one, two| order(self.keys, &one.0, &two.0));
        self.rows.truncate(self.most);
        self.is_cut = true;
    }

    pub(super) fn finish(mut self) -> SortedRows<'r> {
        self.cut();
        SortedRows { slots: self.slots, rows: self.rows.into_iter().skip(self.skip) }
    }
}

impl SortedRows<'_> {
    pub(super) fn next_into(&mut self, row: &mut Row) -> bool {
        let Some((_, values)) = self.rows.next() else { return false };
        for (slot, value) in self.slots.iter().zip(values) {
            row.set(*slot, value);
        }
        true
    }
}

fn weight(keys: &[Value], values: &[Value]) -> usize {
    keys.iter().chain(values).map(Value::weight).sum::<usize>() + 48
}

fn order(keys: &[SortKey], one: &[Value], two: &[Value]) -> Ordering {
    let mut orders = keys.iter().zip(one.iter().zip(two)).map(|(key, (one, two))| {
        let order = total_order(one, two);
        if key.descending { order.reverse() } else { order }
    });
    orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}
