//! A handle with which any thread can stop a running command.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::write;

use crate::error::SandboxError;

/// A handle that stops a command from any thread. Clones stop the same command.
///
/// A stop is permanent: a command that starts with a stopped stopper ends at once.
#[derive(Clone, Debug)]
pub struct Stopper {
    /// Descriptor that is readable from the first stop on; it is never read, so it stays readable.
    event: Arc<OwnedFd>,
}

impl Stopper {
    /// Makes a stopper that is not stopped.
    ///
    /// # Errors
    /// [`SandboxError::Io`] if this process has no descriptor left.
    pub fn new() -> Result<Self, SandboxError> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(SandboxError::io("making a stop event"))?;
        Ok(Self { event: Arc::new(event) })
    }

    /// Stops the command, now or as soon as it runs. Does not wait for its end.
    pub fn stop(&self) {
        // The only possible failure is a counter at its maximum, which is readable as well.
        let _full = write(&self.event, &1_u64.to_ne_bytes());
    }

    pub(crate) fn event(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}
