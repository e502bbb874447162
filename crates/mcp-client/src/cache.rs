//! Lists of servers as plain data, so that their tools can be offered before any server is started.
//!
//! The caller stores the text. Schemas stay unparsed within it, which makes loading it fast.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::listing::{PromptEntry, ResourceEntry, TemplateEntry};
use crate::offer::{OfferedTool, RefusedTool};
use crate::server::ServerFacts;

/// Generation of the format. A cache of another generation is empty.
const FORMAT: u32 = 1;

/// Lists of all servers, by their keys.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct ListingCache {
    format: u32,
    servers: BTreeMap<String, CachedServer>,
}

/// Lists of one server.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CachedServer {
    /// Hash or text of the server's configuration, by which the caller recognises another server under this key.
    pub config: String,
    /// Time of the lists, in milliseconds since 1970.
    pub listed_at: i64,
    /// Facts about the server.
    pub facts: ServerFacts,
    /// Tools that can be offered.
    pub tools: Vec<OfferedTool>,
    /// Tools that cannot be offered.
    #[serde(default)]
    pub refused: Vec<RefusedTool>,
    /// Prompts.
    #[serde(default)]
    pub prompts: Vec<PromptEntry>,
    /// Resources.
    #[serde(default)]
    pub resources: Vec<ResourceEntry>,
    /// Templates of resources.
    #[serde(default)]
    pub templates: Vec<TemplateEntry>,
    /// Reasons why resources, templates or prompts are missing, in sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub content_faults: Vec<String>,
}

impl ListingCache {
    /// Reads a cache. A text that is damaged or of another generation gives an empty one, because the servers
    /// themselves know better.
    pub fn load(text: &str) -> Self {
        let loaded: Option<Self> = serde_json::from_str(text).ok();
        loaded.filter(|cache| cache.format == FORMAT).unwrap_or_default()
    }

    /// Returns the cache as text.
    pub fn text(&self) -> String {
        // A map of texts and numbers can always be written.
        serde_json::to_string(&Self { format: FORMAT, servers: self.servers.clone() }).unwrap_or_default()
    }

    /// Returns the lists of a server, unless they belong to another configuration.
    pub fn server(&self, key: &str, config: &str) -> Option<&CachedServer> {
        self.servers.get(key).filter(|server| server.config == config)
    }

    /// Replaces the lists of a server.
    pub fn insert(&mut self, key: &str, server: CachedServer) {
        self.servers.insert(key.to_owned(), server);
    }

    /// Removes the servers whose keys are not wanted any longer.
    pub fn keep_only(&mut self, is_wanted: impl Fn(&str) -> bool) {
        self.servers.retain(|key, _| is_wanted(key));
    }

    /// Returns all servers, by their keys.
    pub fn servers(&self) -> impl Iterator<Item = (&str, &CachedServer)> {
        self.servers.iter().map(|(key, server)| (key.as_str(), server))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::revision::Revision;
    use crate::server::Offers;

    use super::*;

    fn server(config: &str) -> CachedServer {
        let tool =
            json!({"name": "t", "inputSchema": {"type": "object", "properties": {"a": {"type": "string"}}}});
        CachedServer {
            config: config.to_owned(),
            listed_at: 5,
            facts: ServerFacts {
                revision: Revision::V20251125,
                name: "n".to_owned(),
                version: "1".to_owned(),
                offers: Offers { tools: true, ..Offers::default() },
                instructions: None,
            },
            tools: vec![OfferedTool::of(&serde_json::from_str(&tool.to_string()).unwrap()).unwrap()],
            refused: Vec::new(),
            prompts: Vec::new(),
            resources: Vec::new(),
            templates: Vec::new(),
            content_faults: Vec::new(),
        }
    }

    #[test]
    fn lists_survive_as_text_and_belong_to_their_configuration() {
        let mut cache = ListingCache::default();
        cache.insert("s", server("npx x"));
        let loaded = ListingCache::load(&cache.text());
        let found = loaded.server("s", "npx x").unwrap();
        assert_eq!(found.facts, server("").facts);
        assert_eq!(found.tools[0].hash, server("").tools[0].hash);
        assert!(loaded.server("s", "npx y").is_none());
        assert!(loaded.server("other", "npx x").is_none());
    }

    #[test]
    fn a_damaged_cache_is_empty() {
        let mut cache = ListingCache::default();
        cache.insert("s", server("x"));
        let text = cache.text();
        for bad in ["", "null", "{}", &text[..text.len() - 5], &text.replace("\"format\":1", "\"format\":2")]
        {
            assert_eq!(ListingCache::load(bad).servers().count(), 0, "{bad}");
        }
    }
}
