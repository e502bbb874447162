//! Arithmetic, and the joining of texts and lists by `+`.

use super::Execution;
use crate::ast::Arithmetic;
use crate::error::{Detail, Error, ErrorClass, Result};
use crate::number::{float, float_text};
use crate::program::Expression;
use crate::row::Row;
use crate::value::Value;

impl Execution<'_> {
    pub(super) fn arithmetic(
        &self,
        first: &Expression,
        rest: &[(Arithmetic, Expression)],
        row: &mut Row,
    ) -> Result<Value> {
        let mut value = self.evaluate(first, row)?;
        for (operator, operand) in rest {
            let mut hold = self.meter.hold(0)?;
            self.hold_heavy(&value, &mut hold)?;
            let operand = self.evaluate(operand, row)?;
            self.hold_heavy(&operand, &mut hold)?;
            value = match operator {
                Arithmetic::Add => self.add(&value, &operand)?,
                _ => compute(*operator, &value, &operand)?,
            };
        }
        Ok(value)
    }

    pub(super) fn negate(&self, operand: &Expression, row: &mut Row) -> Result<Value> {
        match self.evaluate(operand, row)? {
            Value::Null => Ok(Value::Null),
            Value::Integer(value) => value.checked_neg().map(Value::Integer).ok_or_else(overflow),
            Value::Float(value) => Ok(Value::Float(-value)),
            other => {
                Err(Error::wrong_type(format!("Only numbers have a sign, and not {}.", other.type_name())))
            }
        }
    }

    fn add(&self, one: &Value, two: &Value) -> Result<Value> {
        match (one, two) {
            (Value::Null, _) | (_, Value::Null) => Ok(Value::Null),
            (Value::List(_), _) | (_, Value::List(_)) => {
                self.meter.check(one.weight().saturating_add(two.weight()))?;
                let items = |value: &Value| match value {
                    Value::List(list) => list.items().to_vec(),
                    single => vec![single.clone()],
                };
                let mut joined = items(one);
                joined.extend(items(two));
                self.checked(Value::list(joined))
            }
            (Value::String(_), _) | (_, Value::String(_)) => {
                self.meter.check(one.weight().saturating_add(two.weight()))?;
                match (text(one), text(two)) {
                    (Some(one), Some(two)) => Ok(Value::string(&(one + &two))),
                    _ => Err(refused(one, two)),
                }
            }
            _ => compute(Arithmetic::Add, one, two),
        }
    }
}

/// Returns the text that a text or a number is joined as.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.to_string()),
        Value::Integer(value) => Some(value.to_string()),
        Value::Float(value) => Some(float_text(*value)),
        _ => None,
    }
}

/// Computes an operation of two numbers.
fn compute(operator: Arithmetic, one: &Value, two: &Value) -> Result<Value> {
    let (one, two) = match (one, two) {
        (Value::Null, _) | (_, Value::Null) => return Ok(Value::Null),
        (Value::Integer(one), Value::Integer(two)) if operator != Arithmetic::Power => {
            return of_integers(operator, *one, *two).map(Value::Integer);
        }
        (Value::Integer(one), Value::Integer(two)) => (float(*one), float(*two)),
        (Value::Integer(one), Value::Float(two)) => (float(*one), *two),
        (Value::Float(one), Value::Integer(two)) => (*one, float(*two)),
        (Value::Float(one), Value::Float(two)) => (*one, *two),
        _ => return Err(refused(one, two)),
    };
    Ok(Value::Float(match operator {
        Arithmetic::Add => one + two,
        Arithmetic::Subtract => one - two,
        Arithmetic::Multiply => one * two,
        Arithmetic::Divide => one / two,
        Arithmetic::Modulo => one % two,
        Arithmetic::Power => one.powf(two),
    }))
}

fn of_integers(operator: Arithmetic, one: i64, two: i64) -> Result<i64> {
    let result = match operator {
        Arithmetic::Add => one.checked_add(two),
        Arithmetic::Subtract => one.checked_sub(two),
        Arithmetic::Multiply => one.checked_mul(two),
        Arithmetic::Divide | Arithmetic::Modulo if two == 0 => {
            let message = "An integer is divided by zero.";
            return Err(Error::runtime(ErrorClass::ArithmeticError, Detail::DivisionByZero, message));
        }
        Arithmetic::Divide => one.checked_div(two),
        // The remainder of the smallest integer and -1 is 0, although their quotient overflows.
        _ => Some(one.wrapping_rem(two)),
    };
    result.ok_or_else(overflow)
}

fn overflow() -> Error {
    let message = "The result does not fit an integer of 64 bits.";
    Error::runtime(ErrorClass::ArithmeticError, Detail::IntegerOverflow, message)
}

fn refused(one: &Value, two: &Value) -> Error {
    Error::wrong_type(format!("This operation does not take {} and {}.", one.type_name(), two.type_name()))
}
