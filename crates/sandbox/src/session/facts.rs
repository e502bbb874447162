//! What is known of a session.

use std::time::Duration;

use crate::limits::LimitInForce;
use crate::outcome::{Ended, Exit};

/// Where a session is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The cell is being set up.
    Starting,
    /// The command runs.
    Running,
    /// The command has ended with this, and what it left behind runs on.
    Left(Exit),
    /// Nothing of it runs any more.
    Ended(Ending),
}

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending {
    /// How the command ended.
    pub exit: Exit,
    /// What ended the session.
    pub ended: Ended,
}

/// What is known of a session at a moment.
#[derive(Clone, Debug)]
pub struct Status {
    /// Where it is in its life.
    pub phase: Phase,
    /// The bytes that it has written.
    pub bytes: u64,
    /// The lines that it has written.
    pub lines: u64,
    /// Whether it has a terminal.
    pub has_terminal: bool,
    /// Since its start, until now or its end.
    pub runs_for: Duration,
    /// Once it has ended: the limit at which a process of it was killed, where one was.
    pub exceeded: Option<LimitInForce>,
    /// Once it has ended: the reference under which its output is kept, or why it could not be.
    pub kept: Option<Result<String, String>>,
}

/// A piece of a session's output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Where it begins: where it was asked for, or later where what came before is not kept any more.
    pub offset: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
}
