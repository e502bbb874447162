//! Parsing of a message into a value and its ids. A [`Value`] cannot hold an id, because it loses
//! the spelling of numbers.

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::id::{Id, IdField};

/// The ids of a message, separate from its other values.
#[derive(Debug, Default)]
pub(crate) struct Ids {
    /// Field `id`.
    pub(crate) id: IdField,
    /// Field `params.requestId`.
    pub(crate) request: IdField,
    /// Field `params._meta.progressToken`.
    pub(crate) progress: IdField,
}

/// Parses a message into a value without its ids, and the ids.
///
/// # Errors
/// An error if the text is not JSON, or contains a number elsewhere that no [`Value`] can hold.
pub(crate) fn read(message: &[u8]) -> serde_json::Result<(Value, Ids)> {
    let mut ids = Ids::default();
    let mut deserializer = serde_json::Deserializer::from_slice(message);
    let value = Level { depth: Depth::Message, ids: &mut ids }.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok((value, ids))
}

/// Deserializer of one value of a message.
struct Level<'a> {
    depth: Depth,
    ids: &'a mut Ids,
}

/// Objects of a message that contain ids.
#[derive(Clone, Copy)]
enum Depth {
    Message,
    Params,
    Meta,
}

impl<'de> DeserializeSeed<'de> for Level<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Level<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("any JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let Self { depth, ids } = self;
        let mut fields = Map::new();
        while let Some(name) = map.next_key::<String>()? {
            // The last one of repeated fields counts, with all its content, as elsewhere in JSON.
            let value = match (depth, name.as_str()) {
                (Depth::Message, "id") => {
                    ids.id = field(&mut map)?;
                    continue;
                }
                (Depth::Params, "requestId") => {
                    ids.request = field(&mut map)?;
                    continue;
                }
                (Depth::Meta, "progressToken") => {
                    ids.progress = field(&mut map)?;
                    continue;
                }
                (Depth::Message, "params") => {
                    (ids.request, ids.progress) = Default::default();
                    map.next_value_seed(Level { depth: Depth::Params, ids })?
                }
                (Depth::Params, "_meta") => {
                    ids.progress = IdField::Absent;
                    map.next_value_seed(Level { depth: Depth::Meta, ids })?
                }
                _ => map.next_value()?,
            };
            fields.insert(name, value);
        }
        Ok(Value::Object(fields))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut all = Vec::new();
        while let Some(item) = items.next_element()? {
            all.push(item);
        }
        Ok(Value::Array(all))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }
}

fn field<'de, A: MapAccess<'de>>(map: &mut A) -> Result<IdField, A::Error> {
    let id = Id::read(map.next_value()?).map_err(A::Error::custom)?;
    Ok(id.map_or(IdField::Unusable, IdField::Is))
}
