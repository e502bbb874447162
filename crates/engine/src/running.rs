//! Table of running calls.

use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::Notify;
use tool::{CallId, Owner, Stop, StopReason};

use crate::Principal;
use crate::resources::Resources;

/// Running calls of one engine.
#[derive(Default)]
pub(crate) struct RunningCalls {
    calls: Mutex<HashMap<CallId, Entry>>,
    ended: Notify,
}

/// A running call.
struct Entry {
    stop: Stop,
    principal: Principal,
}

/// Entry of a running call, which is removed when it is dropped.
pub(crate) struct RunningCall {
    all: Arc<RunningCalls>,
    /// Resources, some of which may end with the call.
    resources: Arc<Resources>,
    call: CallId,
}

impl RunningCalls {
    /// Enters a call, with the signal that stops it and the principal that makes it.
    pub(crate) fn enter(
        self: &Arc<Self>,
        call: CallId,
        stop: Stop,
        principal: Principal,
        resources: &Arc<Resources>,
    ) -> RunningCall {
        self.calls().insert(call.clone(), Entry { stop, principal });
        RunningCall { all: self.clone(), resources: resources.clone(), call }
    }

    /// Returns the number of running calls.
    pub(crate) fn count(&self) -> usize {
        self.calls().len()
    }

    /// Returns the principal that makes a call; `None` if the call does not run.
    pub(crate) fn principal_of(&self, call: &CallId) -> Option<Principal> {
        self.calls().get(call).map(|entry| entry.principal.clone())
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
        let stops: Vec<Stop> = self.calls().values().map(|entry| entry.stop.clone()).collect();
        for stop in &stops {
            stop.request(StopReason::Cancelled);
        }
        !stops.is_empty()
    }

    fn calls(&self) -> MutexGuard<'_, HashMap<CallId, Entry>> {
        self.calls.lock()
    }
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        self.all.calls().remove(&self.call);
        self.resources.stop(&Owner::Call(self.call.clone()));
        self.all.ended.notify_waiters();
    }
}
