//! Rules, as decisions name them, and their origins.

use std::path::Path;
use std::sync::Arc;

use serde::Serialize;

/// One entry of a list, or another setting that can decide: the cause that a decision names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Rule {
    /// Key, such as `deny_write_paths` or `mode`.
    pub key: &'static str,
    /// Entry as written.
    pub entry: String,
    /// Profile that contains the entry.
    pub profile: Arc<str>,
    /// Place where the entry is written.
    pub origin: Origin,
}

impl std::fmt::Display for Rule {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}: {} (profile {}, {})", self.key, self.entry, self.profile, self.origin)
    }
}

/// Place where a setting is written. The order of precedence is managed, user, workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "layer")]
pub enum Origin {
    /// Built into the program.
    BuiltIn,
    /// Given on the command line.
    CommandLine,
    /// Set by the program that embeds the runtime.
    Program,
    /// Set by the creator of the caller.
    Ceiling,
    /// The file of the machine's administrator.
    Managed(FilePlace),
    /// The user's own file.
    User(FilePlace),
    /// The workspace's file.
    Workspace(FilePlace),
    /// A package that the user has added, by its name.
    Package(Arc<str>),
    /// Granted by a human for a time, under this identifier.
    Lease(Arc<str>),
}

/// A position in a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FilePlace {
    /// Path of the file.
    pub file: Arc<Path>,
    /// Line number, from 1, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
}

impl From<&Path> for FilePlace {
    fn from(file: &Path) -> Self {
        Self { file: file.into(), line: None }
    }
}

impl Origin {
    /// Returns the origin in the same file, at a line.
    #[must_use]
    pub fn at(&self, line: Option<u32>) -> Self {
        let mut origin = self.clone();
        match &mut origin {
            Origin::BuiltIn
            | Origin::CommandLine
            | Origin::Program
            | Origin::Ceiling
            | Origin::Package(_)
            | Origin::Lease(_) => {}
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
            Origin::Program => formatter.write_str("the embedding program"),
            Origin::Package(name) => write!(formatter, "the package {name}"),
            Origin::Lease(id) => write!(formatter, "lease {id}"),
            Origin::Ceiling => formatter.write_str("the ceiling of this caller"),
            Origin::Managed(place) | Origin::User(place) | Origin::Workspace(place) => {
                write!(formatter, "{}", place.file.display())?;
                place.line.map_or(Ok(()), |line| write!(formatter, ":{line}"))
            }
        }
    }
}
