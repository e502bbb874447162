//! The steps that pass rows on one at a time.

use std::collections::HashSet;

use super::{Execution, Flow, Sink};
use crate::error::{Detail, Error, ErrorClass, Phase, Result};
use crate::fast_hash::FastHash;
use crate::meter::{HEAVY, Hold};
use crate::program::{Call, Expression, Slot, Step};
use crate::row::Row;
use crate::value::{Equivalent, Path, Value};

/// The state of a step during one run.
pub(super) enum State<'a> {
    Distinct(SeenRows<'a>),
    /// The rows that are still to be skipped or passed on.
    Count(u64),
}

/// The rows that a `DISTINCT` has seen.
pub(super) struct SeenRows<'a> {
    rows: HashSet<Box<[Equivalent]>, FastHash>,
    hold: Hold<'a>,
}

impl<'a> Execution<'a> {
    /// Passes a row through steps, and what comes out of them to the sink.
    // BOUNDED: by the meter's number of frames.
    pub(super) fn steps(
        &self,
        mut steps: &[Step],
        states: &mut [State<'a>],
        row: &mut Row,
        sink: Sink<'_>,
    ) -> Result<Flow> {
        while let Some((step, rest)) = steps.split_first() {
            self.meter.tick()?;
            let passes = match step {
                Step::Filter(condition) => self.is_true(condition, row)?,
                Step::HasLabels { slot, labels } => row.node(*slot).is_some_and(|node| {
                    let found = self.graph.labels_of(node);
                    labels.iter().all(|test| test.iter().any(|label| found.contains(label)))
                }),
                Step::BoundNode { slot } => self.is_node(*slot, row)?,
                Step::Nothing => false,
                Step::Path { slot, start, relationships } => {
                    let path = self.path(*start, relationships, row);
                    row.set(*slot, path);
                    true
                }
                Step::Distinct { slots, state } => match states.get_mut(*state) {
                    Some(State::Distinct(seen)) => self.is_new(seen, slots, row)?,
                    _ => true,
                },
                Step::Skip { state, .. } => match states.get_mut(*state) {
                    Some(State::Count(left)) if *left > 0 => {
                        *left -= 1;
                        false
                    }
                    _ => true,
                },
                _ => return self.branch(step, rest, states, row, sink),
            };
            if !passes {
                return Ok(Flow::Continue);
            }
            steps = rest;
        }
        sink(row)
    }

    /// Runs a step that passes on any number of rows.
    fn branch(
        &self,
        step: &Step,
        rest: &[Step],
        states: &mut [State<'a>],
        row: &mut Row,
        sink: Sink<'_>,
    ) -> Result<Flow> {
        let _frame = self.meter.frame()?;
        if let Step::Limit { state, .. } = step {
            return self.limit(*state, rest, states, row, sink);
        }
        let next = &mut |row: &mut Row| self.steps(rest, states, row, sink);
        match step {
            Step::AllNodes { slot } => self.all_nodes(*slot, row, next),
            Step::LabelScan { slot, label } => {
                self.each_node(self.graph.nodes_with_label(*label), *slot, row, next)
            }
            Step::IndexLookup { slot, label, key, value } => {
                self.index_lookup(*slot, *label, *key, value, row, next)
            }
            Step::NodeById { slot, id } => self.node_by_id(*slot, id, row, next),
            Step::Expand(expand) => self.expand(expand, row, next),
            Step::VariableExpand(expand) => self.variable_expand(expand, row, next),
            Step::Shortest(shortest) => self.shortest(shortest, row, next),
            Step::Optional { steps, slots } => self.optional(steps, slots, row, next),
            Step::Unwind { list, slot } => self.unwind(list, *slot, row, next),
            Step::Project(items) => self.project(items, row, next),
            Step::Call(call) => self.call(call, row, next),
            _ => next(row),
        }
    }

    fn limit(
        &self,
        state: usize,
        rest: &[Step],
        states: &mut [State<'a>],
        row: &mut Row,
        sink: Sink<'_>,
    ) -> Result<Flow> {
        let left = match states.get_mut(state) {
            Some(State::Count(left)) => {
                if *left == 0 {
                    return Ok(Flow::Stop);
                }
                *left -= 1;
                *left
            }
            _ => u64::MAX,
        };
        let flow = self.steps(rest, states, row, sink)?;
        Ok(if left == 0 { Flow::Stop } else { flow })
    }

    fn optional(&self, steps: &[Step], slots: &[Slot], row: &mut Row, next: Sink<'_>) -> Result<Flow> {
        let mut is_matched = false;
        let flow = self.steps(steps, &mut [], row, &mut |row| {
            is_matched = true;
            next(row)
        })?;
        if is_matched {
            return Ok(flow);
        }
        for slot in slots {
            row.set(*slot, Value::Null);
        }
        next(row)
    }

    fn unwind(&self, list: &Expression, slot: Slot, row: &mut Row, next: Sink<'_>) -> Result<Flow> {
        let list = match self.evaluate(list, row)? {
            Value::Null => return Ok(Flow::Continue),
            Value::List(list) => list,
            single => {
                row.set(slot, single);
                return next(row);
            }
        };
        let weight = Value::List(list.clone()).weight();
        let _hold = self.meter.hold(if weight > HEAVY { weight } else { 0 })?;
        for item in list.items() {
            self.meter.tick()?;
            row.set(slot, item.clone());
            if next(row)? == Flow::Stop {
                return Ok(Flow::Stop);
            }
        }
        Ok(Flow::Continue)
    }

    fn project(&self, items: &[(Expression, Slot)], row: &mut Row, next: Sink<'_>) -> Result<Flow> {
        let mut hold = None;
        for (expression, slot) in items {
            let value = self.evaluate(expression, row)?;
            let weight = value.weight();
            if weight > HEAVY {
                self.meter.check(weight)?;
                match &mut hold {
                    None => hold = Some(self.meter.hold(weight)?),
                    Some(hold) => hold.grow(weight),
                }
            }
            row.set(*slot, value);
        }
        next(row)
    }

    fn call(&self, call: &Call, row: &mut Row, next: Sink<'_>) -> Result<Flow> {
        let arguments = call.arguments.iter().map(|argument| self.evaluate(argument, row));
        let arguments = arguments.collect::<Result<Vec<Value>>>()?;
        let rows = self.procedures.call(&call.procedure, &arguments, self.graph)?;
        if call.passes_row {
            return next(row);
        }
        for values in rows {
            self.meter.tick()?;
            for (index, slot) in &call.outputs {
                row.set(*slot, values.get(*index).cloned().unwrap_or_default());
            }
            if next(row)? == Flow::Stop {
                return Ok(Flow::Stop);
            }
        }
        Ok(Flow::Continue)
    }

    fn is_node(&self, slot: Slot, row: &Row) -> Result<bool> {
        match row.get(slot) {
            Value::Node(node) => Ok(self.graph.has_node(*node)),
            Value::Null => Ok(false),
            other => {
                Err(Error::wrong_type(format!("A pattern needs a node, and not {}.", other.type_name())))
            }
        }
    }

    /// Returns the path from a node through relationships.
    fn path(&self, start: Slot, relationships: &[Slot], row: &Row) -> Value {
        let Some(mut node) = row.node(start) else { return Value::Null };
        let mut path = Path { nodes: vec![node], relationships: Vec::new() };
        let mut walk = |value: &Value| {
            if let Value::Relationship(relationship) = value {
                let (start, end) = self.graph.ends(*relationship);
                node = if node == start { end } else { start };
                path.relationships.push(*relationship);
                path.nodes.push(node);
            }
        };
        for slot in relationships {
            match row.get(*slot) {
                Value::List(list) => list.items().iter().for_each(&mut walk),
                single => walk(single),
            }
        }
        Value::Path(std::sync::Arc::new(path))
    }

    pub(super) fn seen(&self) -> Result<SeenRows<'a>> {
        Ok(SeenRows { rows: HashSet::default(), hold: self.meter.hold(0)? })
    }

    fn is_new(&self, seen: &mut SeenRows<'a>, slots: &[Slot], row: &Row) -> Result<bool> {
        let values: Box<[Equivalent]> = slots.iter().map(|slot| Equivalent(row.get(*slot).clone())).collect();
        if seen.rows.contains(&values) {
            return Ok(false);
        }
        let weight = values.iter().map(|value| value.0.weight()).sum::<usize>() + 32;
        self.meter.check(weight)?;
        seen.hold.grow(weight);
        seen.rows.insert(values);
        Ok(true)
    }

    /// Returns the count of `SKIP` or `LIMIT`.
    pub(super) fn count(&self, expression: &Expression, row: &mut Row) -> Result<u64> {
        let refused = |detail, message| Error {
            class: ErrorClass::SyntaxError,
            detail,
            phase: Phase::Runtime,
            message,
            position: None,
        };
        match self.evaluate(expression, row)? {
            Value::Integer(count) => u64::try_from(count).map_err(|_| {
                let message = format!("`SKIP` and `LIMIT` take no negative number, such as {count}.");
                refused(Detail::NegativeIntegerArgument, message)
            }),
            other => {
                let message = format!("`SKIP` and `LIMIT` take an integer, and not {}.", other.type_name());
                Err(refused(Detail::InvalidArgumentType, message))
            }
        }
    }
}
