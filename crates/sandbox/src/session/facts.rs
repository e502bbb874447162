//! Facts about a session.

use std::time::Duration;

use crate::limits::values::LimitInForce;
use crate::outcome::{EndReason, Exit};

/// The phase of a session's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The cell is being set up.
    Starting,
    /// The command runs.
    Running,
    /// The command has ended with this status, and its descendants run on.
    Left(Exit),
    /// All processes of the session have ended.
    Ended(Ending),
}

/// The end of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending {
    /// Exit status of the command.
    pub exit: Exit,
    /// Reason for the end of the session.
    pub ended: EndReason,
}

/// A snapshot of the facts about a session.
#[derive(Clone, Debug)]
pub struct Status {
    /// Phase of its life.
    pub phase: Phase,
    /// Number of bytes that the session has written.
    pub bytes: u64,
    /// Number of lines that the session has written.
    pub lines: u64,
    /// True if the session has a terminal.
    pub has_terminal: bool,
    /// Time since its start, until now or until its end.
    pub runs_for: Duration,
    /// Limit for which a process of the session was killed, if any; known after the session's end.
    pub exceeded: Option<LimitInForce>,
    /// Reference to the stored output, or the reason why it could not be stored; known after the
    /// session's end.
    pub kept: Option<Result<String, String>>,
}

/// A piece of a session's output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Offset of the first byte: the requested one, or a later one if the bytes before are gone.
    pub offset: u64,
    /// Content of the piece.
    pub bytes: Vec<u8>,
}
