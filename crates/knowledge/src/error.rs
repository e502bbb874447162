//! Errors of the index.

use std::io;
use std::path::PathBuf;

use crate::ShelfError;

/// Reason why an index operation failed.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// The index cannot be opened.
    #[error("the index {} cannot be opened", path.display())]
    Open {
        /// File of the index.
        path: PathBuf,
        /// Error of SQLite.
        #[source]
        source: rusqlite::Error,
    },
    /// The index cannot be read or written.
    #[error("the index cannot be read or written")]
    Database(#[from] rusqlite::Error),
    /// A file next to the index cannot be used.
    #[error("the folder of the index cannot be used")]
    Folder(#[source] io::Error),
    /// The base cannot be listed, or a requested file cannot be read.
    #[error("{}: {source}", if path.as_os_str().is_empty() { "the knowledge folder".to_owned() } else { path.display().to_string() })]
    Shelf {
        /// Path relative to the base.
        path: PathBuf,
        /// Error of the shelf.
        source: ShelfError,
    },
    /// The texts could not be embedded.
    #[error("the texts could not be embedded: {0}")]
    Embedding(String),
    /// The operation was stopped.
    #[error("the call was stopped; finished work is kept")]
    Stopped,
}

impl From<io::Error> for IndexError {
    fn from(error: io::Error) -> Self {
        Self::Shelf { path: PathBuf::new(), source: error.into() }
    }
}

impl IndexError {
    pub(crate) fn shelf(path: &std::path::Path, source: ShelfError) -> Self {
        match source {
            ShelfError::Stopped => Self::Stopped,
            source => Self::Shelf { path: path.to_owned(), source },
        }
    }

    /// Returns true if the file is damaged or not an index. A damaged index is rebuilt.
    pub(crate) fn is_damage(error: &rusqlite::Error) -> bool {
        use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
        matches!(error.sqlite_error_code(), Some(DatabaseCorrupt | NotADatabase))
    }
}
