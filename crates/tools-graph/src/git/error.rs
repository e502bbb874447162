//! Reasons why a commit cannot be read.

use std::fmt;
use std::io;

use roots::RootsError;

/// Reason why a commit cannot be read.
#[derive(Debug)]
pub(crate) enum GitError {
    /// The workspace is in no repository that may be read.
    NoRepository,
    /// No commit has this name.
    UnknownRevision(String),
    /// An object is missing: the clone is shallow or partial, or shares the objects of another one.
    Missing(String),
    /// The repository has a form that is not supported.
    Unsupported(&'static str),
    /// Something in the repository is damaged.
    Damaged(&'static str),
    /// An object is larger than the limit.
    TooLarge,
    /// A file of the repository cannot be opened.
    Roots(RootsError),
    /// A file of the repository cannot be read.
    Io(io::Error),
}

/// The result of everything that can fail with a [`GitError`].
pub(super) type Result<T> = std::result::Result<T, GitError>;

impl fmt::Display for GitError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRepository => {
                formatter.write_str("the workspace is in no git repository that this call may read")
            }
            Self::UnknownRevision(name) => write!(formatter, "no commit, branch or tag is named {name}"),
            Self::Missing(id) => write!(formatter, "the object {id} is not in this repository"),
            Self::Unsupported(what) => write!(formatter, "{what} is not supported"),
            Self::Damaged(what) => write!(formatter, "the git repository is damaged: {what}"),
            Self::TooLarge => formatter.write_str("an object of the commit is larger than 64 MiB"),
            Self::Roots(error) => write!(formatter, "{error}"),
            Self::Io(error) => write!(formatter, "the git repository cannot be read: {error}"),
        }
    }
}

impl From<RootsError> for GitError {
    fn from(error: RootsError) -> Self {
        Self::Roots(error)
    }
}

impl From<io::Error> for GitError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
