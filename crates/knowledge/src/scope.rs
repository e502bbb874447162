use std::path::Path;

/// The part of the base that a file belongs to: the folder at its top.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// `system/`: about the agent itself.
    System,
    /// `user/`: what the user keeps there.
    User,
    /// `learned/`: what the agent has found out.
    Learned,
    /// `plugins/`: what comes with extensions.
    Plugins,
    /// Elsewhere in the base: found where everything is searched.
    Other,
}

impl Scope {
    /// Those that have a folder.
    pub const NAMED: [Self; 4] = [Self::System, Self::User, Self::Learned, Self::Plugins];

    /// The name of its folder.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Learned => "learned",
            Self::Plugins => "plugins",
            Self::Other => "other",
        }
    }

    /// That of a file, given relative to the base.
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
