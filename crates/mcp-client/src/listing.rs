//! Lists of a server: tools, resources, templates and prompts.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::definition::ToolDefinition;
use crate::error::{ClientError, invalid, line};

/// Maximum length of a name or a URI in a list, in bytes. The protocol's names have at most 128.
const LONGEST_NAME: usize = 4 * 1024;

/// Maximum length of one entry of a list, in bytes of JSON.
const LONGEST_ENTRY: usize = 256 * 1024;

/// Maximum number of faults that a list tells.
const MOST_FAULTS: usize = 20;

/// List of a server.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Listing<T> {
    /// Entries in the server's order.
    pub entries: Vec<T>,
    /// Faults of entries that were left out, in sentences for a human.
    pub faults: Vec<String>,
}

/// Resource of a server. The texts are not cleaned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceEntry {
    /// URI.
    pub uri: String,
    /// Name.
    #[serde(default)]
    pub name: String,
    /// Description for a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Media type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// Size in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
}

/// Template of resources of a server. The texts are not cleaned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TemplateEntry {
    /// Template of URIs (RFC 6570).
    pub uri_template: String,
    /// Name.
    #[serde(default)]
    pub name: String,
    /// Description for a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Media type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
}

/// Prompt of a server. The texts are not cleaned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PromptEntry {
    /// Name.
    pub name: String,
    /// Description for a human.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Arguments.
    #[serde(default)]
    pub arguments: Vec<PromptArgument>,
}

/// Argument of a prompt, which is text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptArgument {
    /// Name.
    pub name: String,
    /// Description for a human.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// True if the prompt needs it.
    #[serde(default)]
    pub required: bool,
}

/// Kind of entries.
pub(crate) trait Entry: DeserializeOwned {
    /// Method of the list.
    const METHOD: &'static str;
    /// Name or URI, which tells entries apart.
    fn key(&self) -> &str;
}

impl Entry for ToolDefinition {
    const METHOD: &'static str = "tools/list";
    fn key(&self) -> &str {
        &self.name
    }
}

impl Entry for ResourceEntry {
    const METHOD: &'static str = "resources/list";
    fn key(&self) -> &str {
        &self.uri
    }
}

impl Entry for TemplateEntry {
    const METHOD: &'static str = "resources/templates/list";
    fn key(&self) -> &str {
        &self.uri_template
    }
}

impl Entry for PromptEntry {
    const METHOD: &'static str = "prompts/list";
    fn key(&self) -> &str {
        &self.name
    }
}

/// One page of each list. A page has the field of its own kind.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page {
    #[serde(default, alias = "resources", alias = "resourceTemplates", alias = "prompts")]
    tools: Option<Vec<Box<RawValue>>>,
    #[serde(default)]
    next_cursor: Option<String>,
}

impl<T> Listing<T> {
    pub(crate) fn new() -> Self {
        Self { entries: Vec::new(), faults: Vec::new() }
    }

    /// Adds a page, and returns the cursor of the next one. An entry that cannot be read is left out, so that one
    /// bad tool does not take the others along.
    pub(crate) fn add_page(&mut self, page: &RawValue, most: usize) -> Result<Option<String>, ClientError>
    where
        T: Entry,
    {
        let page: Page = serde_json::from_str(page.get()).map_err(|error| invalid(T::METHOD, error))?;
        let entries = page.tools.ok_or_else(|| invalid(T::METHOD, "it has no list"))?;
        for entry in entries {
            if self.entries.len() >= most {
                return Err(ClientError::TooMuch {
                    method: T::METHOD.to_owned(),
                    limit: most,
                    unit: "entries",
                });
            }
            if entry.get().len() > LONGEST_ENTRY {
                self.fault(&format!("an entry of {} bytes is left out", entry.get().len()));
                continue;
            }
            match serde_json::from_str::<T>(entry.get()) {
                Ok(entry) if entry.key().is_empty() || entry.key().len() > LONGEST_NAME => {
                    self.fault("an entry without a usable name is left out");
                }
                Ok(entry) if self.entries.iter().any(|other| other.key() == entry.key()) => {
                    self.fault(&format!("a second entry {:?} is left out", line(entry.key())));
                }
                Ok(entry) => self.entries.push(entry),
                Err(error) => self.fault(&format!("an entry that cannot be read is left out: {error}")),
            }
        }
        Ok(page.next_cursor)
    }

    pub(crate) fn fault(&mut self, fault: &str) {
        if self.faults.len() < MOST_FAULTS {
            self.faults.push(line(fault));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn raw(value: &Value) -> Box<RawValue> {
        RawValue::from_string(value.to_string()).unwrap()
    }

    #[test]
    fn entries_that_cannot_be_read_are_left_out_and_told() {
        let mut tools = Listing::<ToolDefinition>::new();
        let page = json!({"tools": [
            {"name": "good", "inputSchema": {"type": "object"}, "icons": []},
            {"name": "no schema"},
            {"inputSchema": {}},
            {"name": "", "inputSchema": {}},
            {"name": "good", "inputSchema": {"type": "object", "title": "another"}},
            {"name": "long", "description": "x".repeat(LONGEST_ENTRY), "inputSchema": {}},
            5,
        ], "nextCursor": "2"});
        assert_eq!(tools.add_page(&raw(&page), 10).unwrap().as_deref(), Some("2"));
        assert_eq!(tools.entries.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["good"]);
        assert_eq!(tools.faults.len(), 6, "{:?}", tools.faults);
        assert!(
            tools.faults.contains(&"a second entry \"good\" is left out".to_owned()),
            "{:?}",
            tools.faults
        );
    }

    #[test]
    fn a_list_has_a_bound_and_a_form() {
        let page = raw(&json!({"prompts": [{"name": "a"}, {"name": "b"}]}));
        assert!(matches!(
            Listing::<PromptEntry>::new().add_page(&page, 1),
            Err(ClientError::TooMuch { limit: 1, .. })
        ));
        let mut prompts = Listing::<PromptEntry>::new();
        assert_eq!(prompts.add_page(&page, 2).unwrap(), None);
        assert!(Listing::<PromptEntry>::new().add_page(&raw(&json!({"nextCursor": "x"})), 2).is_err());
        assert!(Listing::<PromptEntry>::new().add_page(&raw(&json!([])), 2).is_err());
    }
}
