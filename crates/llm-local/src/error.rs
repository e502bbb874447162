//! Errors of opening a model.

use std::path::{Path, PathBuf};

/// Failure of opening a model.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file cannot be read.
    #[error("{} cannot be read", .path.display())]
    Unreadable {
        /// Path of the file.
        path: PathBuf,
        /// Failure of the system.
        source: std::io::Error,
    },
    /// The file is no GGUF file, or it contradicts itself.
    #[error("the model is damaged: {0}")]
    Damaged(String),
    /// The file is whole, and has something that this engine cannot compute.
    #[error("the model is of a kind that cannot be run: {0}")]
    Unsupported(String),
}

impl OpenError {
    /// Returns a function that makes a failure of the system an error of this file.
    pub(crate) fn unreadable(path: &Path) -> impl Fn(std::io::Error) -> Self {
        move |source| Self::Unreadable { path: path.to_owned(), source }
    }
}

/// Creates the error of a file that contradicts itself.
pub(crate) fn damaged(what: impl Into<String>) -> OpenError {
    OpenError::Damaged(what.into())
}

/// Creates the error of a file that this engine cannot compute.
pub(crate) fn unsupported(what: impl Into<String>) -> OpenError {
    OpenError::Unsupported(what.into())
}
