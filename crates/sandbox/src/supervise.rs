//! Watches over a running cell from outside: drains its output, keeps its deadline, and ends it.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, read};
use rustix::net::{SendFlags, send};

use crate::capture::Capture;
use crate::child::TERMINATE;
use crate::child::report::{ExecuteFailure, Report};
use crate::error::SandboxError;
use crate::launch::Cell;
use crate::limits::LimitInForce;
use crate::limits::watchdog::Watchdog;
use crate::outcome::{Ended, Exit, Stream};
use crate::stopper::Stopper;

/// How long a command has to end after SIGTERM before it is killed with everything else in its cell: enough to
/// remove a lock file or write a last line, short enough that a deadline means what it says.
const TERMINATION_GRACE: Duration = Duration::from_millis(200);

/// How long output is still read when the command has ended but others hold its pipes open. Long enough for the
/// reader of a process substitution to finish; what runs longer was left in the background.
const DRAIN_GRACE: Duration = Duration::from_millis(100);

/// How much is read at once: the size of a pipe.
const CHUNK: usize = 64 * 1024;

/// How a command ended, and when.
#[derive(Clone, Copy)]
pub(crate) struct End {
    pub(crate) exit: Exit,
    pub(crate) ended: Ended,
    pub(crate) at: Instant,
    /// Whether nobody else is left in the cell but its first process, which is about to end.
    pub(crate) alone: bool,
    /// The limit for which the cell was killed from here.
    pub(crate) exceeded: Option<LimitInForce>,
}

/// One output of the cell.
pub(crate) struct Output<'a> {
    pub(crate) stream: Stream,
    pub(crate) pipe: Option<OwnedFd>,
    pub(crate) capture: Capture<'a>,
}

/// What the command has told of itself so far.
#[derive(Clone, Copy)]
enum Life {
    Running,
    /// SIGTERM was sent for this reason; the cell is killed at this moment.
    Terminating(Ended, Instant),
    /// The cell was killed for this reason.
    Killed(Ended),
    /// The command has ended; output is read until this moment at most.
    Over(End, Instant),
}

/// Runs the cell to its end. When this returns, with an error or without, the caller drops the cell and by that
/// kills what is left.
pub(crate) fn supervise(
    cell: &Cell,
    outputs: &mut [Output<'_>; 2],
    deadline: Option<Instant>,
    stopper: &Stopper,
    failure: impl Fn(Report) -> SandboxError,
    on_output: &mut dyn FnMut(Stream, &[u8]),
) -> Result<End, SandboxError> {
    let mut buffer = vec![0_u8; CHUNK];
    let mut life = Life::Running;
    let mut control_open = true;
    let mut watchdog = Watchdog::over(cell.process.pid(), &cell.enforcement, Instant::now());
    let mut exceeded = None;
    loop {
        let now = Instant::now();
        life = on_time(life, now, deadline, cell);
        if !control_open && matches!(life, Life::Running | Life::Terminating(..)) {
            life = Life::Killed(Ended::Killed);
        }
        if let Some(limit) = watchdog.look(now)
            && matches!(life, Life::Running | Life::Terminating(..))
        {
            cell.process.kill();
            exceeded = Some(limit);
            life = Life::Killed(Ended::Killed);
        }
        let all_read = outputs.iter().all(|output| output.pipe.is_none());
        let wake = match life {
            Life::Over(end, until) if all_read || now >= until => return Ok(End { exceeded, ..end }),
            // The control socket closes only when the cell's first process ends.
            Life::Killed(ended) if all_read && !control_open => {
                return Ok(End { exit: Exit::Signal(libc::SIGKILL), ended, at: now, alone: false, exceeded });
            }
            Life::Running => earlier(deadline, watchdog.next()),
            Life::Terminating(_, kill) => earlier(Some(kill), watchdog.next()),
            Life::Killed(_) => None,
            Life::Over(_, until) => Some(until),
        };

        let waiting = matches!(life, Life::Running);
        let ready = wait(cell, outputs, control_open, waiting.then_some(stopper), wake, now)?;
        for (output, ready) in outputs.iter_mut().zip(ready.outputs) {
            if ready {
                drain(output, &mut buffer, on_output)?;
            }
        }
        if ready.control {
            match Report::receive(cell.control.as_fd()) {
                Ok(Some(Report::Ended { status, last })) => life = over(life, status, last),
                Ok(Some(report)) => return Err(failure(report)),
                Ok(None) => control_open = false,
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(errno) => return Err(SandboxError::io("listening to the cell")(errno)),
            }
        }
        if ready.stopped && matches!(life, Life::Running) {
            life = terminate(cell, Ended::Stopped);
        }
    }
}

/// Reads what is left in the pipes after everything in the cell is dead.
pub(crate) fn finish(
    outputs: &mut [Output<'_>; 2],
    on_output: &mut dyn FnMut(Stream, &[u8]),
) -> Result<(), SandboxError> {
    let mut buffer = vec![0_u8; CHUNK];
    for output in outputs {
        // INVARIANT: nobody can write any more, so this ends: at the end of the pipe, or when it is empty.
        while drain(output, &mut buffer, on_output)? {}
    }
    Ok(())
}

fn on_time(life: Life, now: Instant, deadline: Option<Instant>, cell: &Cell) -> Life {
    match life {
        Life::Running if deadline.is_some_and(|deadline| now >= deadline) => terminate(cell, Ended::Deadline),
        Life::Terminating(why, kill) if now >= kill => {
            cell.process.kill();
            Life::Killed(why)
        }
        other => other,
    }
}

fn terminate(cell: &Cell, why: Ended) -> Life {
    // If the cell is gone already, its end is about to be read from the control socket.
    let _gone = send(&cell.control, &[TERMINATE], SendFlags::NOSIGNAL);
    Life::Terminating(why, Instant::now() + TERMINATION_GRACE)
}

fn over(life: Life, status: i32, alone: bool) -> Life {
    let exit = if libc::WIFEXITED(status) {
        Exit::Code(libc::WEXITSTATUS(status))
    } else {
        Exit::Signal(libc::WTERMSIG(status))
    };
    let ended = match life {
        Life::Running => Ended::Finished,
        Life::Terminating(why, _) | Life::Killed(why) => why,
        Life::Over(..) => return life,
    };
    let at = Instant::now();
    Life::Over(End { exit, ended, at, alone, exceeded: None }, at + DRAIN_GRACE)
}

fn earlier(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    one.into_iter().chain(other).min()
}

/// What a wait was ended by.
#[derive(Default)]
struct Ready {
    outputs: [bool; 2],
    control: bool,
    stopped: bool,
}

fn wait(
    cell: &Cell,
    outputs: &[Output<'_>; 2],
    control_open: bool,
    stopper: Option<&Stopper>,
    wake: Option<Instant>,
    now: Instant,
) -> Result<Ready, SandboxError> {
    let mut fds = Vec::with_capacity(4);
    let event = stopper.map(Stopper::event);
    let pipes = outputs.iter().map(|output| output.pipe.as_ref().map(AsFd::as_fd));
    let sources = pipes.chain([control_open.then(|| cell.control.as_fd()), event]);
    let present: Vec<bool> = sources
        .map(|source| {
            fds.extend(source.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
            source.is_some()
        })
        .collect();
    let timeout = wake.map(|wake| {
        let left = wake.saturating_duration_since(now);
        Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        }
    });
    match poll(&mut fds, timeout.as_ref()) {
        Ok(_) => {}
        Err(Errno::INTR) => return Ok(Ready::default()),
        Err(errno) => return Err(SandboxError::io("waiting for the cell")(errno)),
    }
    let mut polled = fds.iter();
    let mut ready = present
        .into_iter()
        .map(|present| present && polled.next().is_some_and(|polled| !polled.revents().is_empty()));
    let mut next = || ready.next().unwrap_or_default();
    Ok(Ready { outputs: [next(), next()], control: next(), stopped: next() })
}

/// Reads once. Says whether there may be more.
fn drain(
    output: &mut Output<'_>,
    buffer: &mut [u8],
    on_output: &mut dyn FnMut(Stream, &[u8]),
) -> Result<bool, SandboxError> {
    let Some(pipe) = &output.pipe else { return Ok(false) };
    match read(pipe, &mut *buffer) {
        Ok(0) => {
            output.pipe = None;
            Ok(false)
        }
        Ok(length) => {
            let chunk = buffer.get(..length).unwrap_or_default();
            output.capture.push(chunk);
            on_output(output.stream, chunk);
            Ok(true)
        }
        Err(Errno::INTR) => Ok(true),
        Err(Errno::AGAIN) => Ok(false),
        Err(errno) => Err(SandboxError::io("reading the command's output")(errno)),
    }
}

/// Why a command could not be executed, in words.
pub(crate) fn reason(failure: ExecuteFailure, errno: Errno) -> &'static str {
    match (failure, errno) {
        (ExecuteFailure::InterpreterMissing, _) => {
            "the interpreter or loader that it names is not in the cell"
        }
        (_, Errno::ACCESS) => "permission denied: it is not marked as executable, or is a folder",
        (_, Errno::NOEXEC) => {
            "it is neither a program for this machine nor a script that names its interpreter"
        }
        (_, Errno::TOOBIG) => "its arguments and environment are too large",
        _ => "the kernel refuses to execute it",
    }
}
