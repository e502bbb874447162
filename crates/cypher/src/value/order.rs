//! Equality and order of values.
//!
//! There are three relations. `=` is three-valued and knows nothing about null. `<` is three-valued too, and
//! compares only values of one type. The total order places every value, for `ORDER BY`, `min` and `max`.

use std::cmp::Ordering;

use super::Value;
use crate::number::{compare_float_integer, compare_floats};

/// Returns the result of `=`, or `None` if a null leaves it open.
// BOUNDED: by MAXIMUM_DEPTH of a value.
pub fn equal(one: &Value, two: &Value) -> Option<bool> {
    match (one, two) {
        (Value::Null, _) | (_, Value::Null) => None,
        (Value::Integer(one), Value::Integer(two)) => Some(one == two),
        (Value::String(one), Value::String(two)) => Some(one == two),
        (Value::List(one), Value::List(two)) => {
            if one.items().len() != two.items().len() {
                return Some(false);
            }
            all_equal(one.items().iter().zip(two.items()))
        }
        (Value::Map(one), Value::Map(two)) => {
            let (one, two) = (one.entries(), two.entries());
            if one.len() != two.len() || one.keys().ne(two.keys()) {
                return Some(false);
            }
            all_equal(one.values().zip(two.values()))
        }
        (Value::Float(float), _) | (_, Value::Float(float)) if float.is_nan() => Some(false),
        _ => Some(total_order(one, two).is_eq()),
    }
}

fn all_equal<'a>(mut pairs: impl Iterator<Item = (&'a Value, &'a Value)>) -> Option<bool> {
    let mut is_open = false;
    let differs = pairs.any(|(one, two)| match equal(one, two) {
        Some(is_equal) => !is_equal,
        None => {
            is_open = true;
            false
        }
    });
    if differs { Some(false) } else { (!is_open).then_some(true) }
}

/// The result of a comparison by `<`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// Both values have one type, and this order.
    Order(Ordering),
    /// A NaN is neither less nor greater than a number.
    Unordered,
    /// The values cannot be compared, or one is null.
    Unknown,
}

/// Returns the order of two values by `<`.
// BOUNDED: by MAXIMUM_DEPTH of a value.
pub fn compare(one: &Value, two: &Value) -> Comparison {
    match (one, two) {
        (Value::Integer(_) | Value::Float(_), Value::Integer(_) | Value::Float(_)) => {
            let is_nan = |value: &Value| matches!(value, Value::Float(float) if float.is_nan());
            if is_nan(one) || is_nan(two) {
                return Comparison::Unordered;
            }
            Comparison::Order(total_order(one, two))
        }
        (Value::String(_), Value::String(_)) | (Value::Boolean(_), Value::Boolean(_)) => {
            Comparison::Order(total_order(one, two))
        }
        (Value::List(one), Value::List(two)) => {
            for (one, two) in one.items().iter().zip(two.items()) {
                match equal(one, two) {
                    Some(true) => {}
                    Some(false) => return compare(one, two),
                    None => return Comparison::Unknown,
                }
            }
            Comparison::Order(one.items().len().cmp(&two.items().len()))
        }
        _ => Comparison::Unknown,
    }
}

/// Returns the place of a type in the total order.
fn rank(value: &Value) -> u8 {
    match value {
        Value::Map(_) => 0,
        Value::Node(_) => 1,
        Value::Relationship(_) => 2,
        Value::List(_) => 3,
        Value::Path(_) => 4,
        Value::String(_) => 5,
        Value::Boolean(_) => 6,
        Value::Integer(_) => 7,
        Value::Float(value) => 7 + u8::from(value.is_nan()),
        Value::Null => 9,
    }
}

/// Returns the order of two values in the order of all values: maps, nodes, relationships, lists, paths,
/// strings, booleans, numbers, NaN, null.
// BOUNDED: by MAXIMUM_DEPTH of a value.
pub fn total_order(one: &Value, two: &Value) -> Ordering {
    match (one, two) {
        (Value::Boolean(one), Value::Boolean(two)) => one.cmp(two),
        (Value::Integer(one), Value::Integer(two)) => one.cmp(two),
        (Value::Float(one), Value::Float(two)) if !one.is_nan() && !two.is_nan() => {
            compare_floats(*one, *two)
        }
        (Value::Float(one), Value::Integer(two)) if !one.is_nan() => compare_float_integer(*one, *two),
        (Value::Integer(one), Value::Float(two)) if !two.is_nan() => {
            compare_float_integer(*two, *one).reverse()
        }
        (Value::String(one), Value::String(two)) => one.cmp(two),
        (Value::Node(one), Value::Node(two)) => one.cmp(two),
        (Value::Relationship(one), Value::Relationship(two)) => one.cmp(two),
        (Value::Path(one), Value::Path(two)) => one.cmp(two),
        (Value::List(one), Value::List(two)) => {
            let mut pairs = one.items().iter().zip(two.items());
            let first =
                pairs.find_map(|(one, two)| Some(total_order(one, two)).filter(|order| order.is_ne()));
            first.unwrap_or_else(|| one.items().len().cmp(&two.items().len()))
        }
        (Value::Map(one), Value::Map(two)) => {
            let pairs = one.entries().iter().zip(two.entries());
            let mut orders = pairs.map(|(one, two)| one.0.cmp(two.0).then_with(|| total_order(one.1, two.1)));
            let first = orders.find(|order| order.is_ne());
            first.unwrap_or_else(|| one.entries().len().cmp(&two.entries().len()))
        }
        _ => rank(one).cmp(&rank(two)),
    }
}
