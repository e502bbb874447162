//! Sessions: commands that run on while their caller does other things, and their owners.
//!
//! A [`Session`] is one command in one cell with a thread that supervises it. [`Sessions`] manages
//! the sessions of a program, by owner, within limits; no owner can find the session of another.

mod facts;
mod job;
mod registry;

pub use facts::{Ending, Part, Phase, Status};
pub use job::{Lifetime, Session, SessionOutput};
pub use registry::{Keeper, ListedSession, OwnedSessions, SessionLimits, Sessions};

use crate::error::SandboxError;

/// A failure of an operation on a session.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The session does not exist.
    #[error("unknown session `{id}`")]
    Unknown {
        /// The requested id.
        id: String,
    },
    /// The owner already runs as many sessions as allowed.
    #[error("{running} sessions are already running; the limit is {limit}")]
    TooMany {
        /// Number of running sessions.
        running: usize,
        /// Maximum number of running sessions.
        limit: usize,
    },
    /// The session has ended.
    #[error("the session has ended")]
    Ended,
    /// The session has no terminal.
    #[error("the session has no terminal")]
    NoTerminal,
    /// The session's standard input has been closed.
    #[error("its standard input is closed")]
    InputClosed,
    /// Too much input is waiting for the command to read it.
    #[error("{pending} bytes of input are already waiting to be read; the limit is {limit}")]
    InputFull {
        /// Number of waiting bytes.
        pending: usize,
        /// Maximum number of waiting bytes.
        limit: usize,
    },
    /// The command could not be started.
    #[error(transparent)]
    Start(#[from] SandboxError),
}
