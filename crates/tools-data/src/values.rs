//! Lossless conversion between database values and JSON.
//!
//! A value without an exact JSON form is an object of one field: `{"base64": …}` for bytes and
//! `{"text_base64": …}` for text that is not UTF-8. Integers beyond 2^53, which many JSON readers
//! round, are `{"integer": "…"}`, and infinities are `{"real": "…"}`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use database::{Page, Value as Stored};
use serde_json::{Map, Value, json};
use tool::ToolError;

/// Largest magnitude of an integer that every JSON reader preserves (RFC 8259, section 6).
const EXACT: u64 = 1 << 53;

/// Converts the parameters of a statement.
pub(crate) fn parameters(given: Option<&[Value]>) -> Result<Vec<Stored>, ToolError> {
    let parameter = |(index, value): (usize, &Value)| {
        stored(value).map_err(|problem| ToolError::validation(&format!("params[{index}]"), problem))
    };
    given.unwrap_or_default().iter().enumerate().map(parameter).collect()
}

/// Returns the rows of a page as objects, keyed by column name.
pub(crate) fn rows(page: Page) -> Vec<Map<String, Value>> {
    let Page { columns, rows, .. } = page;
    rows.into_iter().map(|row| columns.iter().cloned().zip(row.into_iter().map(shown)).collect()).collect()
}

fn stored(value: &Value) -> Result<Stored, String> {
    match value {
        Value::Null => Ok(Stored::Null),
        Value::Bool(flag) => Ok(Stored::Integer(i64::from(*flag))),
        Value::String(text) => Ok(Stored::Text(text.clone())),
        Value::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(whole), ..) => Ok(Stored::Integer(whole)),
            (None, Some(_), _) => Err(format!("{number} is larger than the largest integer, 2^63 - 1")),
            (None, None, Some(real)) => Ok(Stored::Real(real)),
            (None, None, None) => Err(format!("{number} is not a number that SQLite can store")),
        },
        Value::Array(_) => Err("a list is not a value; store it as JSON text".to_owned()),
        Value::Object(fields) => tagged(fields),
    }
}

fn tagged(fields: &Map<String, Value>) -> Result<Stored, String> {
    const FORMS: &str = "an object must be {\"base64\": \"…\"}, {\"integer\": \"…\"}, {\"real\": …} or {\"text_base64\": \"…\"}";
    let mut all = fields.iter();
    let (Some((tag, value)), None) = (all.next(), all.next()) else { return Err(FORMS.to_owned()) };
    let bytes = |text: &str| STANDARD.decode(text).map_err(|error| format!("invalid Base64: {error}"));
    match (tag.as_str(), value.as_str(), value.as_f64()) {
        ("base64", Some(text), _) => bytes(text).map(Stored::Blob),
        ("text_base64", Some(text), _) => bytes(text).map(Stored::OddText),
        ("integer", Some(text), _) => {
            text.parse().map(Stored::Integer).map_err(|error| format!("{text:?}: {error}"))
        }
        ("real", Some(text), _) => {
            text.parse().map(Stored::Real).map_err(|error| format!("{text:?}: {error}"))
        }
        ("real", None, Some(number)) => Ok(Stored::Real(number)),
        _ => Err(FORMS.to_owned()),
    }
}

fn shown(value: Stored) -> Value {
    match value {
        Stored::Null => Value::Null,
        Stored::Integer(number) if number.unsigned_abs() <= EXACT => json!(number),
        Stored::Integer(number) => json!({"integer": number.to_string()}),
        Stored::Real(number) if number.is_finite() => json!(number),
        Stored::Real(number) => json!({"real": number.to_string()}),
        Stored::Text(text) => Value::String(text),
        Stored::OddText(bytes) => json!({"text_base64": STANDARD.encode(bytes)}),
        Stored::Blob(bytes) => json!({"base64": STANDARD.encode(bytes)}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_comes_back_from_its_json() {
        for value in [
            Stored::Null,
            Stored::Integer(-(1 << 53)),
            Stored::Integer(i64::MIN),
            Stored::Integer(i64::MAX),
            Stored::Real(1.5),
            Stored::Real(f64::INFINITY),
            Stored::Real(f64::NEG_INFINITY),
            Stored::Text("{\"base64\": \"x\"}".to_owned()),
            Stored::OddText(vec![0xff]),
            Stored::Blob(vec![]),
        ] {
            assert_eq!(stored(&shown(value.clone())).unwrap(), value);
        }
        assert_eq!(shown(Stored::Integer((1 << 53) + 1)), json!({"integer": "9007199254740993"}));
    }

    #[test]
    fn what_is_no_value_is_refused_with_its_place() {
        for bad in [
            json!([1]),
            json!({}),
            json!({"base64": "!"}),
            json!({"integer": "1.5"}),
            json!({"a": 1}),
            json!({"base64": "", "integer": "1"}),
            json!(u64::MAX),
        ] {
            let error = parameters(Some(&[json!(1), bad.clone()])).unwrap_err();
            assert!(error.message.starts_with("`params[1]`"), "{bad}: {}", error.message);
        }
    }
}
