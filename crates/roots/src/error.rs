//! Errors of the operations.

use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::{EntryKind, Refusal};

/// Result of an operation of this crate.
pub type Result<T, E = RootsError> = std::result::Result<T, E>;

/// Reason why an operation failed. Nothing changed, except for [`RootsError::Partly`].
#[derive(Debug, thiserror::Error)]
pub enum RootsError {
    /// The path lies in no root.
    #[error("{path} is outside the workspace and every folder that the profile lists")]
    NotInRoots {
        /// Path that the caller gave.
        path: PathBuf,
    },
    /// A link on the path leads out of the roots.
    #[error("{path} leads to {target}, outside the workspace and every folder that the profile lists")]
    LeadsOutside {
        /// Path that the caller gave.
        path: PathBuf,
        /// Path that the link leads to.
        target: PathBuf,
    },
    /// The root that contains the path is read-only.
    #[error("{path} is read-only")]
    ReadOnly {
        /// Path that the caller gave.
        path: PathBuf,
    },
    /// The guard denies the operation.
    #[error("{path} is denied: {refusal}")]
    Refused {
        /// Path that the guard judged.
        path: PathBuf,
        /// Answer of the guard.
        refusal: Refusal,
    },
    /// The path leads to no entry.
    #[error("{path} does not exist")]
    NotFound {
        /// Path that the caller gave.
        path: PathBuf,
    },
    /// The parent folder of a new entry is missing.
    #[error("the folder {folder} does not exist")]
    NoFolder {
        /// The missing folder.
        folder: PathBuf,
    },
    /// The entry at the path has another kind.
    #[error("{path} is {found}, not {wanted}")]
    WrongKind {
        /// Path that the caller gave.
        path: PathBuf,
        /// Kind that the operation needs.
        wanted: EntryKind,
        /// Kind of the entry.
        found: EntryKind,
    },
    /// An entry already exists at the path.
    #[error("{path} already exists, as {found}")]
    Exists {
        /// Path that the caller gave.
        path: PathBuf,
        /// Kind of the entry.
        found: EntryKind,
    },
    /// A folder that must be empty is not.
    #[error("the folder {path} is not empty")]
    NotEmpty {
        /// The folder.
        path: PathBuf,
    },
    /// A root cannot be removed, moved or replaced.
    #[error(
        "{path} is the workspace, contains it, or is another listed folder, so it cannot be moved \
         or removed"
    )]
    IsRoot {
        /// Path that the caller gave.
        path: PathBuf,
    },
    /// A folder cannot be moved into itself.
    #[error("{path} is inside the folder that would be moved")]
    IntoItself {
        /// The destination.
        path: PathBuf,
    },
    /// A move would have to copy between file systems.
    #[error("{path} is on another file system")]
    OtherFileSystem {
        /// The destination of a move, or a mount point inside a tree to be removed.
        path: PathBuf,
    },
    /// The path contains too many links.
    #[error("{path} leads through too many links")]
    TooManyLinks {
        /// Path that the caller gave.
        path: PathBuf,
    },
    /// A tree is deeper than [`DEEPEST`](crate::DEEPEST).
    #[error("{path} is more than {limit} folders deep")]
    TooDeep {
        /// The folder that is too deep.
        path: PathBuf,
        /// Maximum depth of an operation.
        limit: usize,
    },
    /// Another process changed the path at the same time.
    #[error("{path} was changed by something else at the same time")]
    Changed {
        /// Path that the caller gave.
        path: PathBuf,
    },
    /// The new version of a file cannot get the owner or the group of the old one.
    #[error("{path} belongs to another user or group, which a new version could not keep")]
    OwnerNotKept {
        /// The file.
        path: PathBuf,
        /// Error of the system call.
        source: io::Error,
    },
    /// The kernel, or a filter around this process, has no `openat2`.
    #[error("this system has no openat2 (Linux 5.6), without which paths cannot be resolved safely")]
    NoOpenat2,
    /// The caller's stop condition came true.
    #[error("stopped")]
    Stopped,
    /// The operation failed after its first change.
    #[error("not everything was done")]
    Partly {
        /// Error that stopped the operation.
        source: Box<RootsError>,
    },
    /// A system call failed.
    #[error("cannot {doing} {path}")]
    Io {
        /// Operation that failed: a verb, for example `open`.
        doing: &'static str,
        /// Path that the caller gave.
        path: PathBuf,
        /// Error of the system call.
        source: io::Error,
    },
}

impl RootsError {
    /// Converts a system error of the operation `doing` at `path`.
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

    /// Returns a closure for `map_err` that converts a system error.
    pub(crate) fn while_doing<'a>(doing: &'static str, path: &'a Path) -> impl Fn(Errno) -> Self + 'a {
        move |errno| Self::system(doing, path, errno)
    }

    /// Wraps an error that follows a change, for `map_err`.
    pub(crate) fn partly(self) -> Self {
        match self {
            Self::Partly { .. } => self,
            other => Self::Partly { source: Box::new(other) },
        }
    }

    /// Shortens the paths of the error that lie in `folder`, for a message to somebody who works
    /// there.
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
