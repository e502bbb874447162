//! Aggregations: each takes its values in one at a time, and keeps no more of them than it must.

use std::collections::HashSet;

use super::Execution;
use crate::error::{Detail, Error, ErrorClass, Result};
use crate::fast_hash::FastHash;
use crate::functions::AggregateFunction;
use crate::meter::Hold;
use crate::number::{float, float_of_count, integer, truncate};
use crate::program::Aggregate;
use crate::row::Row;
use crate::value::{Equivalent, Value, total_order};

/// The state of one aggregation in one group.
pub(super) struct Accumulator {
    /// The values so far, for `DISTINCT`.
    #[expect(clippy::box_collection, reason = "it keeps the state of the frequent aggregations small")]
    seen: Option<Box<HashSet<Equivalent, FastHash>>>,
    state: State,
}

enum State {
    Count(usize),
    Sum(Value),
    /// The sum, and the running mean for values whose sum no float holds. The sum loses less to rounding.
    Average {
        count: usize,
        sum: f64,
        mean: f64,
    },
    Extreme {
        value: Value,
        is_maximum: bool,
    },
    Collect(Vec<Value>),
    /// The running mean and the sum of squared distances from it.
    Deviation {
        count: usize,
        mean: f64,
        squares: f64,
        is_sample: bool,
    },
    Percentile(Box<Percentile>),
}

struct Percentile {
    values: Vec<Value>,
    share: f64,
    is_continuous: bool,
}

impl Accumulator {
    pub(super) fn new(execution: &Execution<'_>, aggregate: &Aggregate, row: &mut Row) -> Result<Self> {
        let state = match aggregate.function {
            AggregateFunction::Count => State::Count(0),
            AggregateFunction::Sum => State::Sum(Value::Integer(0)),
            AggregateFunction::Average => State::Average { count: 0, sum: 0.0, mean: 0.0 },
            AggregateFunction::Minimum => State::Extreme { value: Value::Null, is_maximum: false },
            AggregateFunction::Maximum => State::Extreme { value: Value::Null, is_maximum: true },
            AggregateFunction::Collect => State::Collect(Vec::new()),
            AggregateFunction::SampleDeviation | AggregateFunction::PopulationDeviation => {
                let is_sample = aggregate.function == AggregateFunction::SampleDeviation;
                State::Deviation { count: 0, mean: 0.0, squares: 0.0, is_sample }
            }
            AggregateFunction::PercentileDiscrete | AggregateFunction::PercentileContinuous => {
                let share = match &aggregate.share {
                    Some(share) => share_of(&execution.evaluate(share, row)?)?,
                    None => 0.5,
                };
                let is_continuous = aggregate.function == AggregateFunction::PercentileContinuous;
                State::Percentile(Box::new(Percentile { values: Vec::new(), share, is_continuous }))
            }
        };
        Ok(Self { seen: aggregate.distinct.then(Box::default), state })
    }

    /// Takes the value of a row in. Null counts for nothing.
    pub(super) fn add(
        &mut self,
        execution: &Execution<'_>,
        aggregate: &Aggregate,
        hold: &mut Hold<'_>,
        row: &mut Row,
    ) -> Result<()> {
        let value = match &aggregate.argument {
            None => Value::Boolean(true),
            Some(argument) => execution.evaluate(argument, row)?,
        };
        if value.is_null() {
            return Ok(());
        }
        let keep = |hold: &mut Hold<'_>| {
            let weight = value.weight() + 16;
            execution.meter.check(weight)?;
            hold.grow(weight);
            Ok::<_, Error>(())
        };
        if let Some(seen) = &mut self.seen {
            if !seen.insert(Equivalent(value.clone())) {
                return Ok(());
            }
            keep(hold)?;
        }
        match &mut self.state {
            State::Count(count) => *count += 1,
            State::Sum(sum) => *sum = add(sum, &value)?,
            State::Average { count, sum, mean } => {
                let value = number(&value)?;
                *count += 1;
                *sum += value;
                *mean += (value - *mean) / float_of_count(*count);
            }
            State::Extreme { value: best, is_maximum } => {
                let order = total_order(&value, best);
                if best.is_null() || if *is_maximum { order.is_gt() } else { order.is_lt() } {
                    *best = value;
                }
            }
            State::Collect(values) => {
                keep(hold)?;
                values.push(value);
            }
            State::Deviation { count, mean, squares, .. } => {
                let value = number(&value)?;
                *count += 1;
                let distance = value - *mean;
                *mean += distance / float_of_count(*count);
                *squares += distance * (value - *mean);
            }
            State::Percentile(percentile) => {
                number(&value)?;
                keep(hold)?;
                percentile.values.push(value);
            }
        }
        Ok(())
    }

    /// Returns the result.
    pub(super) fn finish(self) -> Value {
        match self.state {
            State::Count(count) => Value::Integer(integer(count)),
            State::Sum(sum) => sum,
            State::Average { count: 0, .. } => Value::Null,
            State::Average { count, sum, .. } if sum.is_finite() => Value::Float(sum / float_of_count(count)),
            State::Average { mean, .. } => Value::Float(mean),
            State::Extreme { value, .. } => value,
            State::Collect(values) => Value::list(values),
            State::Deviation { count, squares, is_sample, .. } => {
                let divisor = count.saturating_sub(usize::from(is_sample));
                let is_one_value = divisor == 0;
                Value::Float(if is_one_value { 0.0 } else { (squares / float_of_count(divisor)).sqrt() })
            }
            State::Percentile(percentile) => {
                let Percentile { mut values, share, is_continuous } = *percentile;
                values.sort_by(total_order);
                if is_continuous { continuous(&values, share) } else { discrete(&values, share) }
            }
        }
    }
}

/// Returns the value at a share of sorted values.
fn discrete(values: &[Value], share: f64) -> Value {
    let rank = (share * float_of_count(values.len())).ceil();
    let at = truncate(rank).and_then(|rank| usize::try_from(rank).ok()).unwrap_or(0).saturating_sub(1);
    values.get(at).cloned().unwrap_or_default()
}

/// Returns the value at a share of sorted values, between two of them where needed.
fn continuous(values: &[Value], share: f64) -> Value {
    let place = share * float_of_count(values.len().saturating_sub(1));
    let below = truncate(place.floor()).and_then(|at| usize::try_from(at).ok()).unwrap_or(0);
    let at = |at: usize| values.get(at).and_then(|value| number(value).ok());
    match (at(below), at(below + 1)) {
        (Some(one), Some(two)) => Value::Float(one + (two - one) * place.fract()),
        (Some(one), None) => Value::Float(one),
        _ => Value::Null,
    }
}

fn share_of(value: &Value) -> Result<f64> {
    let share = match value {
        Value::Null => 0.5,
        value => number(value)?,
    };
    if (0.0..=1.0).contains(&share) {
        return Ok(share);
    }
    let message = format!("The share of a percentile is between 0.0 and 1.0, and not {share}.");
    Err(Error::runtime(ErrorClass::ArgumentError, Detail::NumberOutOfRange, message))
}

fn add(one: &Value, two: &Value) -> Result<Value> {
    match (one, two) {
        (Value::Integer(one), Value::Integer(two)) => {
            one.checked_add(*two).map(Value::Integer).ok_or_else(|| {
                let message = "The sum does not fit an integer of 64 bits: sum `toFloat(...)`.";
                Error::runtime(ErrorClass::ArithmeticError, Detail::IntegerOverflow, message)
            })
        }
        _ => Ok(Value::Float(number(one)? + number(two)?)),
    }
}

fn number(value: &Value) -> Result<f64> {
    match value {
        Value::Integer(value) => Ok(float(*value)),
        Value::Float(value) => Ok(*value),
        _ => {
            Err(Error::wrong_type(format!("An aggregation of numbers does not take {}.", value.type_name())))
        }
    }
}
