use std::path::Path;
use std::sync::Arc;

use serde::Serialize;

/// One entry of one list, or another setting that can decide: what a decision names as its cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Rule {
    /// The key, such as `deny_write_paths` or `mode`.
    pub key: &'static str,
    /// The entry as it is written.
    pub entry: String,
    /// The profile that holds it.
    pub profile: Arc<str>,
    /// Where it is written.
    pub origin: Origin,
}

impl std::fmt::Display for Rule {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}: {} (profile {}, {})", self.key, self.entry, self.profile, self.origin)
    }
}

/// Where a setting is written. The order of precedence is managed, user, workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "layer", content = "file")]
pub enum Origin {
    /// It is built in.
    BuiltIn,
    /// It was said on the command line.
    CommandLine,
    /// The file of the machine's administrator.
    Managed(Arc<Path>),
    /// The user's own file.
    User(Arc<Path>),
    /// The workspace's file.
    Workspace(Arc<Path>),
}

impl std::fmt::Display for Origin {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Origin::BuiltIn => formatter.write_str("built in"),
            Origin::CommandLine => formatter.write_str("command line"),
            Origin::Managed(file) | Origin::User(file) | Origin::Workspace(file) => {
                write!(formatter, "{}", file.display())
            }
        }
    }
}
