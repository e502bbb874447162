use serde::ser::Error as _;
use serde::{Serialize, Serializer};
use serde_json::Value;

/// The data of an answer.
#[derive(Debug, Clone)]
pub enum Data {
    /// As a tree that layers may change.
    Value(Value),
    /// As its JSON text, for answers of so many parts that a tree of them costs more than all the rest of the call.
    Written(Written),
}

/// JSON, written once and passed on as it is.
#[derive(Debug, Clone)]
pub struct Written(String);

impl Written {
    /// The value's JSON on one line. `expected` bytes are set aside for it, so that a long one is not moved while it grows.
    ///
    /// # Errors
    /// What the value itself says, and maps whose keys are no texts.
    pub fn of(value: &impl Serialize, expected: usize) -> serde_json::Result<Self> {
        // INVARIANT: nothing but serde_json's own compact text gets in here. Doors put it into their messages unread, where a
        // line break would end the message, and the redactor looks for secrets as serde_json escapes them.
        let mut text = Vec::with_capacity(expected);
        serde_json::to_writer(&mut text, value)?;
        text.shrink_to_fit();
        String::from_utf8(text).map(Self).map_err(serde_json::Error::custom)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The tree that the text stands for.
    ///
    /// # Errors
    /// For values nested more than 127 levels deep.
    pub fn parse(&self) -> serde_json::Result<Value> {
        serde_json::from_str(&self.0)
    }
}

impl Data {
    /// The tree.
    ///
    /// # Errors
    /// As [`Written::parse`].
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
            // The serializer may want another form, with line breaks for people.
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
        let written = Data::Written(Written::of(&value, 0).unwrap());
        let forms = |data: &Data| {
            [serde_json::to_string(data), serde_json::to_string_pretty(data)].map(std::result::Result::unwrap)
        };
        assert_eq!(forms(&written), forms(&Data::Value(value.clone())));
        let Data::Written(text) = &written else { panic!("it was written") };
        assert!(!text.as_str().contains('\n'), "{}", text.as_str());
        assert_eq!(written.into_value().unwrap(), value);
    }
}
