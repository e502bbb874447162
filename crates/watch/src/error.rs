//! Errors of the watch.

use std::io;
use std::path::PathBuf;

use rustix::io::Errno;

/// Reason why the marked paths are unknown. A caller that relies on them must not continue.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// The process lacks descriptors or memory to look through a folder.
    #[error("cannot look through {}", path.display())]
    Folder {
        /// Path of the folder.
        path: PathBuf,
        /// Error of the system call.
        source: io::Error,
    },
    /// The kernel refused a request about changes or mounts.
    #[error("{doing} failed")]
    Kernel {
        /// Operation that failed.
        doing: &'static str,
        /// Error of the system call.
        source: io::Error,
    },
}

impl WatchError {
    pub(crate) fn kernel(doing: &'static str) -> impl FnOnce(Errno) -> Self {
        move |errno| Self::Kernel { doing, source: errno.into() }
    }
}

/// Returns true if an error means that descriptors or memory ran out, whatever the folder.
pub(crate) fn is_exhaustion(errno: Errno) -> bool {
    matches!(errno, Errno::MFILE | Errno::NFILE | Errno::NOMEM)
}
