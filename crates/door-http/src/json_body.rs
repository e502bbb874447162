//! Parsing of JSON bodies.

use serde::de::DeserializeOwned;
use tool::{ToolError, holds_too_many_values};

/// Parses a body as JSON.
///
/// # Errors
/// `EVALIDATION` that names the field.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ToolError> {
    if holds_too_many_values(bytes) {
        return Err(ToolError::validation("body", "it has more than a million values"));
    }
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let parsed = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        let field = if path == "." { "body".to_owned() } else { path };
        ToolError::validation(&field, error.into_inner())
    })?;
    json.end().map_err(|error| ToolError::validation("body", error))?;
    Ok(parsed)
}
