use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::{EntryKind, Refusal};

/// What an operation of this crate gives.
pub type Result<T, E = RootsError> = std::result::Result<T, E>;

/// Why an operation was not done. Unless it is [`RootsError::Partly`], nothing changed.
#[derive(Debug, thiserror::Error)]
pub enum RootsError {
    /// The path lies in no root.
    #[error("{path} lies outside of the workspace and of every folder that the profile lists")]
    NotInRoots {
        /// The path that was asked for.
        path: PathBuf,
    },
    /// A link on the path leads out of the roots.
    #[error("{path} leads to {target}, outside of the workspace and of every folder that the profile lists")]
    LeadsOutside {
        /// The path that was asked for.
        path: PathBuf,
        /// Where it leads.
        target: PathBuf,
    },
    /// The root that holds the path is only for reading.
    #[error("{path} can only be read")]
    ReadOnly {
        /// The path that was asked for.
        path: PathBuf,
    },
    /// The guard says no.
    #[error("{path} is denied: {refusal}")]
    Refused {
        /// What it was asked about.
        path: PathBuf,
        /// Its answer.
        refusal: Refusal,
    },
    /// There is nothing at the path.
    #[error("{path} does not exist")]
    NotFound {
        /// The path that was asked for.
        path: PathBuf,
    },
    /// The folder in which something should be made is missing.
    #[error("the folder {folder} does not exist")]
    NoFolder {
        /// The missing folder.
        folder: PathBuf,
    },
    /// There is something else at the path.
    #[error("{path} is {found}, not {wanted}")]
    WrongKind {
        /// The path that was asked for.
        path: PathBuf,
        /// What the operation needs.
        wanted: EntryKind,
        /// What is there.
        found: EntryKind,
    },
    /// Something is there already.
    #[error("{path} exists already, as {found}")]
    Exists {
        /// The path that was asked for.
        path: PathBuf,
        /// What is there.
        found: EntryKind,
    },
    /// A folder that should be empty is not.
    #[error("the folder {path} is not empty")]
    NotEmpty {
        /// The folder.
        path: PathBuf,
    },
    /// A root cannot be removed, moved or replaced.
    #[error("{path} is the workspace or holds it, or is another listed folder: it stays where it is")]
    IsRoot {
        /// The path that was asked for.
        path: PathBuf,
    },
    /// A folder cannot be moved into itself.
    #[error("{path} lies inside of what would be moved")]
    IntoItself {
        /// The destination.
        path: PathBuf,
    },
    /// A move would have to copy.
    #[error("{path} lies on another file system")]
    OtherFileSystem {
        /// The destination of a move, or a mount point inside of what would be removed.
        path: PathBuf,
    },
    /// The links on the path never end.
    #[error("{path} leads through too many links")]
    TooManyLinks {
        /// The path that was asked for.
        path: PathBuf,
    },
    /// A tree is deeper than [`DEEPEST`](crate::DEEPEST).
    #[error("{path} lies more than {limit} folders deep")]
    TooDeep {
        /// The folder that is too deep.
        path: PathBuf,
        /// How deep an operation goes.
        limit: usize,
    },
    /// Something else changed the path at the same time.
    #[error("{path} was changed by something else at the same time")]
    Changed {
        /// The path that was asked for.
        path: PathBuf,
    },
    /// The owner or the group of a replaced file cannot be kept.
    #[error("{path} belongs to another user or group, which a new version of it could not keep")]
    OwnerNotKept {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The kernel, or a filter around this process, has no `openat2`.
    #[error("this system has no openat2 (Linux 5.6), without which paths cannot be resolved safely")]
    NoOpenat2,
    /// The caller's own reason to stop came true.
    #[error("stopped")]
    Stopped,
    /// The operation failed after it had begun to change things.
    #[error("not everything was done")]
    Partly {
        /// What stopped it.
        source: Box<RootsError>,
    },
    /// The system says no.
    #[error("cannot {doing} {path}")]
    Io {
        /// What was tried: a verb, such as `open`.
        doing: &'static str,
        /// The path that was asked for.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl RootsError {
    /// The error that the system's answer to `doing` something at `path` becomes.
    pub(crate) fn system(doing: &'static str, path: &Path, errno: Errno) -> Self {
        let path = path.to_owned();
        match errno {
            Errno::NOENT => Self::NotFound { path },
            Errno::LOOP => Self::TooManyLinks { path },
            Errno::AGAIN => Self::Changed { path },
            Errno::NOSYS => Self::NoOpenat2,
            _ => Self::Io { doing, path, source: errno.into() },
        }
    }

    /// For `map_err`.
    pub(crate) fn while_doing<'a>(doing: &'static str, path: &'a Path) -> impl Fn(Errno) -> Self + 'a {
        move |errno| Self::system(doing, path, errno)
    }

    /// For `map_err` after a change.
    pub(crate) fn partly(self) -> Self {
        match self {
            Self::Partly { .. } => self,
            other => Self::Partly { source: Box::new(other) },
        }
    }

    /// Shortens the paths in it that lie in `folder`, for a message to whoever works there.
    #[must_use]
    pub fn relative_to(mut self, folder: &Path) -> Self {
        let shorten = |path: &mut PathBuf| {
            if let Ok(relative) = path.strip_prefix(folder) {
                *path = if relative.as_os_str().is_empty() { ".".into() } else { relative.to_owned() };
            }
        };
        match &mut self {
            Self::LeadsOutside { path, target } => {
                shorten(path);
                shorten(target);
            }
            Self::NotInRoots { path }
            | Self::ReadOnly { path }
            | Self::Refused { path, .. }
            | Self::NotFound { path }
            | Self::NoFolder { folder: path }
            | Self::WrongKind { path, .. }
            | Self::Exists { path, .. }
            | Self::NotEmpty { path }
            | Self::IsRoot { path }
            | Self::IntoItself { path }
            | Self::OtherFileSystem { path }
            | Self::TooManyLinks { path }
            | Self::TooDeep { path, .. }
            | Self::Changed { path }
            | Self::OwnerNotKept { path, .. }
            | Self::Io { path, .. } => shorten(path),
            Self::Partly { source } => {
                let inner = std::mem::replace(source.as_mut(), Self::Stopped);
                **source = inner.relative_to(folder);
            }
            Self::NoOpenat2 | Self::Stopped => {}
        }
        self
    }
}
