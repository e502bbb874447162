//! Numeric functions.

use std::hash::{BuildHasher, RandomState};

use super::{Function, refused};
use crate::error::{Detail, Error, ErrorClass, Result};
use crate::number::{float, truncate};
use crate::value::Value;

pub(super) fn call(function: Function, arguments: &[Value]) -> Result<Value> {
    use Function as F;
    let first = arguments.first().unwrap_or(&Value::Null);
    match (function, first) {
        (F::Abs, Value::Integer(value)) => {
            return value.checked_abs().map(Value::Integer).ok_or_else(overflow);
        }
        (F::Sign, Value::Integer(value)) => return Ok(Value::Integer(value.signum())),
        _ => {}
    }
    let value = number(function, first)?;
    Ok(Value::Float(match function {
        F::Abs => value.abs(),
        F::Acos => value.acos(),
        F::Asin => value.asin(),
        F::Atan => value.atan(),
        F::Atan2 => value.atan2(number(function, arguments.get(1).unwrap_or(&Value::Null))?),
        F::Ceil => value.ceil(),
        F::Cos => value.cos(),
        F::Cot => 1.0 / value.tan(),
        F::Degrees => value.to_degrees(),
        F::Exp => value.exp(),
        F::Floor => value.floor(),
        F::Haversin => (1.0 - value.cos()) / 2.0,
        F::Log => value.ln(),
        F::Log10 => value.log10(),
        F::Radians => value.to_radians(),
        F::Round => round(value, arguments.get(1))?,
        F::Sign if value > 0.0 => return Ok(Value::Integer(1)),
        F::Sign if value < 0.0 => return Ok(Value::Integer(-1)),
        F::Sign => return Ok(Value::Integer(0)),
        F::Sin => value.sin(),
        F::SquareRoot => value.sqrt(),
        F::Tan => value.tan(),
        _ => return Err(refused(function, first)),
    }))
}

/// Returns a random number of at least 0 and less than 1.
pub(super) fn random() -> f64 {
    // The keys of a new hasher are random; 53 bits of a hash are a fraction.
    let bits = RandomState::new().hash_one(0_u8) >> 11;
    let unit = 1.0 / 9_007_199_254_740_992.0;
    i64::try_from(bits).map_or(0.0, |bits| float(bits) * unit)
}

/// Rounds half up, to a number of decimal places.
fn round(value: f64, places: Option<&Value>) -> Result<f64> {
    let places = match places {
        None => return Ok((value + 0.5).floor()),
        Some(Value::Integer(places)) => i32::try_from((*places).clamp(0, 300)).unwrap_or(0),
        Some(other) => return Err(refused(Function::Round, other)),
    };
    let scale = 10_f64.powi(places);
    let scaled = value * scale;
    Ok(if truncate(scaled).is_some() { (scaled + 0.5).floor() / scale } else { value })
}

fn number(function: Function, value: &Value) -> Result<f64> {
    match value {
        Value::Integer(value) => Ok(float(*value)),
        Value::Float(value) => Ok(*value),
        _ => Err(refused(function, value)),
    }
}

fn overflow() -> Error {
    let message = "The result does not fit an integer of 64 bits.";
    Error::runtime(ErrorClass::ArithmeticError, Detail::IntegerOverflow, message)
}
