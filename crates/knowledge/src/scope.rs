//! Parts of the base.

use std::path::Path;

/// Part of the base that a file belongs to, by its top-level folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// `system/`: about the agent itself.
    System,
    /// `user/`: the user's own notes.
    User,
    /// `learned/`: the agent's own findings.
    Learned,
    /// `plugins/`: files of extensions.
    Plugins,
    /// All other files of the base, found in searches of the whole base.
    Other,
}

impl Scope {
    /// Scopes with a folder.
    pub const NAMED: [Self; 4] = [Self::System, Self::User, Self::Learned, Self::Plugins];

    /// Returns the name of the folder.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Learned => "learned",
            Self::Plugins => "plugins",
            Self::Other => "other",
        }
    }

    /// Returns the scope of a file. `path` is relative to the base.
    pub fn of(path: &Path) -> Self {
        let mut parts = path.components();
        let (first, is_below) = (parts.next(), parts.next().is_some());
        let named = |scope: &Self| is_below && first.is_some_and(|first| first.as_os_str() == scope.as_str());
        Self::NAMED.into_iter().find(named).unwrap_or(Self::Other)
    }

    pub(crate) fn number(self) -> i64 {
        match self {
            Self::Other => 0,
            Self::System => 1,
            Self::User => 2,
            Self::Learned => 3,
            Self::Plugins => 4,
        }
    }
}
