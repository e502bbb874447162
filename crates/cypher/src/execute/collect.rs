//! Barriers: rows are kept until all have come, and then passed on in order.

use super::{Execution, Flow};
use crate::error::Result;
use crate::meter::Hold;
use crate::program::Barrier;
use crate::row::Row;
use groups::{GroupRows, Groups};
use sorted::{Sorted, SortedRows};

mod groups;
mod sorted;

/// A barrier with what it has collected.
pub(super) struct Collector<'r> {
    execution: &'r Execution<'r>,
    hold: Hold<'r>,
    kind: Kind<'r>,
}

enum Kind<'r> {
    Groups(Groups<'r>),
    Sorted(Sorted<'r>),
}

/// Rows that leave a barrier. Their memory counts until they are dropped.
pub(super) struct Collected<'r> {
    execution: &'r Execution<'r>,
    rows: Rows<'r>,
    _hold: Hold<'r>,
}

enum Rows<'r> {
    Groups(GroupRows<'r>),
    Sorted(SortedRows<'r>),
}

impl Execution<'_> {
    pub(super) fn collector<'r>(&'r self, barrier: &'r Barrier, row: &mut Row) -> Result<Collector<'r>> {
        let kind = match barrier {
            Barrier::Aggregate { groups, aggregates } => Kind::Groups(Groups::new(groups, aggregates)),
            Barrier::Sort { keys, slots, skip, limit } => {
                let skip = skip.as_ref().map(|count| self.count(count, row)).transpose()?;
                let limit = limit.as_ref().map(|count| self.count(count, row)).transpose()?;
                Kind::Sorted(Sorted::new(keys, slots, skip.unwrap_or(0), limit))
            }
        };
        Ok(Collector { execution: self, hold: self.meter.hold(0)?, kind })
    }
}

impl<'r> Collector<'r> {
    /// Takes a row in.
    pub(super) fn add(&mut self, row: &mut Row) -> Result<Flow> {
        match &mut self.kind {
            Kind::Groups(groups) => groups.add(self.execution, &mut self.hold, row)?,
            Kind::Sorted(sorted) => sorted.add(self.execution, &mut self.hold, row)?,
        }
        Ok(Flow::Continue)
    }

    /// Ends the collection.
    pub(super) fn finish(self) -> Result<Collected<'r>> {
        let rows = match self.kind {
            Kind::Groups(groups) => Rows::Groups(groups.finish(self.execution)?),
            Kind::Sorted(sorted) => Rows::Sorted(sorted.finish()),
        };
        Ok(Collected { execution: self.execution, rows, _hold: self.hold })
    }
}

impl Collected<'_> {
    /// Puts the next row that the barrier passes on into the slots, or returns false.
    pub(super) fn next_into(&mut self, row: &mut Row) -> Result<bool> {
        match &mut self.rows {
            Rows::Groups(groups) => groups.next_into(self.execution, row),
            Rows::Sorted(sorted) => Ok(sorted.next_into(row)),
        }
    }
}
