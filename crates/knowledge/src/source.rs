//! Access to the files of a base, implemented by the caller.

use std::io::{self, Read};
use std::path::Path;

/// Size and time of modification, which identify a state of a file without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Size in bytes.
    pub size: u64,
    /// Time of the last modification: seconds since the Unix epoch.
    pub modified_seconds: i64,
    /// Nanoseconds of the time of modification.
    pub modified_nanoseconds: u32,
}

/// Kind of a listed entry whose name is that of a file of the base.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListedKind {
    /// A regular file.
    File(Stamp),
    /// A symbolic link, which is not followed, so that there are no duplicates and no cycles.
    Link,
    /// Another kind of entry.
    Special,
}

/// Reason why a file is not available.
#[derive(Debug, thiserror::Error)]
pub enum ShelfError {
    /// The caller stopped the operation.
    #[error("it was stopped")]
    Stopped,
    /// The file does not exist.
    #[error("it does not exist")]
    Gone,
    /// The caller may not read the file.
    #[error("it may not be read: {0}")]
    Refused(String),
    /// Error of the system.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Files of a base, as one caller may see them. Paths are relative to the base.
pub trait Shelf {
    /// Passes every readable file of the base to `each`, or those below `under`, in any order.
    ///
    /// # Errors
    /// An error if a folder cannot be listed, or the error of `each`.
    fn list(
        &self,
        under: Option<&Path>,
        each: &mut dyn FnMut(&Path, ListedKind) -> Result<(), ShelfError>,
    ) -> Result<(), ShelfError>;

    /// Opens a file.
    ///
    /// # Errors
    /// [`ShelfError::Gone`], [`ShelfError::Refused`], or an error of the system.
    fn open(&self, path: &Path) -> Result<(Stamp, Box<dyn Read + '_>), ShelfError>;

    /// Returns the stamp of a file.
    ///
    /// # Errors
    /// The errors of [`Shelf::open`].
    fn stamp(&self, path: &Path) -> Result<Stamp, ShelfError>;
}
