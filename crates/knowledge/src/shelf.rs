use std::io::{self, Read};
use std::path::Path;

/// What tells one state of a file from another without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Bytes.
    pub size: u64,
    /// When its content changed last: seconds since the Unix epoch.
    pub modified_seconds: i64,
    /// The rest of that, in nanoseconds.
    pub modified_nanoseconds: u32,
}

/// What a listing says of one entry that is called like a file of the base.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listed {
    /// A file to be read.
    File(Stamp),
    /// A link. What it leads to is not read under this name, so that nothing is there twice and no cycle has an end to be found.
    Link,
    /// Something else with the name of a file.
    Special,
}

/// Why the files could not be asked for.
#[derive(Debug, thiserror::Error)]
pub enum ShelfError {
    /// The caller has stopped it.
    #[error("it was stopped")]
    Stopped,
    /// There is no such file.
    #[error("it is not there")]
    Gone,
    /// It may not be read by who asks.
    #[error("it may not be read: {0}")]
    Refused(String),
    /// The system says no.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// The files of a base, as one caller may see them. Paths are relative to the base.
pub trait Shelf {
    /// Goes over every file of the base that may be read, or over those below `under`, in any order.
    ///
    /// # Errors
    /// Where a folder cannot be listed, or what `each` says.
    fn list(
        &self,
        under: Option<&Path>,
        each: &mut dyn FnMut(&Path, Listed) -> Result<(), ShelfError>,
    ) -> Result<(), ShelfError>;

    /// Opens a file.
    ///
    /// # Errors
    /// [`ShelfError::Gone`] or [`ShelfError::Refused`], apart from what the system says.
    fn open(&self, path: &Path) -> Result<(Stamp, Box<dyn Read + '_>), ShelfError>;

    /// The state of a file.
    ///
    /// # Errors
    /// As [`Shelf::open`].
    fn stamp(&self, path: &Path) -> Result<Stamp, ShelfError>;
}
