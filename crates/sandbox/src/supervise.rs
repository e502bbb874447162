//! The supervisor of a running cell: drains its output, feeds its input, watches its deadline, and
//! ends it.
//!
//! One supervisor serves commands with a waiting caller and commands that run on in the background:
//! the difference is the [`Owner`].

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::error::SandboxError;
use crate::isolation::cell::{Cell, CellEvent};
use crate::limits::values::LimitInForce;
use crate::outcome::{EndReason, Exit};
use crate::owner::{Owner, OwnerRequest};
use crate::stdio_pump::Plumbing;

/// Time for a command to end after SIGTERM, before it is killed with all other processes of its
/// cell. It is long enough to remove a lock file or write a last line, and short enough for a
/// meaningful deadline.
const TERMINATION_GRACE: Duration = Duration::from_millis(200);

/// Maximum time for reading output after the command has ended while other processes have its pipes
/// open. It is long enough for the reader of a process substitution to finish; a process that runs
/// longer was left in the background.
const DRAIN_GRACE: Duration = Duration::from_millis(100);

/// The end of a command: its status, reason and time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    pub(crate) exit: Exit,
    pub(crate) ended: EndReason,
    pub(crate) at: Instant,
    /// True if the first process is the only one left in the cell, and about to end.
    pub(crate) alone: bool,
    /// Limit for which the supervisor killed the cell.
    pub(crate) exceeded: Option<LimitInForce>,
    /// True if the command was waiting for terminal input when it was ended.
    pub(crate) waited_for_input: bool,
}

/// The supervisor's knowledge of the command's state.
#[derive(Clone, Copy)]
enum Life {
    Running,
    /// SIGTERM was sent for this reason; the cell is killed at this time.
    Terminating(EndReason, Instant),
    /// The cell was killed for this reason.
    Killed(EndReason),
    /// The command has ended; output is read until this time at most.
    Over(End, Instant),
    /// The command has ended, and its descendants run on.
    Left(End),
    /// The command has ended, and its descendants were killed.
    LeftKilled(End),
}

/// Runs the cell to its end. When this returns, with or without an error, the caller drops the
/// cell, which kills all remaining processes.
pub(crate) fn supervise<O: Owner>(
    cell: &mut dyn Cell,
    plumbing: &mut Plumbing,
    owner: &mut O,
) -> Result<End, SandboxError> {
    if let Some(terminal) = plumbing.given_terminal() {
        owner.terminal(terminal.as_fd())?;
        plumbing.connect(terminal)?;
    }
    let mut life = Life::Running;
    let mut control_open = true;
    let mut waited_for_input = false;
    let mut watchdog = cell.take_watchdog(Instant::now());
    let cell = &*cell;
    let mut exceeded = None;
    loop {
        let now = Instant::now();
        let deadline = owner.deadline();
        match (life, deadline) {
            (Life::Running, Some((deadline, why))) if now >= deadline => {
                waited_for_input = plumbing.waits_for_input(cell.first_process());
                life = terminate(cell, why);
            }
            (Life::Left(end), Some((deadline, why))) if now >= deadline => life = kill_left(cell, end, why),
            (Life::Terminating(why, kill), _) if now >= kill => {
                cell.kill();
                life = Life::Killed(why);
            }
            _ => {}
        }
        if !control_open && matches!(life, Life::Running | Life::Terminating(..)) {
            life = Life::Killed(EndReason::Killed);
        }
        let watched = matches!(life, Life::Running | Life::Terminating(..) | Life::Left(_));
        if let Some(limit) = watchdog.look(now)
            && watched
        {
            exceeded = Some(limit);
            life = match life {
                Life::Left(end) => kill_left(cell, end, EndReason::Killed),
                _ => {
                    cell.kill();
                    Life::Killed(EndReason::Killed)
                }
            };
        }
        let all_read = plumbing.is_read();
        let wake = match life {
            Life::Over(end, until) if all_read || now >= until => {
                return Ok(End { exceeded, waited_for_input, ..end });
            }
            Life::Left(end) | Life::LeftKilled(end) if !control_open => {
                return Ok(End { exceeded, waited_for_input, ..end });
            }
            Life::Killed(ended) if all_read && !control_open => {
                let exit = Exit::Signal(libc::SIGKILL);
                return Ok(End { exit, ended, at: now, alone: false, exceeded, waited_for_input });
            }
            Life::Running | Life::Left(_) => earlier(deadline.map(|(deadline, _)| deadline), watchdog.next()),
            Life::Terminating(_, kill) => earlier(Some(kill), watchdog.next()),
            Life::Killed(_) | Life::LeftKilled(_) => None,
            Life::Over(_, until) => Some(until),
        };

        let listens = matches!(life, Life::Running | Life::Left(_));
        let ready = wait(cell, plumbing, control_open, owner.event().filter(|_| listens), wake, now)?;
        // INVARIANT: events of the cell are read before output of the command. The cell is connected
        // before the command starts, so a reader of its output can already have a file covered.
        let mut listen = ready.control;
        while std::mem::take(&mut listen) {
            match cell.next_event()? {
                Some(CellEvent::Ended { exit, alone }) => {
                    life = over::<O>(life, exit, alone);
                    if let Life::Over(end, _) | Life::Left(end) = life {
                        owner.command_ended(end.exit);
                    }
                }
                Some(CellEvent::Connected) => listen = true,
                Some(CellEvent::Started) => owner.started(),
                Some(CellEvent::Terminal(terminal)) => {
                    owner.terminal(terminal.as_fd())?;
                    plumbing.connect(terminal)?;
                }
                Some(CellEvent::Closed) => control_open = false,
                None => {}
            }
        }
        for index in 0..ready.outputs.len() {
            if ready.outputs[index] {
                plumbing.drain(index, owner)?;
            }
        }
        if ready.input {
            let taken = plumbing.feed();
            owner.input_taken(taken);
        }
        while let Some(wish) = ready.wished.then(|| owner.wish()).flatten() {
            match wish {
                OwnerRequest::End(why) => match life {
                    Life::Running => {
                        waited_for_input = plumbing.waits_for_input(cell.first_process());
                        life = terminate(cell, why);
                    }
                    Life::Left(end) => life = kill_left(cell, end, why),
                    Life::Terminating(..) | Life::Killed(_) | Life::Over(..) | Life::LeftKilled(_) => {}
                },
                OwnerRequest::Signal(number) => cell.signal(number),
                OwnerRequest::Input(bytes) => plumbing.put_in(&bytes),
                OwnerRequest::EndOfInput => plumbing.end_input(),
            }
        }
    }
}

fn terminate(cell: &dyn Cell, why: EndReason) -> Life {
    cell.signal(TERMINATE);
    Life::Terminating(why, Instant::now() + TERMINATION_GRACE)
}

/// Number of SIGTERM.
const TERMINATE: u8 = 15;

/// Kills the command's descendants. The exit status of the command itself stays.
fn kill_left(cell: &dyn Cell, end: End, ended: EndReason) -> Life {
    cell.kill();
    Life::LeftKilled(End { ended, ..end })
}

fn over<O: Owner>(life: Life, exit: Exit, alone: bool) -> Life {
    let ended = match life {
        Life::Running => EndReason::Finished,
        Life::Terminating(why, _) | Life::Killed(why) => why,
        Life::Over(..) | Life::Left(_) | Life::LeftKilled(_) => return life,
    };
    let at = Instant::now();
    let end = End { exit, ended, at, alone, exceeded: None, waited_for_input: false };
    if O::LINGERS && ended == EndReason::Finished && !alone {
        Life::Left(end)
    } else {
        Life::Over(end, at + DRAIN_GRACE)
    }
}

fn earlier(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    one.into_iter().chain(other).min()
}

/// The events that ended a wait.
#[derive(Default)]
struct WaitEvents {
    outputs: [bool; 2],
    input: bool,
    control: bool,
    wished: bool,
}

fn wait(
    cell: &dyn Cell,
    plumbing: &Plumbing,
    control_open: bool,
    event: Option<BorrowedFd<'_>>,
    wake: Option<Instant>,
    now: Instant,
) -> Result<WaitEvents, SandboxError> {
    let [output, error] = plumbing.to_read().map(|fd| fd.map(|fd| (fd, PollFlags::IN)));
    let input = plumbing.to_write().map(|fd| (fd, PollFlags::OUT));
    let control = control_open.then(|| (cell.events(), PollFlags::IN));
    let sources = [output, error, input, control, event.map(|event| (event, PollFlags::IN))];
    let mut fds: Vec<PollFd<'_>> =
        sources.iter().flatten().map(|&(fd, flags)| PollFd::from_borrowed_fd(fd, flags)).collect();
    let timeout = wake.map(|wake| {
        let left = wake.saturating_duration_since(now);
        Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        }
    });
    match poll(&mut fds, timeout.as_ref()) {
        Ok(_) => {}
        Err(Errno::INTR) => return Ok(WaitEvents::default()),
        Err(errno) => return Err(SandboxError::io("waiting for the cell")(errno)),
    }
    let mut polled = fds.iter();
    let [output, error, input, control, wished] =
        sources.map(|source| source.is_some() && polled.next().is_some_and(|fd| !fd.revents().is_empty()));
    Ok(WaitEvents { outputs: [output, error], input, control, wished })
}
