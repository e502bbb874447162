//! What a command's run comes to.

use std::fs::File;
use std::time::{Duration, SystemTime};

use crate::enforcement::Enforcement;
use crate::limits::LimitInForce;

/// What is left of a command that has run. When it is returned, no process that the command started is left.
#[derive(Debug)]
pub struct Outcome {
    /// How the command ended.
    pub exit: Exit,
    /// What ended it.
    pub ended: Ended,
    /// Whether the program in the foreground of its terminal was waiting for somebody to type when it was told to end.
    /// Without a terminal there is nothing to wait for: standard input is at its end from the start.
    pub waited_for_input: bool,
    /// What it wrote to standard output.
    pub stdout: Captured,
    /// What it wrote to standard error.
    pub stderr: Captured,
    /// From the start of the cell to the end of the command.
    pub duration: Duration,
    /// A moment before the command could see the workspace, in the time with which its file system stamps changes:
    /// what changes later has a change time at or after this.
    pub started_at: SystemTime,
    /// The limit that the command was killed for, or a part of it: memory or what it wrote to disk. A command that was
    /// refused more of something by the kernel was told by the kernel, and it is not noted here.
    pub exceeded: Option<LimitInForce>,
    /// What was in force.
    pub enforcement: Enforcement,
    /// Where the cell came from.
    pub origin: Origin,
}

/// Where a cell came from. It makes no difference to what the cell is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// It was made for this command.
    Made,
    /// It had been waiting, or was made by the spawner in this moment.
    Spawner,
    /// It had been waiting, and showed already what this call wants to see.
    Ready,
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It exited with this code.
    Code(i32),
    /// This signal killed it.
    Signal(i32),
}

/// What ended a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It ended by itself.
    Finished,
    /// Its time was over.
    Deadline,
    /// The [`Stopper`](crate::Stopper) was used, or the session was closed.
    Stopped,
    /// Nobody asked about the session for too long.
    Idle,
    /// The whole cell was killed from outside, for want of memory or by an administrator.
    Killed,
}

/// Which output a piece of text came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// What a command wrote to one stream.
#[derive(Debug, Default)]
pub struct Captured {
    /// The first bytes, at most 32 KiB.
    pub head: Vec<u8>,
    /// The last bytes after the head, at most 96 KiB. Head and tail are all there is if `whole` is `None` and
    /// `spool_error` too.
    pub tail: Vec<u8>,
    /// How many bytes were written in all.
    pub bytes: u64,
    /// How many lines were written in all; one without a newline at the end counts.
    pub lines: u64,
    /// The output from its beginning, when it did not fit into head and tail; positioned at its start.
    pub whole: Option<File>,
    /// How many bytes `whole` holds: all, or as many as the output limit allows.
    pub whole_bytes: u64,
    /// Why `whole` ends early or is missing, such as a full disk. The command was not disturbed.
    pub spool_error: Option<std::io::Error>,
}
