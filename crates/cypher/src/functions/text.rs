//! Functions of texts. Positions and lengths count characters.

use super::{Function, Surroundings, name_of, out_of_range, refused, too_large};
use crate::error::Result;
use crate::value::Value;

pub(super) fn call(function: Function, arguments: &[Value], around: &Surroundings<'_>) -> Result<Value> {
    let text = text_at(function, arguments, 0)?;
    Ok(match function {
        Function::ToLower => Value::string(&text.to_lowercase()),
        Function::ToUpper => Value::string(&text.to_uppercase()),
        Function::Trim => Value::string(text.trim()),
        Function::LeftTrim => Value::string(text.trim_start()),
        Function::RightTrim => Value::string(text.trim_end()),
        Function::Left => {
            let count = count_at(function, arguments, 1)?;
            Value::string(&text.chars().take(count).collect::<String>())
        }
        Function::Right => {
            let count = count_at(function, arguments, 1)?;
            let skipped = text.chars().count().saturating_sub(count);
            Value::string(&text.chars().skip(skipped).collect::<String>())
        }
        Function::Substring => {
            let rest = text.chars().skip(count_at(function, arguments, 1)?);
            let count = if arguments.len() > 2 { count_at(function, arguments, 2)? } else { usize::MAX };
            Value::string(&rest.take(count).collect::<String>())
        }
        Function::Replace => {
            let (from, to) = (text_at(function, arguments, 1)?, text_at(function, arguments, 2)?);
            let bytes = text.matches(from).count().saturating_mul(to.len()).saturating_add(text.len());
            if bytes > around.budget {
                return Err(too_large(bytes, around.budget));
            }
            if from.is_empty() { Value::string(text) } else { Value::string(&text.replace(from, to)) }
        }
        Function::Split => {
            let separator = text_at(function, arguments, 1)?;
            let bytes = text.len().saturating_mul(48);
            if bytes > around.budget {
                return Err(too_large(bytes, around.budget));
            }
            if separator.is_empty() {
                let single = |character: char| Value::string(character.encode_utf8(&mut [0; 4]));
                return Ok(Value::list(text.chars().map(single).collect()));
            }
            Value::list(text.split(separator).map(Value::string).collect())
        }
        _ => return Err(refused(function, arguments.first().unwrap_or(&Value::Null))),
    })
}

fn text_at(function: Function, arguments: &[Value], at: usize) -> Result<&str> {
    match arguments.get(at) {
        Some(Value::String(text)) => Ok(text),
        other => Err(refused(function, other.unwrap_or(&Value::Null))),
    }
}

fn count_at(function: Function, arguments: &[Value], at: usize) -> Result<usize> {
    match arguments.get(at) {
        Some(Value::Integer(count)) => usize::try_from(*count)
            .map_err(|_| out_of_range(format!("`{}` takes no negative number.", name_of(function)))),
        other => Err(refused(function, other.unwrap_or(&Value::Null))),
    }
}
