use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

/// What an operation of this crate gives.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why changes could not be read, committed, kept or removed.
///
/// Of a commit, unless it is [`Error::NotUndone`], the workspace is as it was.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system failed.
    #[error("could not {doing} {path}")]
    System {
        /// What was tried, to stand before the path.
        doing: &'static str,
        /// With what; relative to the workspace where it lies in one.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Folders lie too deep to be looked through.
    #[error("{path} is more than {limit} folders deep")]
    TooDeep {
        /// The folder.
        path: PathBuf,
        /// How many levels are looked at.
        limit: usize,
    },
    /// There are more changes than are handled at once.
    #[error("there are more than {limit} changes")]
    TooMany {
        /// How many are handled.
        limit: usize,
    },
    /// The overlay stored a change in a form that this crate does not know, such as data left in the lower layer.
    #[error("the overlay stored {path} in a form that cannot be committed ({attribute})")]
    Form {
        /// The entry.
        path: PathBuf,
        /// The attribute that says so.
        attribute: &'static str,
    },
    /// Something is mounted in the workspace at the path; the overlay did not show it.
    #[error("another file system is mounted at {path}, and the changes lie beneath it")]
    Mounted {
        /// The mount point.
        path: PathBuf,
    },
    /// There is no workspace where the changes belong, or another one.
    #[error("{path} is not the folder any more that it was when the changes were made")]
    OtherWorkspace {
        /// Where the workspace was.
        path: PathBuf,
    },
    /// There are no changes under this id, or a live process holds them.
    #[error("no changes are kept under the id {id}")]
    NoSuchChanges {
        /// The id that was asked for.
        id: String,
    },
    /// A commit of these changes was cut off, or was made already: they can be neither committed nor discarded like this.
    #[error("the changes {id} were being committed; recovery comes first")]
    UnderWay {
        /// The id of the changes.
        id: String,
    },
    /// A file of this crate's own is damaged.
    #[error("{path} is damaged")]
    Damaged {
        /// The file.
        path: PathBuf,
    },
    /// The journal of a commit that was cut off cannot be read. Unless it has happened, it can be neither finished nor taken
    /// back: the workspace may hold a part of it, and the folder of the call what was in the workspace before. If it has, the
    /// workspace holds all of it, and only the folder of the call is left.
    #[error("the journal of the commit is {}", if *.is_of_other_version { "of another version" } else { "damaged" })]
    Unreadable {
        /// The file, in the folder of the call.
        name: &'static str,
        /// What the name says: the commit was done.
        has_happened: bool,
        /// Another version of this program wrote it, and could read it.
        is_of_other_version: bool,
    },
    /// The commit failed half-way, and what was done could not all be taken back: recovery will try again.
    #[error("the commit failed, and {path} could not be put back")]
    NotUndone {
        /// The first entry that could not be put back.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The commit was broken off by the `on_step` of its terms, and left just as a killed process would leave it.
    #[error("the commit was broken off")]
    BrokenOff,
}

impl Error {
    pub(crate) fn system(doing: &'static str, path: impl AsRef<Path>, source: impl Into<io::Error>) -> Self {
        Self::System { doing, path: path.as_ref().to_owned(), source: source.into() }
    }

    /// For `map_err`. A mount point has its own variant.
    pub(crate) fn while_doing(doing: &'static str, path: &Path) -> impl Fn(Errno) -> Self {
        move |errno| match errno {
            Errno::XDEV => Self::Mounted { path: path.to_owned() },
            errno => Self::system(doing, path, errno),
        }
    }
}
