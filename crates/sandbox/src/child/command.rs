//! The command's process, from its start to `execve`. It reports over the control socket if it
//! fails before that.
//!
//! INVARIANT: as in the module above, nothing here allocates, locks or panics. And nothing changes
//! memory of the cell's first process, with which this process shares its memory.

use std::convert::Infallible;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Access, Mode, OFlags, access, open};
use rustix::io::Errno;
use rustix::process::{Rlimit, chdir, ioctl_tiocsctty, setrlimit, setsid};
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use rustix::thread::{CpuSet, sched_setaffinity};

use super::blueprint::{Blueprint, Standard, Start};
use super::report::{ExecuteFailure, Report, Stage};
use crate::spec::TerminalSize;
use crate::sys;

/// Exit code of a process that never became the command; no caller sees it.
const NEVER_STARTED: i32 = 127;

/// Becomes the command.
pub(super) fn start(blueprint: &Blueprint) -> ! {
    let report = match become_command(blueprint) {
        Err(report) => report,
        Ok(never) => match never {},
    };
    report.send(sys::borrow(blueprint.control));
    sys::exit(NEVER_STARTED)
}

fn become_command(blueprint: &Blueprint) -> Result<Infallible, Report> {
    let refused = |errno| Report::Execute { failure: ExecuteFailure::Refused, errno };
    // In a new session and process group, signals to the group reach the command's processes alone,
    // and the caller's terminal does not control them.
    setsid().map_err(refused)?;
    let onto = |[input, output, error]: [BorrowedFd<'_>; 3]| {
        sys::duplicate_onto(input, 0)?;
        sys::duplicate_onto(output, 1)?;
        sys::duplicate_onto(error, 2)
    };
    match blueprint.standard {
        Standard::Outputs { stdout, stderr } => {
            let null =
                open(c"/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).map_err(refused)?;
            onto([null.as_fd(), sys::borrow(stdout), sys::borrow(stderr)]).map_err(refused)?;
        }
        Standard::Pipes { input, output } => {
            let output = sys::borrow(output);
            onto([sys::borrow(input), output, output]).map_err(refused)?;
        }
        Standard::Terminal(size) => make_terminal(size, sys::borrow(blueprint.control))
            .and_then(|terminal| onto([terminal.as_fd(); 3]))
            .map_err(|errno| Report::Fault(Stage::Terminal.fault(errno)))?,
        Standard::GivenTerminal(terminal) => {
            let terminal = sys::borrow(terminal);
            ioctl_tiocsctty(terminal)
                .and_then(|()| onto([terminal; 3]))
                .map_err(|errno| Report::Fault(Stage::Terminal.fault(errno)))?;
        }
    }
    sys::close_range(3, u32::MAX, true).map_err(refused)?;
    chdir(blueprint.start.working_directory.as_c_str()).map_err(Report::WorkingDirectory)?;
    limit(&blueprint.start).map_err(|errno| Report::Fault(Stage::Limits.fault(errno)))?;
    sys::unblock_signals();
    Err(execute(&blueprint.start))
}

/// Sets the limits that the kernel enforces. Must come last, so that they do not restrict the steps
/// above.
fn limit(start: &Start) -> Result<(), Errno> {
    for bound in &start.bounds {
        let value = Rlimit { current: Some(bound.soft), maximum: Some(bound.hard) };
        setrlimit(bound.resource.to_kernel(), value)?;
    }
    if start.processors.is_empty() {
        return Ok(());
    }
    let mut set = CpuSet::new();
    for processor in &start.processors {
        match usize::try_from(*processor) {
            Ok(number) if number < CpuSet::MAX_CPU => set.set(number),
            _ => return Err(Errno::INVAL),
        }
    }
    sched_setaffinity(None, &set)
}

/// Makes a terminal in the cell's pseudo-terminal file system, makes it the controlling terminal of
/// this session, and hands its other side to the caller.
fn make_terminal(size: TerminalSize, control: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let outer = open(c"/dev/pts/ptmx", flags, Mode::empty())?;
    unlockpt(&outer)?;
    tcsetwinsize(&outer, Winsize { ws_row: size.rows, ws_col: size.columns, ws_xpixel: 0, ws_ypixel: 0 })?;
    let inner = ioctl_tiocgptpeer(&outer, OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    ioctl_tiocsctty(&inner)?;
    Report::Terminal.send_with(control, outer.as_fd())?;
    Ok(inner)
}

/// Executes the first candidate that can be executed, as a shell searches its PATH. Returns a
/// report only if no candidate can be executed.
fn execute(start: &Start) -> Report {
    let mut best = (ExecuteFailure::NotFound, Errno::NOENT);
    for candidate in &start.candidates {
        let errno = sys::execute(candidate, &start.arguments, &start.environment);
        best = match errno {
            Errno::NOENT if access(candidate.as_c_str(), Access::EXISTS).is_ok() => {
                (ExecuteFailure::InterpreterMissing, errno)
            }
            Errno::NOENT | Errno::NOTDIR => continue,
            Errno::ACCESS => (ExecuteFailure::Refused, errno),
            _ => return Report::Execute { failure: ExecuteFailure::Refused, errno },
        };
    }
    let (failure, errno) = best;
    Report::Execute { failure, errno }
}
