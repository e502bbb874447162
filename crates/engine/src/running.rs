//! Table of running calls.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tool::{CallId, Stop, StopReason};

/// Running calls of one engine.
#[derive(Default)]
pub(crate) struct RunningCalls {
    stops: Mutex<HashMap<CallId, Stop>>,
    ended: Notify,
}

/// Entry of a running call, which is removed when it is dropped.
pub(crate) struct RunningCall {
    all: Arc<RunningCalls>,
    call: CallId,
}

impl RunningCalls {
    /// Enters a call, with the signal that stops it.
    pub(crate) fn enter(self: &Arc<Self>, call: CallId, stop: Stop) -> RunningCall {
        self.stops.lock().insert(call.clone(), stop);
        RunningCall { all: self.clone(), call }
    }

    /// Returns the number of running calls.
    pub(crate) fn count(&self) -> usize {
        self.stops.lock().len()
    }

    /// Stops every call, and waits until all have ended.
    pub(crate) async fn stop_all(&self) {
        loop {
            let ended = self.ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            let stops: Vec<Stop> = {
                let running = self.stops.lock();
                running.values().cloned().collect()
            };
            if stops.is_empty() {
                return;
            }
            for stop in stops {
                stop.request(StopReason::Cancelled);
            }
            ended.await;
        }
    }
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        self.all.stops.lock().remove(&self.call);
        self.all.ended.notify_waiters();
    }
}
