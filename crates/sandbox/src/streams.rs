//! The standard descriptors of a command, from both sides.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{OFlags, fchown, fcntl_setfl};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Gid, Uid};
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::child::blueprint::Standard;
use crate::error::SandboxError;
use crate::spec::TerminalSize;

/// The kind of standard descriptors that a command gets.
#[derive(Clone, Copy)]
pub(crate) enum Streams {
    /// An empty input and two output pipes.
    Captured,
    /// An input pipe and one pipe for both outputs.
    Conversed,
}

/// The caller's ends of a command's standard descriptors. A terminal of the cell has none until the
/// cell reports it.
#[derive(Default)]
pub(crate) struct Ends {
    pub(crate) input: Option<OwnedFd>,
    /// Standard output, or both outputs.
    pub(crate) output: Option<OwnedFd>,
    pub(crate) error: Option<OwnedFd>,
    /// The caller's side of a terminal that this process made for the command.
    pub(crate) terminal: Option<OwnedFd>,
}

/// The command's ends.
pub(crate) struct TheirEnds {
    pub(crate) descriptors: Vec<OwnedFd>,
    pub(crate) standard: Standard,
}

/// The user and group on the host that own the command's ends, if they are not the caller's. The
/// command can then open the ends again by name, as `/dev/stdout`.
pub(crate) type Receiver = Option<(u32, u32)>;

impl Streams {
    /// Returns true if the caller wants a report when the program runs.
    pub(crate) fn announced(self) -> bool {
        matches!(self, Self::Conversed)
    }

    /// Makes both sides; for a terminal the cell makes them.
    pub(crate) fn make(
        self,
        terminal: Option<TerminalSize>,
        receiver: Receiver,
    ) -> Result<(Ends, TheirEnds), SandboxError> {
        if let Some(size) = terminal {
            let standard = Standard::Terminal(size);
            return Ok((Ends::default(), TheirEnds { descriptors: Vec::new(), standard }));
        }
        let (output, their_output) = output_pipe(receiver)?;
        let (ends, first, standard): (_, _, fn([i32; 2]) -> Standard) = match self {
            Self::Captured => {
                let (error, their_error) = output_pipe(receiver)?;
                let ends = Ends { output: Some(output), error: Some(error), ..Ends::default() };
                (ends, [their_output, their_error], |[stdout, stderr]| Standard::Outputs { stdout, stderr })
            }
            Self::Conversed => {
                let (input, their_input) = input_pipe(receiver)?;
                let ends = Ends { input: Some(input), output: Some(output), ..Ends::default() };
                (ends, [their_input, their_output], |[input, output]| Standard::Pipes { input, output })
            }
        };
        let standard = standard(first.each_ref().map(AsRawFd::as_raw_fd));
        Ok((ends, TheirEnds { descriptors: first.into(), standard }))
    }
}

/// Makes both sides of a new terminal of the host, for a cell without its own terminal file system.
/// No other process has it.
pub(crate) fn new_terminal(
    size: TerminalSize,
    receiver: Receiver,
) -> Result<(Ends, TheirEnds), SandboxError> {
    let make = || -> Result<(OwnedFd, OwnedFd), Errno> {
        let outer = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        unlockpt(&outer)?;
        tcsetwinsize(
            &outer,
            Winsize { ws_row: size.rows, ws_col: size.columns, ws_xpixel: 0, ws_ypixel: 0 },
        )?;
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let inner = ioctl_tiocgptpeer(&outer, flags)?;
        if let Some((user, group)) = receiver {
            fchown(&inner, Some(Uid::from_raw(user)), Some(Gid::from_raw(group)))?;
        }
        Ok((outer, inner))
    };
    let (outer, inner) = make().map_err(SandboxError::io("making a terminal"))?;
    let inner = above_standard(inner)?;
    let standard = Standard::GivenTerminal(inner.as_raw_fd());
    let ends = Ends { terminal: Some(outer), ..Ends::default() };
    Ok((ends, TheirEnds { descriptors: vec![inner], standard }))
}

/// Makes a pipe for output: the end to read here without blocking, and the end for the cell.
fn output_pipe(receiver: Receiver) -> Result<(OwnedFd, OwnedFd), SandboxError> {
    let (ours, theirs) = pipe_with(PipeFlags::CLOEXEC).map_err(SandboxError::io("making a pipe"))?;
    hand_over(ours, theirs, receiver)
}

/// Makes a pipe for input: the end to write here without blocking, and the end for the cell.
fn input_pipe(receiver: Receiver) -> Result<(OwnedFd, OwnedFd), SandboxError> {
    let (theirs, ours) = pipe_with(PipeFlags::CLOEXEC).map_err(SandboxError::io("making a pipe"))?;
    hand_over(ours, theirs, receiver)
}

fn hand_over(ours: OwnedFd, theirs: OwnedFd, receiver: Receiver) -> Result<(OwnedFd, OwnedFd), SandboxError> {
    fcntl_setfl(&ours, OFlags::NONBLOCK).map_err(SandboxError::io("preparing a pipe"))?;
    if let Some((user, group)) = receiver {
        fchown(&theirs, Some(Uid::from_raw(user)), Some(Gid::from_raw(group)))
            .map_err(SandboxError::io("handing over a pipe"))?;
    }
    Ok((ours, above_standard(theirs)?))
}

/// Moves the descriptor to a number above those of the standard descriptors.
pub(crate) fn above_standard(fd: OwnedFd) -> Result<OwnedFd, SandboxError> {
    if fd.as_raw_fd() > 2 {
        return Ok(fd);
    }
    let borrowed: BorrowedFd<'_> = fd.as_fd();
    fcntl_dupfd_cloexec(borrowed, 3).map_err(SandboxError::io("moving a descriptor"))
}
