//! Errors of this crate.

use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

/// Result of an operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Reason why changes could not be read, committed, kept or removed.
///
/// After a failed commit the workspace is unchanged, except for [`Error::NotUndone`] and
/// [`Error::BrokenOff`].
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call failed.
    #[error("could not {doing} {path}")]
    System {
        /// Operation that failed, as a verb before the path.
        doing: &'static str,
        /// Path of the operation, relative to the workspace if it lies in one.
        path: PathBuf,
        /// Error of the system call.
        source: io::Error,
    },
    /// Folders are nested too deeply.
    #[error("{path} is more than {limit} folders deep")]
    TooDeep {
        /// Path of the folder.
        path: PathBuf,
        /// Maximum number of levels.
        limit: usize,
    },
    /// There are too many changes for one commit.
    #[error("there are more than {limit} changes")]
    TooMany {
        /// Maximum number of changes.
        limit: usize,
    },
    /// The overlay stored a change in a form unknown to this crate, for example with the data in the
    /// lower layer.
    #[error("the overlay stored {path} in a form that cannot be committed ({attribute})")]
    Form {
        /// Path of the entry.
        path: PathBuf,
        /// Attribute that marks the form.
        attribute: &'static str,
    },
    /// A file system is mounted in the workspace at the path; the overlay did not show it.
    #[error("another file system is mounted at {path}, over the changes")]
    Mounted {
        /// Path of the mount point.
        path: PathBuf,
    },
    /// The workspace of the changes is gone, or another folder has its path.
    #[error("{path} is no longer the folder in which the changes were made")]
    OtherWorkspace {
        /// Original path of the workspace.
        path: PathBuf,
    },
    /// The id has no changes, or a live process owns them.
    #[error("there are no kept changes {id}")]
    NoSuchChanges {
        /// Requested id.
        id: String,
    },
    /// A commit of these changes was interrupted or completed: they can be neither committed nor
    /// discarded without recovery.
    #[error("the changes {id} were being committed and must be recovered first")]
    UnderWay {
        /// Id of the changes.
        id: String,
    },
    /// A file of this crate is damaged.
    #[error("{path} is damaged")]
    Damaged {
        /// Path of the file.
        path: PathBuf,
    },
    /// The journal of an interrupted commit cannot be read. An unfinished commit can then be neither
    /// completed nor undone: the workspace may contain a part of it, and the folder of the call the
    /// old entries. For a finished commit, the workspace contains all of it, and only the folder of
    /// the call remains.
    #[error("the journal of the commit is {}", if *.is_of_other_version { "of another version" } else { "damaged" })]
    Unreadable {
        /// Name of the file in the folder of the call.
        name: &'static str,
        /// True if the file's name shows that the commit was completed.
        has_happened: bool,
        /// True if another version of this program wrote the journal, and could read it.
        is_of_other_version: bool,
    },
    /// The commit failed half-way, and not all of it could be undone: recovery will try again.
    #[error("the commit failed, and {path} could not be restored")]
    NotUndone {
        /// First entry that could not be restored.
        path: PathBuf,
        /// Error of the restoration.
        source: io::Error,
    },
    /// The `on_step` of the terms interrupted the commit, which left everything as a killed process
    /// would.
    #[error("the commit was interrupted")]
    BrokenOff,
}

impl Error {
    pub(crate) fn system(doing: &'static str, path: impl AsRef<Path>, source: impl Into<io::Error>) -> Self {
        Self::System { doing, path: path.as_ref().to_owned(), source: source.into() }
    }

    /// Returns a closure for `map_err`. A mount point has its own variant.
    pub(crate) fn while_doing(doing: &'static str, path: &Path) -> impl Fn(Errno) -> Self {
        move |errno| match errno {
            Errno::XDEV => Self::Mounted { path: path.to_owned() },
            errno => Self::system(doing, path, errno),
        }
    }
}
