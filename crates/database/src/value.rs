//! Values of rows and parameters.

use base64::engine::general_purpose::STANDARD;
use rusqlite::ToSql;
use rusqlite::types::{ToSqlOutput, ValueRef};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// One value of a row or a parameter, with SQLite's exact type and bits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Value {
    /// NULL.
    #[serde(rename = "n")]
    Null,
    /// An integer.
    #[serde(rename = "i")]
    Integer(i64),
    /// A floating-point number, serialized by its bits.
    #[serde(rename = "r", with = "bits")]
    Real(f64),
    /// A text in UTF-8.
    #[serde(rename = "t")]
    Text(String),
    /// A text that is not valid UTF-8, written by another program.
    #[serde(rename = "o", with = "text")]
    OddText(Vec<u8>),
    /// Bytes.
    #[serde(rename = "b", with = "text")]
    Blob(Vec<u8>),
}

/// Estimates the memory of a copy of the value, in bytes.
pub(crate) fn weight_of(value: ValueRef<'_>) -> usize {
    match value {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.len() + 16,
        ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) => 16,
    }
}

impl Value {
    pub(crate) fn of(value: ValueRef<'_>) -> Self {
        match value {
            ValueRef::Null => Self::Null,
            ValueRef::Integer(number) => Self::Integer(number),
            ValueRef::Real(number) => Self::Real(number),
            ValueRef::Text(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => Self::Text(text.to_owned()),
                Err(_) => Self::OddText(bytes.to_owned()),
            },
            ValueRef::Blob(bytes) => Self::Blob(bytes.to_owned()),
        }
    }

    /// Estimates the memory of the value, in bytes.
    pub fn weight(&self) -> usize {
        match self {
            Self::Text(text) => text.len() + 16,
            Self::OddText(bytes) | Self::Blob(bytes) => bytes.len() + 16,
            Self::Null | Self::Integer(_) | Self::Real(_) => 16,
        }
    }

    /// Returns true if both values have the same type and the same bits.
    pub(crate) fn is_exactly(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Real(one), Self::Real(two)) => one.to_bits() == two.to_bits(),
            (one, two) => one == two,
        }
    }
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let value = match self {
            Self::Null => ValueRef::Null,
            Self::Integer(number) => ValueRef::Integer(*number),
            Self::Real(number) => ValueRef::Real(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::OddText(bytes) => ValueRef::Text(bytes),
            Self::Blob(bytes) => ValueRef::Blob(bytes),
        };
        Ok(ToSqlOutput::Borrowed(value))
    }
}

/// Serialization of bytes as Base64.
mod text {
    use base64::Engine as _;

    use super::{Deserialize, Deserializer, STANDARD, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        STANDARD.decode(String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

/// Serialization of floating-point numbers by their bits, because JSON has no infinities.
mod bits {
    use super::{Deserialize, Deserializer, Serialize, Serializer};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands it over so")]
    pub(super) fn serialize<S: Serializer>(number: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        number.to_bits().serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        u64::deserialize(deserializer).map(f64::from_bits)
    }
}
