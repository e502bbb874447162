//! Errors of opening a model.

use std::path::{Path, PathBuf};

/// The reason why a folder is not a usable model.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A file cannot be read.
    #[error("cannot read `{}`", path.display())]
    Unreadable {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        source: std::io::Error,
    },
    /// A file differs in size from the pinned file.
    #[error("`{}` has {found} bytes instead of {wanted}: it is truncated or another file", path.display())]
    Size {
        /// Path of the file.
        path: PathBuf,
        /// Actual size, in bytes.
        found: u64,
        /// Expected size, in bytes.
        wanted: u64,
    },
    /// A file differs in its hash from the pinned file.
    #[error("`{}` is not the model's file: its SHA-256 is {found} instead of {wanted}", path.display())]
    Hash {
        /// Path of the file.
        path: PathBuf,
        /// Actual SHA-256, in hexadecimal.
        found: String,
        /// Expected SHA-256, in hexadecimal.
        wanted: String,
    },
    /// A file is damaged.
    #[error("`{}` is damaged: {what}", path.display())]
    Damaged {
        /// Path of the file.
        path: PathBuf,
        /// Description of the damage.
        what: String,
    },
    /// The model has an architecture that this crate does not support.
    #[error("`{}` belongs to a model that cannot run here: {what}", path.display())]
    Unsupported {
        /// Path of the file.
        path: PathBuf,
        /// Description of the unsupported part.
        what: String,
    },
}

impl OpenError {
    pub(crate) fn unreadable(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Unreadable { path: path.to_owned(), source }
    }

    pub(crate) fn damaged(path: &Path, what: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_owned(), what: what.into() }
    }

    pub(crate) fn unsupported(path: &Path, what: impl Into<String>) -> Self {
        Self::Unsupported { path: path.to_owned(), what: what.into() }
    }
}
