//! Edits of configuration files that belong to other programs: JSON with comments, TOML and YAML.
//!
//! An edit changes what it names and nothing else: comments, order and spacing stay. Each edit is
//! checked by its meaning: the edited text is read again, and must equal the values before with
//! exactly this change. A text that cannot be edited so is left to its owner.
//!
//! This crate opens no file and knows no program whose configuration it edits.

mod json;
mod model;
mod toml;
mod yaml;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use model::{Edit, Key, get};

/// Format of a configuration file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// JSON, also with comments and trailing commas.
    Json,
    /// TOML.
    Toml,
    /// YAML. Only block style is edited.
    Yaml,
}

/// Failure of an edit. The text is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// The text is not in the format.
    #[error("it is not valid {format}: {reason}")]
    Unreadable {
        /// Name of the format.
        format: &'static str,
        /// Reason, with its line.
        reason: String,
    },
    /// A key on the way holds something else than the edit needs.
    #[error("`{key}` in it is not {needed}")]
    WrongKind {
        /// Key, with the keys above it.
        key: String,
        /// Kind of value that the edit needs.
        needed: &'static str,
    },
    /// The text is in a form whose other parts the edit could not keep.
    #[error("it is written in a form that cannot be edited without a loss")]
    NotKept,
}

impl Format {
    /// Returns the name of the format.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Json => "JSON",
            Self::Toml => "TOML",
            Self::Yaml => "YAML",
        }
    }

    /// Reads the values of a text. An empty text has no values.
    ///
    /// # Errors
    /// [`EditError::Unreadable`] if the text is not in the format.
    pub fn read(self, text: &str) -> Result<Value, EditError> {
        let read = match self {
            Self::Json => json::read(text),
            Self::Toml => toml::read(text),
            Self::Yaml => yaml::read(text),
        };
        let value = read.map_err(|reason| EditError::Unreadable { format: self.as_str(), reason })?;
        Ok(if value.is_null() { Value::Object(serde_json::Map::new()) } else { value })
    }

    /// Makes the edits, one after the other, and returns the new text.
    ///
    /// # Errors
    /// [`EditError`] if the text is not in the format, if a key on the way holds another kind of
    /// value, or if the text is written in a form that cannot be edited without a loss.
    pub fn edit(self, text: &str, edits: &[Edit]) -> Result<String, EditError> {
        let (mark, body) = text.strip_prefix('\u{feff}').map_or(("", text), |body| ("\u{feff}", body));
        let mut edited = body.to_owned();
        let mut expected = self.read(&edited)?;
        for edit in edits {
            let before = expected.clone();
            model::apply(&mut expected, edit)?;
            if expected == before {
                continue;
            }
            edited = match self {
                Self::Json => json::edit(&edited, edit)?,
                Self::Toml => toml::edit(&edited, edit)?,
                Self::Yaml => yaml::edit(&edited, edit)?,
            };
            if self.read(&edited).ok().as_ref() != Some(&expected) {
                return Err(EditError::NotKept);
            }
        }
        Ok(format!("{mark}{edited}"))
    }
}

#[cfg(test)]
mod tests;
