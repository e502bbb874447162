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
#[serde(rename_all = "snake_case", tag = "layer")]
pub enum Origin {
    /// It is built in.
    BuiltIn,
    /// It was said on the command line.
    CommandLine,
    /// Whoever made the caller said so.
    Ceiling,
    /// The file of the machine's administrator.
    Managed(FilePlace),
    /// The user's own file.
    User(FilePlace),
    /// The workspace's file.
    Workspace(FilePlace),
    /// A human granted it for a time, under this id.
    Lease(Arc<str>),
}

/// A place in a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FilePlace {
    /// The file.
    pub file: Arc<Path>,
    /// The line, from 1, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
}

impl From<&Path> for FilePlace {
    fn from(file: &Path) -> Self {
        Self { file: file.into(), line: None }
    }
}

impl Origin {
    /// The same file, at a line.
    #[must_use]
    pub fn at(&self, line: Option<u32>) -> Self {
        let mut origin = self.clone();
        match &mut origin {
            Origin::BuiltIn | Origin::CommandLine | Origin::Ceiling | Origin::Lease(_) => {}
            Origin::Managed(place) | Origin::User(place) | Origin::Workspace(place) => place.line = line,
        }
        origin
    }
}

impl std::fmt::Display for Origin {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Origin::BuiltIn => formatter.write_str("built in"),
            Origin::CommandLine => formatter.write_str("command line"),
            Origin::Lease(id) => write!(formatter, "lease {id}"),
            Origin::Ceiling => formatter.write_str("the ceiling of this caller"),
            Origin::Managed(place) | Origin::User(place) | Origin::Workspace(place) => {
                write!(formatter, "{}", place.file.display())?;
                place.line.map_or(Ok(()), |line| write!(formatter, ":{line}"))
            }
        }
    }
}
