//! The data of a response: a JSON tree, or JSON that was written once.

use serde::ser::Error as _;
use serde::{Serialize, Serializer};
use serde_json::Value;

/// Data of a response.
#[derive(Debug, Clone)]
pub enum Data {
    /// JSON tree that layers may change.
    Value(Value),
    /// JSON text, for a response with so many parts that a tree of them would cost more than the
    /// rest of the call.
    Written(RawJson),
}

/// JSON text that is written once and passed on unchanged.
#[derive(Debug, Clone)]
pub struct RawJson(String);

impl RawJson {
    /// Writes the JSON of the value on one line. Reserves `expected` bytes, so that a long text is
    /// not moved while it grows.
    ///
    /// # Errors
    /// Returns an error if the value cannot be serialized, or if it holds a map whose keys are not
    /// texts.
    pub fn of(value: &impl Serialize, expected: usize) -> serde_json::Result<Self> {
        // INVARIANT: a `RawJson` holds only the compact text of serde_json. Doors copy the text
        // into their messages unread, where a line break would end the message. The redactor looks
        // for secrets in the form that serde_json escapes.
        let mut text = Vec::with_capacity(expected);
        serde_json::to_writer(&mut text, value)?;
        text.shrink_to_fit();
        String::from_utf8(text).map(Self).map_err(serde_json::Error::custom)
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Parses the text into a tree.
    ///
    /// # Errors
    /// Returns an error for values that are nested more than 127 levels deep.
    pub fn parse(&self) -> serde_json::Result<Value> {
        serde_json::from_str(&self.0)
    }
}

impl Data {
    /// Returns the data as a tree.
    ///
    /// # Errors
    /// Returns the errors of [`RawJson::parse`].
    pub fn into_value(self) -> serde_json::Result<Value> {
        match self {
            Self::Value(value) => Ok(value),
            Self::Written(written) => written.parse(),
        }
    }
}

impl From<Value> for Data {
    fn from(value: Value) -> Self {
        Self::Value(value)
    }
}

impl Serialize for Data {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Value(value) => value.serialize(serializer),
            // The serializer may want another form, such as one with line breaks for people.
            Self::Written(written) => written.parse().map_err(S::Error::custom)?.serialize(serializer),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn written_data_is_the_same_as_its_tree_in_every_form() {
        let value = json!({"b": ["ä\"\\\n\u{1}\u{7f}", 1.5, null], "a": {"x": -3}});
        let written = Data::Written(RawJson::of(&value, 0).unwrap());
        let forms = |data: &Data| {
            [serde_json::to_string(data), serde_json::to_string_pretty(data)].map(std::result::Result::unwrap)
        };
        assert_eq!(forms(&written), forms(&Data::Value(value.clone())));
        let Data::Written(text) = &written else { panic!("it was written") };
        assert!(!text.as_str().contains('\n'), "{}", text.as_str());
        assert_eq!(written.into_value().unwrap(), value);
    }
}
