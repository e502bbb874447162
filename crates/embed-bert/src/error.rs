use std::path::{Path, PathBuf};

/// Why a folder is no model that can be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// a file cannot be read
    #[error("cannot read `{}`", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// a file has another size than the one that was pinned
    #[error("`{}` has {found} bytes, and the model's has {wanted}: it was cut off or is another one", path.display())]
    Size {
        /// The file.
        path: PathBuf,
        /// Bytes that it has.
        found: u64,
        /// Bytes that it should have.
        wanted: u64,
    },
    /// a file is not the one that was pinned
    #[error("`{}` is not the model's file: its SHA-256 is {found}, and should be {wanted}", path.display())]
    Hash {
        /// The file.
        path: PathBuf,
        /// What it is.
        found: String,
        /// What it should be.
        wanted: String,
    },
    /// a file is damaged
    #[error("`{}` is damaged: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// a model of another architecture
    #[error("`{}` is of a model that cannot be run here: {what}", path.display())]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// What is not known here.
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
