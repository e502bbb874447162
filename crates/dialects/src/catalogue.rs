//! Catalogues: the selections of tools that are listed. An unlisted tool can still be called by its
//! name or through `tool_call`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::AnyTool;

/// Tools that find an unlisted tool by its purpose, show its schema, and call it by its name.
const FINDING: [&str; 3] = ["tool_search", "tool_describe", "tool_call"];

/// Tools that most tasks need, in addition to [`FINDING`].
const WORKING: [&str; 9] = [
    "shell_execute",
    "shell_session",
    "file_read",
    "file_write",
    "file_edit",
    "file_patch",
    "file_list",
    "file_search",
    "output_read",
];

/// Size of the tool list. Every client pays for each character of the list in every conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CatalogueKind {
    /// The tools that most tasks need, and the tools that find the others: at most 3,000 tokens.
    Core,
    /// All tools with full descriptions, for clients with a search of their own.
    Full,
    /// The three tools that find and call the others, and no other tool.
    Compact,
    /// The tools of other MCP servers, and no other tool.
    Gateway,
}

/// Separator in the names of tools of other servers: `server__tool`.
const FOREIGN: &str = "__";

/// Tool that lists the other servers.
const SERVERS: &str = "mcp_servers";

impl CatalogueKind {
    /// All catalogues.
    pub const ALL: [Self; 4] = [Self::Core, Self::Full, Self::Compact, Self::Gateway];

    /// Returns the name used in options and configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Core => "core",
            Self::Full => "full",
            Self::Compact => "compact",
            Self::Gateway => "gateway",
        }
    }

    /// Returns true if the catalogue lists the resources and prompts of other MCP servers.
    pub fn lists_foreign_content(self) -> bool {
        matches!(self, Self::Full | Self::Gateway)
    }

    /// Returns true if the catalogue lists the resources and prompts of this runtime.
    pub fn lists_own_content(self) -> bool {
        self != Self::Gateway
    }

    /// Returns the catalogue with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    /// Returns true if the catalogue lists the tool.
    pub fn lists(self, tool: &dyn AnyTool) -> bool {
        let name = tool.spec().name;
        let finds = FINDING.contains(&name);
        match self {
            Self::Core => finds || WORKING.contains(&name) || tool.is_plugin(),
            // A full list needs no tools for finding others.
            Self::Full => !finds,
            Self::Compact => finds,
            Self::Gateway => name.contains(FOREIGN) || name == SERVERS,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_catalogue_has_a_name_that_leads_to_it() {
        for kind in CatalogueKind::ALL {
            assert_eq!(CatalogueKind::named(kind.as_str()), Some(kind));
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
        }
        assert_eq!(CatalogueKind::named("Core"), None);
    }
}
