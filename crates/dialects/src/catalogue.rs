//! Which tools are listed. A tool that is not listed can be called all the same, by its name or through `tool_call`.

use serde::{Deserialize, Serialize};
use tool::AnyTool;

/// The tools through which one that is not listed is found and called: by what it does, by its schema, by its name.
const FINDING: [&str; 3] = ["tool_search", "tool_describe", "tool_call"];

/// What most work needs, beside the tools that find the others.
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

/// How much of what there is stands in a list of tools. Every client pays for each character of the list, in every conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CatalogueKind {
    /// What most work needs, and the tools that find the others: at most 3,000 tokens.
    Core,
    /// All tools, with all that can be said about them, for clients that search by themselves.
    Full,
    /// Nothing but the three tools that find and call the others.
    Compact,
}

impl CatalogueKind {
    /// Each of them.
    pub const ALL: [Self; 3] = [Self::Core, Self::Full, Self::Compact];

    /// The name in options and configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Core => "core",
            Self::Full => "full",
            Self::Compact => "compact",
        }
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    /// Whether the tool stands in the list.
    pub fn lists(self, tool: &dyn AnyTool) -> bool {
        let name = tool.spec().name;
        let finds = FINDING.contains(&name);
        match self {
            Self::Core => finds || WORKING.contains(&name),
            // Where everything is listed there is nothing to find.
            Self::Full => !finds,
            Self::Compact => finds,
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
