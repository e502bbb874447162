//! A started cell, seen from outside.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Instant, SystemTime};

use crate::enforcement::Enforcement;
use crate::error::SandboxError;
use crate::limits::values::LimitInForce;
use crate::limits::watchdog::Watchdog;
use crate::outcome::{ChangeSource, Exit, Origin};
use crate::streams::Ends;

/// A started cell. Dropping it kills all of its processes.
pub(crate) trait Cell: Send {
    /// Takes the caller's ends of the command's standard descriptors. A terminal that the command
    /// makes arrives later, as [`CellEvent::Terminal`].
    fn take_stdio(&mut self) -> Ends;

    /// Returns the restrictions in force.
    fn enforcement(&self) -> &Enforcement;

    /// Returns the id, on this machine, of the process that all processes of the cell descend from.
    /// It does not belong to the command.
    fn first_process(&self) -> i32;

    /// Takes the watchdog over the limits that are left to one.
    fn take_watchdog(&mut self, now: Instant) -> Watchdog;

    /// Returns a descriptor that is readable when there is an event.
    fn events(&self) -> BorrowedFd<'_>;

    /// Returns the next event without waiting; `None` if there is none.
    ///
    /// # Errors
    /// Returns the reason why the command never ran. With [`SandboxError::Unavailable`], another
    /// backend may run it.
    fn next_event(&self) -> Result<Option<CellEvent>, SandboxError>;

    /// Sends a signal to the command's process group.
    fn signal(&self, number: u8);

    /// Kills every process of the cell, without waiting for their ends.
    fn kill(&self);

    /// Kills every process of the cell and waits for their ends. `exit` is the end of the command.
    ///
    /// With `may_outlast`, the first process may still be taking the cell's file system down when
    /// this returns: it is the last process, and about to end.
    fn wait(self: Box<Self>, exit: Exit, may_outlast: bool) -> Result<EndedCell, SandboxError>;
}

/// An event of a cell.
#[derive(Debug)]
pub(crate) enum CellEvent {
    /// The cell has handed over what its backend needs to cover files late. More events may follow
    /// at once.
    Connected,
    /// The program runs.
    Started,
    /// The command has made its terminal; this is the caller's side.
    Terminal(OwnedFd),
    /// The command has ended. `alone` is true if no other process of the command is left.
    Ended { exit: Exit, alone: bool },
    /// All processes of the cell have ended.
    Closed,
}

/// Facts about an ended cell.
pub(crate) struct EndedCell {
    pub(crate) enforcement: Enforcement,
    /// Place where the command's changes of the workspace are found.
    pub(crate) changes: ChangeSource,
    pub(crate) origin: Origin,
    /// Earliest change time of the command's changes.
    pub(crate) started_at: SystemTime,
    /// Limit for which the kernel has killed the command or a part of it.
    pub(crate) exceeded: Option<LimitInForce>,
}
