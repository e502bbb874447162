//! Conversions between types.

use super::{Function, refused_value};
use crate::error::Result;
use crate::number::{exact_integer, float, float_text, truncate};
use crate::value::Value;

pub(super) fn call(function: Function, value: &Value) -> Result<Value> {
    Ok(match (function, value) {
        (Function::ToBoolean, Value::Boolean(_))
        | (Function::ToFloat, Value::Float(_))
        | (Function::ToInteger, Value::Integer(_))
        | (Function::ToString, Value::String(_)) => value.clone(),
        (Function::ToBoolean, Value::String(text)) => match text.trim().to_ascii_lowercase().as_str() {
            "true" => Value::Boolean(true),
            "false" => Value::Boolean(false),
            _ => Value::Null,
        },
        (Function::ToFloat, Value::Integer(value)) => Value::Float(float(*value)),
        (Function::ToFloat, Value::String(text)) => parse_float(text).map_or(Value::Null, Value::Float),
        (Function::ToInteger, Value::Float(value)) => truncate(*value).map_or(Value::Null, Value::Integer),
        (Function::ToInteger, Value::Boolean(value)) => Value::Integer(i64::from(*value)),
        (Function::ToInteger, Value::String(text)) => parse_integer(text),
        (Function::ToString, Value::Boolean(value)) => Value::string(if *value { "true" } else { "false" }),
        (Function::ToString, Value::Integer(value)) => Value::string(&value.to_string()),
        (Function::ToString, Value::Float(value)) => Value::string(&float_text(*value)),
        _ => return Err(refused_value(function, value)),
    })
}

fn parse_integer(text: &str) -> Value {
    let text = text.trim();
    if let Ok(value) = text.parse::<i64>() {
        return Value::Integer(value);
    }
    parse_float(text).and_then(|value| exact_integer(value.trunc())).map_or(Value::Null, Value::Integer)
}

/// Parses a decimal float. Rust's own parser also takes words such as `infinity`.
fn parse_float(text: &str) -> Option<f64> {
    let text = text.trim();
    let is_number = text.chars().all(|character| character.is_ascii_digit() || "+-.eE".contains(character));
    text.parse().ok().filter(|_| is_number)
}
