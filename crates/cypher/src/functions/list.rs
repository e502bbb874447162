//! Functions of lists, and those that texts and paths share with them.

use super::{Function, Surroundings, out_of_range, refused, too_large};
use crate::error::{Detail, Error, ErrorClass, Result};
use crate::number::integer;
use crate::value::Value;

pub(super) fn call(function: Function, value: &Value) -> Result<Value> {
    Ok(match (function, value) {
        (Function::Head, Value::List(list)) => list.items().first().cloned().unwrap_or_default(),
        (Function::Last, Value::List(list)) => list.items().last().cloned().unwrap_or_default(),
        (Function::Tail, Value::List(list)) => {
            Value::list(list.items().get(1..).unwrap_or_default().to_vec())
        }
        (Function::Reverse, Value::List(list)) => Value::list(list.items().iter().rev().cloned().collect()),
        (Function::Reverse, Value::String(text)) => Value::string(&text.chars().rev().collect::<String>()),
        (Function::Size | Function::Length, Value::List(list)) => Value::Integer(integer(list.items().len())),
        (Function::Size | Function::Length, Value::String(text)) => {
            Value::Integer(integer(text.chars().count()))
        }
        (Function::Size, Value::Map(map)) => Value::Integer(integer(map.entries().len())),
        (Function::IsEmpty, Value::List(list)) => Value::Boolean(list.items().is_empty()),
        (Function::IsEmpty, Value::String(text)) => Value::Boolean(text.is_empty()),
        (Function::IsEmpty, Value::Map(map)) => Value::Boolean(map.entries().is_empty()),
        (Function::Length, Value::Path(path)) => Value::Integer(integer(path.relationships.len())),
        _ => return Err(refused(function, value)),
    })
}

/// Returns the integers from the first argument to the second one, both included.
pub(super) fn range(arguments: &[Value], around: &Surroundings<'_>) -> Result<Value> {
    let number = |value: &Value| match value {
        Value::Integer(value) => Ok(*value),
        _ => {
            let message = format!("`range` takes integers, and not {}.", value.type_name());
            Err(Error::runtime(ErrorClass::ArgumentError, Detail::InvalidArgumentType, message))
        }
    };
    let numbers = arguments.iter().map(number).collect::<Result<Vec<i64>>>()?;
    let (first, last, step) = match numbers.as_slice() {
        [first, last] => (*first, *last, 1),
        [first, last, step] => (*first, *last, *step),
        _ => return Ok(Value::Null),
    };
    if step == 0 {
        return Err(out_of_range("The step of `range` is 0."));
    }
    if step > 0 && last < first || step < 0 && last > first {
        return Ok(Value::list(Vec::new()));
    }
    let count = usize::try_from(last.abs_diff(first) / step.unsigned_abs()).unwrap_or(usize::MAX);
    let count = count.saturating_add(1);
    let bytes = count.saturating_mul(size_of::<Value>());
    if bytes > around.budget {
        return Err(too_large(bytes, around.budget));
    }
    let numbers = std::iter::successors(Some(first), |number| number.checked_add(step));
    Ok(Value::list(numbers.take(count).map(Value::Integer).collect()))
}
