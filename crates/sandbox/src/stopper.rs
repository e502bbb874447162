//! The handle with which a running command is stopped from elsewhere.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::write;

use crate::SandboxError;

/// Stops a command from any thread. Clones stop the same command.
///
/// A stop cannot be taken back: whatever runs with a stopper that was stopped before ends at once.
#[derive(Clone, Debug)]
pub struct Stopper {
    /// Readable from the first stop on; never read, so that it stays so.
    event: Arc<OwnedFd>,
}

impl Stopper {
    /// Makes a stopper that is not stopped.
    ///
    /// # Errors
    ///
    /// [`SandboxError::Io`] when this process has no descriptor left.
    pub fn new() -> Result<Self, SandboxError> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(SandboxError::io("making a stop event"))?;
        Ok(Self { event: Arc::new(event) })
    }

    /// Stops the command, now or as soon as it runs. Does not wait for its end.
    pub fn stop(&self) {
        // The one possible failure is a counter at its maximum, and a counter above zero says what is to be said.
        let _full = write(&self.event, &1_u64.to_ne_bytes());
    }

    pub(crate) fn event(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}
