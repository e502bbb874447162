//! The signal that ends a call early.

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::{Code, ToolError};

/// Reason why a call must end now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// The deadline of the call passed.
    Deadline,
    /// The caller cancelled the call, or disconnected.
    Cancelled,
}

/// Signal that ends a call early.
///
/// The engine requests the stop. The tool notices it in a loop with [`Stop::check`], or by a
/// callback that kills the process that the tool waits for. A stop is requested once; later
/// requests change nothing.
#[derive(Clone, Default)]
pub struct Stop(Arc<Shared>);

type Callback = Box<dyn FnOnce(StopReason) + Send>;

#[derive(Default)]
struct Shared {
    /// Reason for the stop. Set under the lock of the callbacks and read without the lock, because
    /// loops check it at every step.
    reason: OnceLock<StopReason>,
    callbacks: Mutex<Vec<Callback>>,
}

impl Stop {
    /// Asks the call to end. Returns when all callbacks have run, which happens on this thread.
    pub fn request(&self, reason: StopReason) {
        let callbacks = {
            let mut callbacks = self.0.callbacks.lock();
            if self.0.reason.set(reason).is_err() {
                return;
            }
            std::mem::take(&mut *callbacks)
        };
        for callback in callbacks {
            callback(reason);
        }
    }

    /// Returns the reason why the call must end, or `None` if no stop was requested.
    pub fn requested(&self) -> Option<StopReason> {
        self.0.reason.get().copied()
    }

    /// Runs `callback` when a stop is requested, or at once if it was requested before. Callbacks
    /// must not block.
    pub fn on_request(&self, callback: impl FnOnce(StopReason) + Send + 'static) {
        let reason = {
            let mut callbacks = self.0.callbacks.lock();
            let Some(reason) = self.requested() else {
                callbacks.push(Box::new(callback));
                return;
            };
            reason
        };
        callback(reason);
    }

    /// Returns an error if a stop was requested. Meant for loops.
    pub fn check(&self) -> Result<(), ToolError> {
        match self.requested() {
            None => Ok(()),
            Some(reason) => Err(reason.into()),
        }
    }
}

impl From<StopReason> for ToolError {
    fn from(reason: StopReason) -> Self {
        match reason {
            StopReason::Deadline => {
                ToolError::new(Code::Timeout, "the call did not finish before its deadline")
            }
            StopReason::Cancelled => ToolError::new(Code::Cancelled, "the caller cancelled the call"),
        }
    }
}

impl std::fmt::Debug for Stop {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Stop").field(&self.requested()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn a_callback_runs_once_whether_registered_before_or_after_the_request() {
        let runs = Arc::new(AtomicUsize::new(0));
        let stop = Stop::default();
        let count = |runs: &Arc<AtomicUsize>| {
            let runs = runs.clone();
            move |_| {
                runs.fetch_add(1, Ordering::SeqCst);
            }
        };
        stop.on_request(count(&runs));
        assert_eq!(runs.load(Ordering::SeqCst), 0);
        stop.request(StopReason::Cancelled);
        stop.request(StopReason::Deadline);
        assert_eq!(runs.load(Ordering::SeqCst), 1);
        stop.on_request(count(&runs));
        assert_eq!(runs.load(Ordering::SeqCst), 2);
        assert_eq!(stop.requested(), Some(StopReason::Cancelled));
    }
}
