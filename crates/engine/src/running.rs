//! The running calls, and the end of a session and of a runtime.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};

use tool::{CallId, Owner, SessionId, Stop, StopReason};

use crate::Engine;

/// A running call, as [`Engine::shutdown`] sees it.
pub(crate) struct RunningCall {
    engine: Arc<Engine>,
    call: CallId,
}

impl RunningCall {
    pub(crate) fn enter(engine: Arc<Engine>, call: CallId, stop: Stop) -> Self {
        engine.running().insert(call.clone(), stop);
        Self { engine, call }
    }
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        self.engine.running().remove(&self.call);
        self.engine.resources.stop(&Owner::Call(self.call.clone()));
        self.engine.ended.notify_waiters();
    }
}

impl Engine {
    /// Stops every call and waits until each has ended and is recorded. Then ends everything that
    /// outlives calls, and waits until the output of commands is stored. Later calls are refused.
    pub async fn shutdown(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.stop_calls().await;
        self.end(Owner::Runtime).await;
        self.denied.settle();
    }

    /// Stops every call, and ends everything that outlives calls, without an async runtime. Blocks
    /// until the latter has ended; calls end soon. Later calls are refused.
    pub fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        let stops: Vec<Stop> = self.running().values().cloned().collect();
        stops.iter().for_each(|stop| stop.request(StopReason::Cancelled));
        self.resources.end(&Owner::Runtime);
    }

    /// Ends a session's background commands, waits until their output is stored, releases the rest.
    pub async fn end_session(&self, session: &SessionId) {
        self.end(Owner::Session(session.clone())).await;
    }

    async fn end(&self, owner: Owner) {
        let resources = self.resources.clone();
        // If the task panics, the remaining resources end with the program.
        let _ = tokio::task::spawn_blocking(move || resources.end(&owner)).await;
    }

    async fn stop_calls(&self) {
        loop {
            let ended = self.ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            let stops: Vec<Stop> = self.running().values().cloned().collect();
            if stops.is_empty() {
                self.removals.wait().await;
                if let Some(snapshots) = &self.snapshots {
                    snapshots.put_away();
                }
                return;
            }
            for stop in stops {
                stop.request(StopReason::Cancelled);
            }
            ended.await;
        }
    }

    pub(crate) fn running(&self) -> MutexGuard<'_, HashMap<CallId, Stop>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // Nothing is left to do after a shutdown.
        self.close();
    }
}
