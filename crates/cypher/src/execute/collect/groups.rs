//! Groups by their keys, in a flat table: the keys and accumulators of all groups stand in one list each.

use std::hash::BuildHasher;

use super::super::Execution;
use super::super::aggregate::Accumulator;
use crate::error::Result;
use crate::fast_hash::FastHash;
use crate::meter::Hold;
use crate::program::{Aggregate, Expression, Slot};
use crate::row::Row;
use crate::value::{Equivalent, Value};

/// The mark of a place of the table without a group.
const EMPTY: u32 = u32::MAX;

/// Size in bytes of a group without its keys, for the meter.
const GROUP: usize = 32;

pub(super) struct Groups<'r> {
    by: &'r [(Expression, Slot)],
    aggregates: &'r [(Aggregate, Slot)],
    hasher: FastHash,
    /// The numbers of groups at the places that their hashes give, by linear probing.
    table: Vec<u32>,
    /// The hash of each group.
    hashes: Vec<u64>,
    /// The keys of each group, one group after the other.
    keys: Vec<Equivalent>,
    /// The accumulators of each group likewise.
    accumulators: Vec<Accumulator>,
    /// The group of the row before. Rows of one group often follow each other.
    last: Option<usize>,
    /// The keys of the current row.
    scratch: Vec<Equivalent>,
}

/// The groups as rows.
pub(super) struct GroupRows<'r> {
    by: &'r [(Expression, Slot)],
    aggregates: &'r [(Aggregate, Slot)],
    keys: std::vec::IntoIter<Equivalent>,
    accumulators: std::vec::IntoIter<Accumulator>,
    left: usize,
}

impl<'r> Groups<'r> {
    pub(super) fn new(groups: &'r [(Expression, Slot)], aggregates: &'r [(Aggregate, Slot)]) -> Self {
        Self {
            by: groups,
            aggregates,
            hasher: FastHash::default(),
            table: Vec::new(),
            hashes: Vec::new(),
            keys: Vec::new(),
            accumulators: Vec::new(),
            last: None,
            scratch: Vec::new(),
        }
    }

    pub(super) fn add(
        &mut self,
        execution: &Execution<'_>,
        hold: &mut Hold<'_>,
        row: &mut Row,
    ) -> Result<()> {
        self.scratch.clear();
        for (expression, _) in self.by {
            self.scratch.push(Equivalent(execution.evaluate(expression, row)?));
        }
        let number = match self.last.filter(|last| self.has_keys(*last)) {
            Some(last) => last,
            None => self.find(execution, hold, row)?,
        };
        self.last = Some(number);
        let begin = number * self.aggregates.len();
        let accumulators = self.accumulators.get_mut(begin..begin + self.aggregates.len());
        for (accumulator, (aggregate, _)) in accumulators.unwrap_or_default().iter_mut().zip(self.aggregates)
        {
            accumulator.add(execution, aggregate, hold, row)?;
        }
        Ok(())
    }

    /// Returns true if a group has the keys of the current row.
    fn has_keys(&self, number: usize) -> bool {
        let begin = number * self.by.len();
        self.keys.get(begin..begin + self.by.len()) == Some(&self.scratch)
    }

    /// Returns the group of the current row, which may be new.
    fn find(&mut self, execution: &Execution<'_>, hold: &mut Hold<'_>, row: &mut Row) -> Result<usize> {
        let hash = self.hasher.hash_one(&self.scratch);
        if self.hashes.len() * 2 >= self.table.len() {
            self.grow();
        }
        let mut place = place(hash, self.table.len());
        while let Some(number) = self.table.get(place).copied().filter(|number| *number != EMPTY) {
            execution.meter.tick()?;
            if self.hashes.get(number as usize) == Some(&hash) && self.has_keys(number as usize) {
                return Ok(number as usize);
            }
            place = (place + 1) % self.table.len();
        }
        let number = self.hashes.len();
        let weight = self.scratch.iter().map(|key| key.0.weight()).sum::<usize>();
        let weight = weight + GROUP + self.aggregates.len() * size_of::<Accumulator>();
        execution.meter.check(weight)?;
        hold.grow(weight);
        for (aggregate, _) in self.aggregates {
            self.accumulators.push(Accumulator::new(execution, aggregate, row)?);
        }
        self.keys.append(&mut self.scratch);
        self.hashes.push(hash);
        if let Some(slot) = self.table.get_mut(place) {
            *slot = u32::try_from(number).unwrap_or(EMPTY);
        }
        Ok(number)
    }

    /// Doubles the table.
    fn grow(&mut self) {
        let length = (self.table.len() * 2).max(16);
        self.table = vec![EMPTY; length];
        for (number, hash) in (0_u32..).zip(&self.hashes) {
            let mut place = place(*hash, length);
            while self.table.get(place).is_some_and(|number| *number != EMPTY) {
                place = (place + 1) % length;
            }
            if let Some(slot) = self.table.get_mut(place) {
                *slot = number;
            }
        }
    }

    pub(super) fn finish(mut self, execution: &Execution<'_>) -> Result<GroupRows<'r>> {
        if self.by.is_empty() && self.hashes.is_empty() {
            // Without keys there is always one group, also of no rows.
            self.hashes.push(0);
            for (aggregate, _) in self.aggregates {
                self.accumulators.push(Accumulator::new(execution, aggregate, &mut Row::new(0))?);
            }
        }
        Ok(GroupRows {
            by: self.by,
            aggregates: self.aggregates,
            keys: self.keys.into_iter(),
            accumulators: self.accumulators.into_iter(),
            left: self.hashes.len(),
        })
    }
}

impl GroupRows<'_> {
    pub(super) fn next_into(&mut self, execution: &Execution<'_>, row: &mut Row) -> Result<bool> {
        let Some(left) = self.left.checked_sub(1) else { return Ok(false) };
        self.left = left;
        for (_, slot) in self.by {
            row.set(*slot, self.keys.next().map_or(Value::Null, |key| key.0));
        }
        for (_, slot) in self.aggregates {
            let value = self.accumulators.next().map_or(Value::Null, Accumulator::finish);
            row.set(*slot, execution.checked(value)?);
        }
        Ok(true)
    }
}

/// Returns the first place of a hash in a table whose length is a power of two.
fn place(hash: u64, length: usize) -> usize {
    usize::try_from(hash & 0xffff_ffff).unwrap_or(0) & (length - 1)
}
