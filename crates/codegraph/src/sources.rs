//! The files of a project, as the caller hands them in. This crate opens none of them.

/// The files of a project.
pub trait Sources {
    /// Returns the paths of all files, from the root of the project, with slashes. Files that are neither code
    /// nor a manifest may be among them; they are not read.
    fn paths(&self) -> Vec<String>;

    /// Returns the content of a file, or `None` if it is gone or cannot be read.
    fn read(&self, path: &str) -> Option<Vec<u8>>;
}

/// A change of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The file has this content now.
    Written {
        /// Path from the root of the project, with slashes.
        path: String,
        /// Content.
        content: Vec<u8>,
    },
    /// The file is gone.
    Removed {
        /// Path.
        path: String,
    },
}
