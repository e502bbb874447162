//! What can keep a cell from being built or a command from starting in it.

use std::io;
use std::path::PathBuf;

/// Why a command could not be run. In every case nothing ran, unless the variant says otherwise.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SandboxError {
    /// The sandbox is not available on this machine: {what}.
    #[error("the sandbox is not available on this machine: {what}")]
    Unavailable {
        /// What is missing.
        what: String,
        /// What the user can do about it.
        hint: String,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// `{}` cannot be shown in the cell: {reason}.
    #[error("`{}` cannot be shown in the cell: {reason}", path.display())]
    Root {
        /// The workspace or other root.
        path: PathBuf,
        /// Why it cannot.
        reason: String,
    },
    /// Changes of `{}` cannot be kept apart from it: {reason}.
    ///
    /// Without the overlay the same command can run, and writes to the workspace directly.
    #[error("changes of `{}` cannot be kept apart from it: {reason}", workspace.display())]
    Overlay {
        /// The workspace.
        workspace: PathBuf,
        /// Why not.
        reason: String,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The cell's {field} is not valid: {reason}.
    #[error("the cell's {field} is not valid: {reason}")]
    Invalid {
        /// Which part of the specification or the command.
        field: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// The working directory `{}` cannot be entered in the cell.
    #[error("the working directory `{}` cannot be entered in the cell", path.display())]
    WorkingDirectory {
        /// The directory.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// There is no program `{program}` in the cell.
    #[error("there is no program `{program}` in the cell")]
    ProgramNotFound {
        /// The program as it was asked for.
        program: String,
    },
    /// `{program}` cannot be executed: {reason}.
    #[error("`{program}` cannot be executed: {reason}")]
    NotExecutable {
        /// The program as it was asked for.
        program: String,
        /// Why not.
        reason: &'static str,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The spawner must be started before any thread, and this process has {threads}.
    #[error("the spawner must be started before any thread, and this process has {threads}")]
    TooLate {
        /// How many threads there are.
        threads: usize,
    },
    /// Setting up the cell failed while {doing}.
    #[error("setting up the cell failed while {doing}")]
    Setup {
        /// What was being done, and to which path.
        doing: String,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// {doing} failed.
    ///
    /// If this comes after the command has started, the command was killed.
    #[error("{doing} failed")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
}

impl SandboxError {
    /// Makes an error of a failed system call of the caller's side.
    pub(crate) fn io(doing: &'static str) -> impl FnOnce(rustix::io::Errno) -> Self {
        move |errno| Self::Io { doing, source: errno.into() }
    }
}
