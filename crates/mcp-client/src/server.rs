//! Facts about a server, as it gives them when a connection begins.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::revision::Revision;
use crate::text;

/// Maximum length of a server's instructions for models, in bytes.
pub const LONGEST_INSTRUCTIONS: usize = 16 * 1024;

/// Server, by its own words. All texts are cleaned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerFacts {
    /// Revision of the connection.
    pub revision: Revision,
    /// Name of the program.
    pub name: String,
    /// Version of the program.
    pub version: String,
    /// Abilities of the server.
    pub offers: Offers,
    /// Instructions for a model, which are a stranger's words.
    pub instructions: Option<String>,
}

/// Abilities of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Offers {
    /// True if it has tools.
    pub tools: bool,
    /// True if it tells when the list of tools changes.
    pub tools_change: bool,
    /// True if it has prompts.
    pub prompts: bool,
    /// True if it tells when the list of prompts changes.
    pub prompts_change: bool,
    /// True if it has resources.
    pub resources: bool,
    /// True if it tells when the list of resources changes.
    pub resources_change: bool,
    /// True if it tells when the content of a resource changes.
    pub subscriptions: bool,
    /// True if it completes arguments.
    pub completions: bool,
    /// True if it sends its log.
    pub logging: bool,
}

impl Offers {
    fn read(capabilities: &Value) -> Self {
        let has = |path: &str| capabilities.pointer(path).is_some_and(|value| !value.is_null());
        let is = |path: &str| capabilities.pointer(path) == Some(&Value::Bool(true));
        Self {
            tools: has("/tools"),
            tools_change: is("/tools/listChanged"),
            prompts: has("/prompts"),
            prompts_change: is("/prompts/listChanged"),
            resources: has("/resources"),
            resources_change: is("/resources/listChanged"),
            subscriptions: is("/resources/subscribe"),
            completions: has("/completions"),
            logging: has("/logging"),
        }
    }
}

impl ServerFacts {
    /// Reads the result of a handshake or a discovery. `info` is the object with name and version.
    pub(crate) fn read(revision: Revision, result: &Value, info: Option<&Value>) -> Self {
        let short = |key: &str| {
            let text = info.and_then(|info| info.get(key)).and_then(Value::as_str).unwrap_or_default();
            text::clean_line(text, text::LONGEST_TITLE)
        };
        let instructions = result.get("instructions").and_then(Value::as_str);
        let instructions =
            instructions.map(|words| text::clean(words, LONGEST_INSTRUCTIONS, text::Invisible::Remove).text);
        Self {
            revision,
            name: short("name"),
            version: short("version"),
            offers: Offers::read(result.get("capabilities").unwrap_or(&Value::Null)),
            instructions: instructions.filter(|words| !words.trim().is_empty()),
        }
    }
}
