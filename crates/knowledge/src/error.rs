use std::io;
use std::path::PathBuf;

use crate::ShelfError;

/// Why an index could not be used.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// The index {} cannot be opened
    #[error("the index {} cannot be opened", path.display())]
    Open {
        /// Its file.
        path: PathBuf,
        /// Why.
        #[source]
        source: rusqlite::Error,
    },
    /// The index cannot be read or written.
    #[error("the index cannot be read or written")]
    Database(#[from] rusqlite::Error),
    /// A file beside the index cannot be used.
    #[error("the folder of the index cannot be used")]
    Folder(#[source] io::Error),
    /// The base cannot be listed, or a file that was asked for by name cannot be read.
    #[error("{}: {source}", if path.as_os_str().is_empty() { "the knowledge folder".to_owned() } else { path.display().to_string() })]
    Shelf {
        /// Relative to the base.
        path: PathBuf,
        /// Why.
        source: ShelfError,
    },
    /// The texts could not be embedded
    #[error("the texts could not be turned into vectors: {0}")]
    Embedding(String),
    /// It was stopped.
    #[error("it was stopped; what is done is kept")]
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

    /// Whether the index itself is damaged or no index: it is made again then.
    pub(crate) fn is_damage(error: &rusqlite::Error) -> bool {
        use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
        matches!(error.sqlite_error_code(), Some(DatabaseCorrupt | NotADatabase))
    }
}
