//! Result of a command's run.

use std::fs::File;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use crate::enforcement::Enforcement;
use crate::limits::values::LimitInForce;

/// The result of a command that has run. When a caller receives it, no process that the command
/// started is left.
#[derive(Debug)]
pub struct Outcome {
    /// Exit status of the command.
    pub exit: Exit,
    /// Reason for the end of the command.
    pub ended: EndReason,
    /// True if the foreground program of the command's terminal was waiting for input when it was
    /// ended. Without a terminal this is false: standard input is at its end from the start.
    pub waited_for_input: bool,
    /// Captured standard output.
    pub stdout: CapturedStream,
    /// Captured standard error.
    pub stderr: CapturedStream,
    /// Time from the start of the cell to the end of the command.
    pub duration: Duration,
    /// Time before the command could see the workspace, on the clock with which its file system
    /// stamps changes. Every later change has a change time at or after this.
    pub started_at: SystemTime,
    /// Limit for which the command or a part of it was killed: memory or disk writes. A refusal by
    /// the kernel is not recorded here, because the kernel reports it to the command.
    pub exceeded: Option<LimitInForce>,
    /// Restrictions that were in force.
    pub enforcement: Enforcement,
    /// Place where the command's changes of the workspace are found.
    pub changes: ChangeSource,
    /// Origin of the cell.
    pub origin: Origin,
}

/// The place where a command's changes of the workspace are found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeSource {
    /// The upper folder of an overlay. The workspace stays unchanged.
    UpperFolder(PathBuf),
    /// No place of their own: the command wrote to the workspace directly, or not at all.
    None,
}

/// The origin of a cell, which makes no difference to the cell's properties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The cell was made for this command.
    Made,
    /// The cell had been waiting, or the spawner made it at this moment.
    Spawner,
    /// The cell had been waiting, and already showed the paths of this call.
    Ready,
}

/// The exit status of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The command exited with this code.
    Code(i32),
    /// The command was killed by this signal.
    Signal(i32),
}

/// The reason for the end of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// The command ended without intervention.
    Finished,
    /// The time limit of the command expired.
    Deadline,
    /// The caller used the [`Stopper`](crate::Stopper), or closed the session.
    Stopped,
    /// The session was idle for too long.
    Idle,
    /// The whole cell was killed from outside, by the out-of-memory killer or an administrator.
    Killed,
}

/// The output stream of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// The captured text of one stream.
#[derive(Debug, Default)]
pub struct CapturedStream {
    /// First bytes, at most 32 KiB.
    pub head: Vec<u8>,
    /// Last bytes after the head, at most 96 KiB. Head and tail are the whole text if both `whole`
    /// and `spool_error` are `None`.
    pub tail: Vec<u8>,
    /// Number of bytes written in total.
    pub bytes: u64,
    /// Number of lines written in total, including a last line without a newline.
    pub lines: u64,
    /// File with the output from its beginning, if it did not fit into head and tail; positioned at
    /// its start.
    pub whole: Option<File>,
    /// Number of bytes in `whole`: all, or as many as the output limit allows.
    pub whole_bytes: u64,
    /// Error because of which `whole` ends early or is missing, such as a full disk. The command
    /// itself was not affected.
    pub spool_error: Option<std::io::Error>,
}
