use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::{Code, ToolError};

/// Why a call must end now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// Its deadline passed.
    Deadline,
    /// The caller cancelled it, or went away.
    Cancelled,
}

/// The signal that ends a call early.
///
/// The engine requests, the tool notices: in a loop with [`Stop::check`], or by a callback that kills what it waits for.
/// A stop is requested once; a later request changes nothing.
#[derive(Clone, Default)]
pub struct Stop(Arc<Shared>);

type Callback = Box<dyn FnOnce(StopReason) + Send>;

#[derive(Default)]
struct Shared {
    /// Set under the lock of the callbacks and read without it: loops ask at every step.
    reason: OnceLock<StopReason>,
    callbacks: Mutex<Vec<Callback>>,
}

impl Stop {
    /// Asks the call to end. Returns at once; callbacks run on this thread.
    pub fn request(&self, reason: StopReason) {
        let callbacks = {
            let mut callbacks = self.0.callbacks.lock().unwrap_or_else(PoisonError::into_inner);
            if self.0.reason.set(reason).is_err() {
                return;
            }
            std::mem::take(&mut *callbacks)
        };
        for callback in callbacks {
            callback(reason);
        }
    }

    /// Why the call must end, if it must.
    pub fn requested(&self) -> Option<StopReason> {
        self.0.reason.get().copied()
    }

    /// Runs `callback` when a stop is requested, at once if it was already. Callbacks must not block.
    pub fn on_request(&self, callback: impl FnOnce(StopReason) + Send + 'static) {
        let reason = {
            let mut callbacks = self.0.callbacks.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(reason) = self.requested() else {
                callbacks.push(Box::new(callback));
                return;
            };
            reason
        };
        callback(reason);
    }

    /// For loops: an error as soon as a stop was requested.
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
