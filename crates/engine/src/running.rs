//! Table of running calls.

use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::Notify;
use tool::{CallId, Owner, Stop, StopReason};

use crate::resources::Resources;

/// Running calls of one engine.
#[derive(Default)]
pub(crate) struct RunningCalls {
    stops: Mutex<HashMap<CallId, Stop>>,
    ended: Notify,
}

/// Entry of a running call, which is removed when it is dropped.
pub(crate) struct RunningCall {
    all: Arc<RunningCalls>,
    /// Resources, some of which may end with the call.
    resources: Arc<Resources>,
    call: CallId,
}

impl RunningCalls {
    /// Enters a call, with the signal that stops it.
    pub(crate) fn enter(
        self: &Arc<Self>,
        call: CallId,
        stop: Stop,
        resources: &Arc<Resources>,
    ) -> RunningCall {
        self.stops().insert(call.clone(), stop);
        RunningCall { all: self.clone(), resources: resources.clone(), call }
    }

    /// Returns the number of running calls.
    pub(crate) fn count(&self) -> usize {
        self.stops().len()
    }

    /// Stops every call, and waits until all have ended.
    pub(crate) async fn stop_all(&self) {
        loop {
            let ended = self.ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            if !self.stop() {
                return;
            }
            ended.await;
        }
    }

    /// Stops every call without waiting. Returns true if calls are running.
    pub(crate) fn stop(&self) -> bool {
        let stops: Vec<Stop> = self.stops().values().cloned().collect();
        for stop in &stops {
            stop.request(StopReason::Cancelled);
        }
        !stops.is_empty()
    }

    fn stops(&self) -> MutexGuard<'_, HashMap<CallId, Stop>> {
        self.stops.lock()
    }
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        self.all.stops().remove(&self.call);
        self.resources.stop(&Owner::Call(self.call.clone()));
        self.all.ended.notify_waiters();
    }
}
