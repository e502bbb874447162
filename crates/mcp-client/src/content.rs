//! Results of tools, resources and prompts.
//!
//! Texts are handed on as they came, since a result may be the content of a file. [`crate::text`] cleans them
//! for whoever reads them.

use serde_json::Value;

use crate::error::{ClientError, invalid};
use crate::text;

/// Maximum number of parts of one result.
pub const MOST_PARTS: usize = 10_000;

/// Result of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolAnswer {
    /// Parts of the result, in their order.
    pub content: Vec<Content>,
    /// Result as a JSON value, if the tool has one.
    pub structured: Option<Value>,
    /// True if the tool reports a failure, which the content explains.
    pub is_error: bool,
}

/// Part of a result.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// Text.
    Text(String),
    /// Picture or sound.
    Media {
        /// True for a sound.
        is_audio: bool,
        /// Media type, cleaned.
        media_type: String,
        /// Content in Base64, as it came.
        data: String,
    },
    /// Link to a resource of the server.
    Link {
        /// URI.
        uri: String,
        /// Name.
        name: String,
    },
    /// Resource with its content.
    Resource(ResourceContent),
    /// Part of a kind that this client does not know.
    Unknown {
        /// Kind, cleaned.
        kind: String,
    },
}

/// Content of a resource.
#[derive(Debug, Clone, PartialEq)]
pub struct ResourceContent {
    /// URI.
    pub uri: String,
    /// Media type, cleaned; empty if there is none.
    pub media_type: String,
    /// Content.
    pub data: ResourceData,
}

/// Content of a resource, as text or as bytes.
#[derive(Debug, Clone, PartialEq)]
pub enum ResourceData {
    /// Text.
    Text(String),
    /// Bytes in Base64, as they came.
    Base64(String),
}

/// Message of a prompt.
#[derive(Debug, Clone, PartialEq)]
pub struct PromptMessage {
    /// True if the message is the model's, and not the user's.
    pub is_assistant: bool,
    /// Content.
    pub content: Content,
}

impl ToolAnswer {
    pub(crate) fn read(method: &str, mut result: Value) -> Result<Self, ClientError> {
        let structured = result.get_mut("structuredContent").map(Value::take);
        let content = match result.get_mut("content").map(Value::take) {
            Some(Value::Array(parts)) => parts,
            // A tool with structured content alone breaks the protocol, and its result is still whole.
            None if structured.is_some() => Vec::new(),
            _ => return Err(invalid(method, "it has no list `content`")),
        };
        if content.len() > MOST_PARTS {
            return Err(ClientError::TooMuch { method: method.to_owned(), limit: MOST_PARTS, unit: "parts" });
        }
        Ok(Self {
            content: content.into_iter().map(Content::read).collect(),
            structured,
            is_error: result.get("isError") == Some(&Value::Bool(true)),
        })
    }
}

impl Content {
    fn read(mut part: Value) -> Self {
        let kind = text_of(&mut part, "type");
        match kind.as_str() {
            "text" => Self::Text(text_of(&mut part, "text")),
            "image" | "audio" => Self::Media {
                is_audio: kind == "audio",
                media_type: media_type(&mut part),
                data: text_of(&mut part, "data"),
            },
            "resource_link" => {
                Self::Link { uri: text_of(&mut part, "uri"), name: text_of(&mut part, "name") }
            }
            "resource" => Self::Resource(ResourceContent::read(part.get_mut("resource").map(Value::take))),
            _ => Self::Unknown { kind: text::clean_line(&kind, text::LONGEST_TITLE) },
        }
    }
}

impl ResourceContent {
    fn read(resource: Option<Value>) -> Self {
        let mut resource = resource.unwrap_or_default();
        let data = match resource.get("blob") {
            Some(Value::String(_)) => ResourceData::Base64(text_of(&mut resource, "blob")),
            _ => ResourceData::Text(text_of(&mut resource, "text")),
        };
        Self { uri: text_of(&mut resource, "uri"), media_type: media_type(&mut resource), data }
    }
}

/// Reads the result of `resources/read`.
pub(crate) fn resource_contents(
    method: &str,
    mut result: Value,
) -> Result<Vec<ResourceContent>, ClientError> {
    let Some(Value::Array(contents)) = result.get_mut("contents").map(Value::take) else {
        return Err(invalid(method, "it has no list `contents`"));
    };
    if contents.len() > MOST_PARTS {
        return Err(ClientError::TooMuch { method: method.to_owned(), limit: MOST_PARTS, unit: "parts" });
    }
    Ok(contents.into_iter().map(|content| ResourceContent::read(Some(content))).collect())
}

/// Reads the result of `prompts/get`.
pub(crate) fn prompt_messages(method: &str, mut result: Value) -> Result<Vec<PromptMessage>, ClientError> {
    let Some(Value::Array(messages)) = result.get_mut("messages").map(Value::take) else {
        return Err(invalid(method, "it has no list `messages`"));
    };
    if messages.len() > MOST_PARTS {
        return Err(ClientError::TooMuch { method: method.to_owned(), limit: MOST_PARTS, unit: "messages" });
    }
    let message = |mut message: Value| PromptMessage {
        is_assistant: message.get("role").and_then(Value::as_str) == Some("assistant"),
        content: Content::read(message.get_mut("content").map(Value::take).unwrap_or_default()),
    };
    Ok(messages.into_iter().map(message).collect())
}

/// Takes the text of a field; empty if it has none.
fn text_of(value: &mut Value, field: &str) -> String {
    match value.get_mut(field).map(Value::take) {
        Some(Value::String(text)) => text,
        _ => String::new(),
    }
}

fn media_type(value: &mut Value) -> String {
    text::clean_line(&text_of(value, "mimeType"), text::LONGEST_TITLE)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_result_is_read_part_by_part_and_unknown_parts_are_named() {
        let answer = ToolAnswer::read(
            "tools/call",
            json!({"content": [
                {"type": "text", "text": "a\u{202e}"},
                {"type": "image", "mimeType": "image/png", "data": "QQ=="},
                {"type": "resource_link", "uri": "x:y", "name": "y"},
                {"type": "resource", "resource": {"uri": "x:z", "mimeType": "text/plain", "blob": "QQ=="}},
                {"type": "hologram\n", "x": 1},
                7,
            ], "structuredContent": [1], "isError": true}),
        )
        .unwrap();
        assert!(answer.is_error);
        assert_eq!(answer.structured, Some(json!([1])));
        assert_eq!(answer.content[0], Content::Text("a\u{202e}".to_owned()));
        assert!(matches!(&answer.content[1], Content::Media { is_audio: false, data, .. } if data == "QQ=="));
        assert!(matches!(
            &answer.content[3],
            Content::Resource(ResourceContent { data: ResourceData::Base64(_), .. })
        ));
        assert_eq!(answer.content[4], Content::Unknown { kind: "hologram".to_owned() });
        assert_eq!(answer.content[5], Content::Unknown { kind: String::new() });
    }

    #[test]
    fn results_without_their_form_are_refused() {
        assert!(ToolAnswer::read("tools/call", json!({})).is_err());
        assert!(ToolAnswer::read("tools/call", json!({"content": "text"})).is_err());
        assert!(ToolAnswer::read("tools/call", json!({"structuredContent": {}})).is_ok());
        let many = json!({"content": vec![json!(1); MOST_PARTS + 1]});
        assert!(matches!(ToolAnswer::read("tools/call", many), Err(ClientError::TooMuch { .. })));
        assert!(resource_contents("resources/read", json!({"contents": 1})).is_err());
        assert!(prompt_messages("prompts/get", json!([])).is_err());
    }
}
