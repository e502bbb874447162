//! Commands that run on while their caller does other things: sessions, and who owns them.
//!
//! A [`Session`] is one command in one cell with a thread that supervises it. [`Sessions`] holds those of a program, by
//! owner, within limits; nobody finds the session of another.

mod facts;
mod life;
mod registry;

pub use facts::{Ending, Part, Phase, Status};
pub use life::{Lifetime, Session, SessionOutput};
pub use registry::{Keeper, Listed, OwnedSessions, SessionLimits, Sessions};

use crate::error::SandboxError;

/// Why something cannot be done with a session.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// There is no session `{id}`.
    #[error("there is no session `{id}`")]
    Unknown {
        /// The id as it was asked for.
        id: String,
    },
    /// {running} sessions run already, and {limit} may.
    #[error("{running} sessions run already, and {limit} may")]
    TooMany {
        /// How many run.
        running: usize,
        /// How many may.
        limit: usize,
    },
    /// The session has ended.
    #[error("the session has ended")]
    Ended,
    /// The session has no terminal.
    #[error("the session has no terminal")]
    NoTerminal,
    /// Its standard input has been closed.
    #[error("its standard input has been closed")]
    InputClosed,
    /// {pending} bytes of input are waiting to be read already, and {limit} may.
    #[error("{pending} bytes of input are waiting to be read already, and {limit} may")]
    InputFull {
        /// How many wait.
        pending: usize,
        /// How many may.
        limit: usize,
    },
    /// The command could not be started.
    #[error(transparent)]
    Start(#[from] SandboxError),
}
