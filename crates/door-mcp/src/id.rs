//! Ids of requests and progress tokens, as chosen by the client.
//!
//! JSON does not limit numbers, and JSON-RPC requires the id of the request in the response, so the
//! text of a number is preserved. The ids of rmcp are 64-bit integers.

use std::sync::Arc;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

/// A string, or a number with the client's spelling. Two ids are equal if JSON gives them the same meaning.
#[derive(Debug, Clone)]
pub(crate) struct Id(Arc<Named>);

#[derive(Debug)]
struct Named {
    text: Box<RawValue>,
    meaning: IdMeaning,
}

/// Meaning of an id, independent of its spelling.
#[derive(Debug, PartialEq, Eq)]
enum IdMeaning {
    Text(String),
    /// `digits` without zeros at either end, times ten to the power of `exponent`; zero has no digits.
    Number {
        negative: bool,
        digits: String,
        exponent: i64,
    },
    /// A number whose exponent exceeds 64 bits: equal only to the same text.
    Beyond(String),
}

/// Maximum number of trailing zeros of a 64-bit integer.
const MAX_ZEROS: usize = 18;

/// The `id` field of a message, or another field that names a request.
#[derive(Debug, Default)]
pub(crate) enum IdField {
    #[default]
    Absent,
    /// Neither a string nor a number.
    Unusable,
    Is(Id),
}

impl Id {
    /// Parses an id; `None` if the value is neither a string nor a number.
    ///
    /// # Errors
    /// An error if a string is not valid Unicode.
    pub(crate) fn read(text: Box<RawValue>) -> serde_json::Result<Option<Self>> {
        let (text, meaning) = match text.get().as_bytes().first() {
            Some(b'"') => {
                let meaning: String = serde_json::from_str(text.get())?;
                // INVARIANT: a string has one spelling here. Redaction searches the text of
                // messages for secrets, and would miss one whose letters the client wrote as
                // escapes.
                (to_raw_value(&meaning)?, IdMeaning::Text(meaning))
            }
            Some(b'-' | b'0'..=b'9') => {
                let meaning = IdMeaning::of_number(text.get());
                (text, meaning)
            }
            _ => return Ok(None),
        };
        Ok(Some(Self(Arc::new(Named { text, meaning }))))
    }

    /// Returns the id for a log: a string without quotes.
    pub(crate) fn shown(&self) -> &str {
        match &self.0.meaning {
            IdMeaning::Text(text) => text,
            IdMeaning::Number { .. } | IdMeaning::Beyond(_) => self.0.text.get(),
        }
    }

    /// Returns the id as an integer; `None` for other numbers and strings.
    pub(crate) fn integer(&self) -> Option<i64> {
        let IdMeaning::Number { negative, digits, exponent } = &self.0.meaning else { return None };
        let zeros = usize::try_from(*exponent).ok().filter(|zeros| *zeros <= MAX_ZEROS)?;
        format!("{}0{digits}{}", if *negative { "-" } else { "" }, "0".repeat(zeros)).parse().ok()
    }
}

impl IdField {
    /// Returns the id for a response; `None` if the response must use null.
    pub(crate) fn answerable(self) -> Option<Id> {
        match self {
            Self::Is(id) => Some(id),
            Self::Absent | Self::Unusable => None,
        }
    }
}

impl IdMeaning {
    /// Parses a valid JSON number.
    fn of_number(text: &str) -> Self {
        let (mantissa, power) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let (negative, mantissa) =
            mantissa.strip_prefix('-').map_or((false, mantissa), |mantissa| (true, mantissa));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let all = [whole, fraction].concat();
        let short = all.trim_end_matches('0');
        let digits = short.trim_start_matches('0').to_owned();
        if digits.is_empty() {
            return Self::Number { negative: false, digits, exponent: 0 };
        }
        let exponent = (|| {
            let zeros = i64::try_from(all.len() - short.len()).ok()?;
            let places = i64::try_from(fraction.len()).ok()?;
            power.parse::<i64>().ok()?.checked_add(zeros)?.checked_sub(places)
        })();
        match exponent {
            Some(exponent) => Self::Number { negative, digits, exponent },
            None => Self::Beyond(text.to_owned()),
        }
    }
}

impl PartialEq for Id {
    fn eq(&self, other: &Self) -> bool {
        self.0.meaning == other.0.meaning
    }
}

impl Eq for Id {}

impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.text.serialize(serializer)
    }
}

/// A JSON object with an id inserted at a path. A [`Value`] cannot hold an id, because it loses the
/// spelling of numbers.
pub(crate) struct IdInsertion<'a> {
    pub(crate) object: Option<&'a Value>,
    pub(crate) path: &'a [&'a str],
    pub(crate) id: &'a Id,
}

impl Serialize for IdInsertion<'_> {
    // BOUNDED: by the length of the path, which is a constant in this crate.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Some((name, path)) = self.path.split_first() else { return self.id.serialize(serializer) };
        let fields = self.object.and_then(Value::as_object).into_iter().flatten();
        let mut map = serializer.serialize_map(None)?;
        for (field, value) in fields.filter(|(field, _)| field != name) {
            map.serialize_entry(field, value)?;
        }
        let object = self.object.and_then(|object| object.get(name));
        map.serialize_entry(name, &IdInsertion { object, path, id: self.id })?;
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> Id {
        Id::read(RawValue::from_string(text.to_owned()).unwrap()).unwrap().unwrap()
    }

    #[test]
    fn ids_are_equal_where_json_gives_them_one_meaning() {
        let equal = [
            ("0", "-0.00e5"),
            ("0e99999999999999999999", "0"),
            ("100", "1e2"),
            ("100", "1000.0E-1"),
            ("0.5", "5e-1"),
            ("1e400", "0.1e401"),
            ("-18446744073709551616", "-18446744073709551616.0"),
            (r#""\u0061\/""#, r#""a/""#),
        ];
        for (one, other) in equal {
            assert_eq!(id(one), id(other), "{one} {other}");
        }
        let different = [
            ("1", "-1"),
            ("1", "10"),
            ("1", r#""1""#),
            ("9007199254740992", "9007199254740993"),
            ("1e400", "1e401"),
            ("0.1", "0.1000000000000000055511151231257827"),
            ("1e99999999999999999999", "1e99999999999999999998"),
            (r#""a""#, r#""A""#),
        ];
        for (one, other) in different {
            assert_ne!(id(one), id(other), "{one} {other}");
        }
    }

    #[test]
    fn an_integer_is_found_in_any_spelling_within_64_bits() {
        let integers = [
            ("0", Some(0)),
            ("-0.0", Some(0)),
            ("70e-1", Some(7)),
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9e18", Some(9_000_000_000_000_000_000)),
            ("9223372036854775808", None),
            ("1e19", None),
            ("1e400", None),
            ("1.5", None),
            (r#""7""#, None),
        ];
        for (text, integer) in integers {
            assert_eq!(id(text).integer(), integer, "{text}");
        }
    }

    #[test]
    fn a_string_is_written_without_the_escapes_that_it_does_not_need() {
        let written = |text: &str| serde_json::to_string(&id(text)).unwrap();
        assert_eq!(written(r#""\u0073ecret\/\ud83d\ude00\u000A\"""#), r#""secret/😀\n\"""#);
        assert_eq!(written("1.50E+2"), "1.50E+2");
    }
}
