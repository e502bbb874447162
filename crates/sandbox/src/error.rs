//! Errors of building a cell and of starting a command in it.

use std::io;
use std::path::PathBuf;

/// A failure to run a command. The command did not run, unless the variant documents otherwise.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SandboxError {
    /// The sandbox is not available on this machine.
    #[error("the sandbox is not available on this machine: {what}")]
    Unavailable {
        /// Description of the missing feature.
        what: String,
        /// Advice for the user.
        hint: String,
        /// Error of the kernel.
        #[source]
        source: io::Error,
    },
    /// A root cannot be shown in the cell.
    #[error("`{}` cannot be shown in the cell: {reason}", path.display())]
    Root {
        /// The workspace or another root.
        path: PathBuf,
        /// Reason for the failure.
        reason: String,
    },
    /// The overlay of the workspace cannot be made.
    ///
    /// Without the overlay the same command can run, and writes to the workspace directly.
    #[error("changes of `{}` cannot be isolated: {reason}", workspace.display())]
    Overlay {
        /// The workspace.
        workspace: PathBuf,
        /// Reason for the failure.
        reason: String,
        /// Error of the kernel.
        #[source]
        source: io::Error,
    },
    /// A part of the specification or the command is invalid.
    #[error("the cell's {field} is not valid: {reason}")]
    Invalid {
        /// Name of the invalid part.
        field: &'static str,
        /// Reason why it is invalid.
        reason: String,
    },
    /// The working directory cannot be entered in the cell.
    #[error("the working directory `{}` cannot be entered in the cell", path.display())]
    WorkingDirectory {
        /// The working directory.
        path: PathBuf,
        /// Error of the kernel.
        #[source]
        source: io::Error,
    },
    /// The program does not exist in the cell.
    #[error("there is no program `{program}` in the cell")]
    ProgramNotFound {
        /// Name of the program, as given by the caller.
        program: String,
    },
    /// The program cannot be executed.
    #[error("`{program}` cannot be executed: {reason}")]
    NotExecutable {
        /// Name of the program, as given by the caller.
        program: String,
        /// Reason for the failure.
        reason: &'static str,
        /// Error of the kernel.
        #[source]
        source: io::Error,
    },
    /// The spawner must be started before any thread, but this process already has several.
    #[error("the spawner must be started before any thread, but this process has {threads}")]
    TooLate {
        /// Number of threads of this process.
        threads: usize,
    },
    /// Setting up the cell failed.
    #[error("setting up the cell failed while {doing}")]
    Setup {
        /// The failed activity, with its path.
        doing: String,
        /// Error of the kernel.
        #[source]
        source: io::Error,
    },
    /// A system call failed.
    ///
    /// If the command had started before, it was killed.
    #[error("{doing} failed")]
    Io {
        /// The failed activity.
        doing: &'static str,
        /// Error of the kernel.
        #[source]
        source: io::Error,
    },
}

impl SandboxError {
    /// Builds a closure that makes an error of a failed system call of the calling process.
    pub(crate) fn io(doing: &'static str) -> impl FnOnce(rustix::io::Errno) -> Self {
        move |errno| Self::Io { doing, source: errno.into() }
    }
}
