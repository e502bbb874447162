//! Truth in three values: comparisons, conditions, membership and quantifiers.

use std::cmp::Ordering;

use super::Execution;
use crate::ast::{Comparison as Sign, Logic, Quantifier, Text};
use crate::error::{Detail, Error, ErrorClass, Result};
use crate::program::{Expression, Slot};
use crate::row::Row;
use crate::value::{Comparison, Value, compare, equal};

impl Execution<'_> {
    /// Returns true if a condition holds: null and false do not.
    pub(super) fn is_true(&self, condition: &Expression, row: &mut Row) -> Result<bool> {
        Ok(self.truth(condition, row)? == Some(true))
    }

    /// Returns the truth value of an expression, or `None` for null.
    pub(super) fn truth(&self, expression: &Expression, row: &mut Row) -> Result<Option<bool>> {
        match self.evaluate(expression, row)? {
            Value::Null => Ok(None),
            Value::Boolean(truth) => Ok(Some(truth)),
            other => Err(Error::wrong_type(format!(
                "A condition is a truth value, and not {}.",
                other.type_name()
            ))),
        }
    }

    pub(super) fn logic(&self, logic: Logic, parts: &[Expression], row: &mut Row) -> Result<Value> {
        let mut is_open = false;
        let mut parity = false;
        for part in parts {
            match (logic, self.truth(part, row)?) {
                (Logic::And, Some(false)) => return Ok(Value::Boolean(false)),
                (Logic::Or, Some(true)) => return Ok(Value::Boolean(true)),
                (Logic::Xor, Some(truth)) => parity ^= truth,
                (_, None) => is_open = true,
                _ => {}
            }
        }
        Ok(match logic {
            _ if is_open => Value::Null,
            Logic::And => Value::Boolean(true),
            Logic::Or => Value::Boolean(false),
            Logic::Xor => Value::Boolean(parity),
        })
    }

    pub(super) fn comparison(
        &self,
        first: &Expression,
        rest: &[(Sign, Expression)],
        row: &mut Row,
    ) -> Result<Value> {
        let mut left = self.evaluate(first, row)?;
        let mut is_open = false;
        for (sign, right) in rest {
            let right = self.evaluate(right, row)?;
            self.meter.look_for(&left)?;
            match compared(*sign, &left, &right) {
                Some(true) => {}
                Some(false) => return Ok(Value::Boolean(false)),
                None => is_open = true,
            }
            left = right;
        }
        Ok(if is_open { Value::Null } else { Value::Boolean(true) })
    }

    pub(super) fn is_in(&self, item: &Expression, list: &Expression, row: &mut Row) -> Result<Value> {
        let item = self.evaluate(item, row)?;
        let Some(list) = self.list(list, row)? else { return Ok(Value::Null) };
        let mut is_open = false;
        for other in list.items() {
            self.meter.tick()?;
            self.meter.look_for(&item)?;
            match equal(&item, other) {
                Some(true) => return Ok(Value::Boolean(true)),
                Some(false) => {}
                None => is_open = true,
            }
        }
        Ok(if is_open { Value::Null } else { Value::Boolean(false) })
    }

    pub(super) fn text(
        &self,
        operator: Text,
        subject: &Expression,
        other: &Expression,
        row: &mut Row,
    ) -> Result<Value> {
        let subject = self.evaluate(subject, row)?;
        let other = self.evaluate(other, row)?;
        self.meter.look_for(&subject)?;
        let (Value::String(subject), Value::String(other)) = (&subject, &other) else {
            return Ok(Value::Null);
        };
        Ok(Value::Boolean(match operator {
            Text::StartsWith => subject.starts_with(&**other),
            Text::EndsWith => subject.ends_with(&**other),
            Text::Contains => subject.contains(&**other),
            Text::Matches => {
                // A pattern that is no constant is compiled for each row.
                self.meter.look()?;
                let pattern = crate::pattern_text::whole_match(other).map_err(|message| {
                    Error::runtime(ErrorClass::ArgumentError, Detail::InvalidRegularExpression, message)
                })?;
                pattern.is_match(subject)
            }
        }))
    }

    pub(super) fn quantifier(
        &self,
        quantifier: Quantifier,
        slot: Slot,
        list: &Expression,
        filter: &Expression,
        row: &mut Row,
    ) -> Result<Value> {
        let Some(list) = self.list(list, row)? else { return Ok(Value::Null) };
        let (mut holds, mut is_open) = (0_usize, false);
        for item in list.items() {
            self.meter.tick()?;
            row.set(slot, item.clone());
            match (quantifier, self.truth(filter, row)?) {
                (Quantifier::All, Some(false)) | (Quantifier::None, Some(true)) => {
                    return Ok(Value::Boolean(false));
                }
                (Quantifier::Any, Some(true)) => return Ok(Value::Boolean(true)),
                (Quantifier::Single, Some(true)) if holds > 0 => return Ok(Value::Boolean(false)),
                (_, Some(true)) => holds += 1,
                (_, None) => is_open = true,
                _ => {}
            }
        }
        Ok(match quantifier {
            _ if is_open => Value::Null,
            Quantifier::All | Quantifier::None => Value::Boolean(true),
            Quantifier::Any => Value::Boolean(false),
            Quantifier::Single => Value::Boolean(holds == 1),
        })
    }
}

fn compared(sign: Sign, left: &Value, right: &Value) -> Option<bool> {
    let is_ordered = |accepts: fn(Ordering) -> bool| match compare(left, right) {
        Comparison::Order(order) => Some(accepts(order)),
        Comparison::Unordered => Some(false),
        Comparison::Unknown => None,
    };
    match sign {
        Sign::Equal => equal(left, right),
        Sign::Unequal => equal(left, right).map(|is_equal| !is_equal),
        Sign::Less => is_ordered(Ordering::is_lt),
        Sign::LessOrEqual => is_ordered(Ordering::is_le),
        Sign::Greater => is_ordered(Ordering::is_gt),
        Sign::GreaterOrEqual => is_ordered(Ordering::is_ge),
    }
}
