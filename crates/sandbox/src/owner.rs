//! The owner of a running cell: takes its output, and asks for its end.

use std::os::fd::BorrowedFd;
use std::time::Instant;

use crate::error::SandboxError;
use crate::outcome::{EndReason, Exit, Stream};

/// The owner of a supervised cell.
pub(crate) trait Owner {
    /// True if the command's descendants run on after its end; false if they are killed then.
    const LINGERS: bool;

    /// Takes the next piece of output.
    fn output(&mut self, stream: Stream, chunk: &[u8]);

    /// Returns the time at which the cell must end, and the reason. Called again before every wait.
    fn deadline(&self) -> Option<(Instant, EndReason)>;

    /// Returns a descriptor that is readable when there is a [`OwnerRequest`]; `None` if there will be none
    /// any more.
    fn event(&self) -> Option<BorrowedFd<'_>>;

    /// Takes the next wish.
    fn wish(&mut self) -> Option<OwnerRequest>;

    /// Notifies the owner that the program runs.
    fn started(&mut self) {}

    /// Hands over the caller's side of the terminal that the command has made.
    fn terminal(&mut self, _terminal: BorrowedFd<'_>) -> Result<(), SandboxError> {
        Ok(())
    }

    /// Reports the number of input bytes that the command's side has taken, or that were dropped.
    fn input_taken(&mut self, _bytes: usize) {}

    /// Notifies the owner that the command has ended.
    fn command_ended(&mut self, _exit: Exit) {}
}

/// A request of an owner.
pub(crate) enum OwnerRequest {
    /// End the command.
    End(EndReason),
    /// Send this signal to the command's process group.
    Signal(u8),
    /// Write these bytes to the command's input.
    Input(Vec<u8>),
    /// Close the command's input after the pending bytes.
    EndOfInput,
}
