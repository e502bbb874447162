//! The executor: rows pass through the steps of a program one at a time, in one row that is changed in place.
//!
//! Only sorting, grouping and `DISTINCT` keep values, and the meter counts them. Nothing here resolves a name.

use crate::error::Result;
use crate::graph::Graph;
use crate::meter::Meter;
use crate::procedures::Procedures;
use crate::program::{Pipeline, Stage, Step};
use crate::row::Row;
use crate::value::Value;

mod aggregate;
mod arithmetic;
mod collect;
mod evaluate;
mod expand;
mod logic;
mod lookup;
mod shortest;
mod steps;
mod variable;

use collect::{Collected, Collector};
use steps::State;

/// The decision of the receiver of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    /// More rows are wanted.
    Continue,
    /// No more rows are wanted.
    Stop,
}

/// The receiver of rows.
pub(crate) type Sink<'a> = &'a mut dyn FnMut(&mut Row) -> Result<Flow>;

/// The surroundings of a running query.
pub(crate) struct Execution<'a> {
    pub(crate) graph: &'a dyn Graph,
    pub(crate) procedures: &'a dyn Procedures,
    /// The values of the parameters, by their numbers.
    pub(crate) parameters: &'a [Value],
    pub(crate) meter: &'a Meter<'a>,
}

impl<'a> Execution<'a> {
    /// Runs a pipeline on a row, and passes on every row that it gives.
    pub(crate) fn run(&self, pipeline: &Pipeline, row: &mut Row, sink: Sink<'_>) -> Result<()> {
        let mut collected = None;
        for stage in &pipeline.stages {
            let mut states = self.states(stage, row)?;
            let mut collector =
                stage.barrier.as_ref().map(|barrier| self.collector(barrier, row)).transpose()?;
            let mut receive = |row: &mut Row| match &mut collector {
                Some(collector) => collector.add(row),
                None => sink(row),
            };
            match collected.take() {
                None => drop(self.steps(&stage.steps, &mut states, row, &mut receive)?),
                Some(rows) => self.feed(stage, &mut states, rows, row, &mut receive)?,
            }
            collected = collector.map(Collector::finish).transpose()?;
        }
        Ok(())
    }

    /// Passes the rows of a barrier through the stage behind it.
    fn feed(
        &self,
        stage: &Stage,
        states: &mut [State<'a>],
        mut rows: Collected<'_>,
        row: &mut Row,
        sink: Sink<'_>,
    ) -> Result<()> {
        while rows.next_into(row)? {
            if self.steps(&stage.steps, states, row, sink)? == Flow::Stop {
                break;
            }
        }
        Ok(())
    }

    fn states(&self, stage: &Stage, row: &mut Row) -> Result<Vec<State<'a>>> {
        let mut states = Vec::with_capacity(stage.states);
        for step in &stage.steps {
            match step {
                Step::Distinct { .. } => states.push(State::Distinct(self.seen()?)),
                Step::Skip { count, .. } | Step::Limit { count, .. } => {
                    states.push(State::Count(self.count(count, row)?));
                }
                _ => {}
            }
        }
        Ok(states)
    }
}
