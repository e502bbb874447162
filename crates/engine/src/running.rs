//! Table of running calls.

use std::sync::Arc;

use tool::{CallId, Stop};

use crate::Engine;

/// A running call, as [`Engine::shutdown`] sees it.
pub(crate) struct RunningCall {
    engine: Arc<Engine>,
    call: CallId,
}

impl RunningCall {
    pub(crate) fn enter(engine: Arc<Engine>, call: CallId, stop: Stop) -> Self {
        engine.running.lock().insert(call.clone(), stop);
        Self { engine, call }
    }
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        self.engine.running.lock().remove(&self.call);
        self.engine.ended.notify_waiters();
    }
}
