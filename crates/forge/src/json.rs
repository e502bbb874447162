//! JSON in which no key stands twice: which of two equal keys counts differs between servers.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// A JSON value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Json {
    /// Null, a boolean or a number.
    Plain,
    Text(String),
    List(Vec<Self>),
    Object(BTreeMap<String, Self>),
}

/// Reads one JSON value in UTF-8. Returns `None` if the text is anything else, or has a key twice
/// in one object.
pub(crate) fn read(bytes: &[u8]) -> Option<Json> {
    serde_json::from_slice(bytes).ok()
}

impl Json {
    /// Returns true if a value at any depth has this key.
    // BOUNDED: `serde_json` reads at most 128 levels.
    pub(crate) fn has_key(&self, name: &str) -> bool {
        match self {
            Self::Plain | Self::Text(_) => false,
            Self::List(values) => values.iter().any(|value| value.has_key(name)),
            Self::Object(fields) => {
                fields.contains_key(name) || fields.values().any(|value| value.has_key(name))
            }
        }
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JsonVisitor)
    }
}

struct JsonVisitor;

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = Json;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON without a key twice")
    }

    fn visit_unit<E: Error>(self) -> Result<Json, E> {
        Ok(Json::Plain)
    }

    fn visit_bool<E: Error>(self, _value: bool) -> Result<Json, E> {
        Ok(Json::Plain)
    }

    fn visit_i64<E: Error>(self, _value: i64) -> Result<Json, E> {
        Ok(Json::Plain)
    }

    fn visit_u64<E: Error>(self, _value: u64) -> Result<Json, E> {
        Ok(Json::Plain)
    }

    fn visit_f64<E: Error>(self, _value: f64) -> Result<Json, E> {
        Ok(Json::Plain)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Json, E> {
        Ok(Json::Text(text.to_owned()))
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Json, E> {
        Ok(Json::Text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<Json, A::Error> {
        let mut list = Vec::new();
        while let Some(value) = values.next_element()? {
            list.push(value);
        }
        Ok(Json::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut pairs: A) -> Result<Json, A::Error> {
        let mut fields = BTreeMap::new();
        while let Some((key, value)) = pairs.next_entry::<String, Json>()? {
            if fields.insert(key, value).is_some() {
                return Err(A::Error::custom("a key stands twice"));
            }
        }
        Ok(Json::Object(fields))
    }
}
