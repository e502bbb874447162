use std::io;
use std::path::PathBuf;

use rustix::io::Errno;

/// Why the marked paths cannot be told. Whoever relies on them must not go on.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// The folder cannot be looked for: something this process needs for it is used up.
    #[error("cannot look through {}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The kernel does not tell of changes.
    #[error("{doing} failed")]
    Kernel {
        /// What was tried.
        doing: &'static str,
        /// Why not.
        source: io::Error,
    },
}

impl WatchError {
    pub(crate) fn kernel(doing: &'static str) -> impl FnOnce(Errno) -> Self {
        move |errno| Self::Kernel { doing, source: errno.into() }
    }
}

/// Whether an error is about what this process has left, and not about the folder that was looked at.
pub(crate) fn is_exhaustion(errno: Errno) -> bool {
    matches!(errno, Errno::MFILE | Errno::NFILE | Errno::NOMEM)
}
