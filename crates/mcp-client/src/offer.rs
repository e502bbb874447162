//! A foreign tool in the form in which it is offered to models: its schema in the subset, its texts cleaned.
//!
//! The name is not part of it, since it may depend on other servers ([`crate::names`]), and neither is the level,
//! which belongs to the configuration ([`crate::level`]).

use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use crate::definition::{DefinitionHash, ToolDefinition};
use crate::level::Annotations;
use crate::schema::{SchemaError, portable_schema};
use crate::text;

/// Foreign tool as models see it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct OfferedTool {
    /// Name at the server, as it is called there.
    pub tool: String,
    /// Name for people, in one line, cleaned.
    pub title: String,
    /// Description for a model, cleaned. The caller labels it as a stranger's.
    pub description: String,
    /// JSON Schema of the arguments, in the subset.
    pub input_schema: Box<RawValue>,
    /// Claims about calls.
    pub annotations: Annotations,
    /// Hash of the definition that this was made from.
    pub hash: DefinitionHash,
    /// Notes about what was left out, in sentences for a human.
    pub notes: Vec<String>,
}

/// Foreign tool that cannot be offered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedTool {
    /// Name at the server, in one line, cleaned.
    pub tool: String,
    /// Reason, in words that continue "the tool cannot be offered: ".
    pub reason: String,
}

impl OfferedTool {
    /// Makes the form for models of a definition.
    ///
    /// # Errors
    /// [`SchemaError`], if no schema of the subset describes calls of this tool.
    pub fn of(definition: &ToolDefinition) -> Result<Self, SchemaError> {
        let schema = portable_schema(&definition.input_schema_value())?;
        let clean = text::clean_description(definition.description.as_deref().unwrap_or_default());
        let mut notes = schema.notes;
        if clean.hidden > 0 {
            notes.push(format!("{} invisible characters are removed from the description", clean.hidden));
        }
        if clean.is_cut {
            notes.push(format!("the description is cut after {} bytes", text::LONGEST_DESCRIPTION));
        }
        let line = |words: &str| text::clean_line(words, text::LONGEST_TITLE);
        let title = definition.title.as_deref().map(line).filter(|title| !title.is_empty());
        let title = title.unwrap_or_else(|| line(&definition.name));
        // Some providers refuse a tool without a description.
        let description = if clean.text.is_empty() { title.clone() } else { clean.text };
        let invalid = |_| SchemaError::Invalid { place: String::new() };
        Ok(Self {
            tool: definition.name.clone(),
            title,
            description,
            input_schema: to_raw_value(&schema.schema).map_err(invalid)?,
            annotations: definition.annotations,
            hash: definition.hash(),
            notes,
        })
    }
}

/// Makes the forms of a whole list. Tools that cannot be offered are told with their reasons.
pub fn offer_all(definitions: &[ToolDefinition]) -> (Vec<OfferedTool>, Vec<RefusedTool>) {
    let (mut offered, mut refused) = (Vec::new(), Vec::new());
    for definition in definitions {
        match OfferedTool::of(definition) {
            Ok(tool) => offered.push(tool),
            Err(reason) => refused.push(RefusedTool {
                tool: text::clean_line(&definition.name, text::LONGEST_TITLE),
                reason: reason.to_string(),
            }),
        }
    }
    (offered, refused)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn definition(json: &Value) -> ToolDefinition {
        serde_json::from_str(&json.to_string()).unwrap()
    }

    #[test]
    fn one_bad_tool_does_not_take_the_others_along_and_says_why() {
        let good = definition(&json!({
            "name": "get.time", "description": "Tells the time.\u{202e}", "annotations": {"readOnlyHint": true},
            "inputSchema": {"type": "object", "properties": {"zone": {"type": ["string", "null"]}}},
        }));
        let bad = definition(
            &json!({"name": "tree\n", "inputSchema": {"type": "object", "properties": {"x": {"$ref": "#"}}}}),
        );
        let bare = definition(&json!({"name": "bare", "inputSchema": {}}));
        let (offered, refused) = offer_all(&[good.clone(), bad, bare]);
        let [time, bare] = offered.as_slice() else { panic!("{offered:?}") };
        assert_eq!(
            (time.tool.as_str(), time.title.as_str(), time.description.as_str()),
            ("get.time", "get.time", "Tells the time.")
        );
        assert_eq!(time.annotations.read_only_hint, Some(true));
        assert_eq!(time.hash, good.hash());
        assert_eq!(time.notes, ["1 invisible characters are removed from the description"]);
        let schema: Value = serde_json::from_str(time.input_schema.get()).unwrap();
        assert_eq!(schema["properties"]["zone"]["type"], "string");
        assert_eq!(bare.description, "bare");
        let reason = "its schema refers to itself (\"#\")".to_owned();
        assert_eq!(refused, [RefusedTool { tool: "tree".to_owned(), reason }]);
    }
}
