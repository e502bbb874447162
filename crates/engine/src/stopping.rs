//! Running a tool until it ends or is stopped.

use std::sync::Arc;

use tokio::task::JoinHandle;
use tool::{Context, Data, PreparedCall, RunResult, Stop, StopReason};

/// Waits until a stop is requested.
pub(crate) async fn requested(stop: &Stop) -> StopReason {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    stop.on_request(move |reason| {
        // A send without a receiver has no effect, and needs none.
        let _ = sender.send(reason);
    });
    match receiver.await {
        Ok(reason) => reason,
        // The signal is dropped, so no stop can be requested any more.
        Err(_) => std::future::pending().await,
    }
}

/// Starts a tool that runs until it ends or is stopped, even if its caller goes away.
pub(crate) fn start(prepared: PreparedCall, context: Arc<Context>) -> JoinHandle<RunResult<Data>> {
    if prepared.only_waits {
        return tokio::spawn(async move { prepared.run(&context).await });
    }
    let runtime = tokio::runtime::Handle::current();
    // Tools may block, so each gets its own thread. The thread belongs to the runtime, so it ends
    // with the process at the latest.
    tokio::task::spawn_blocking(move || runtime.block_on(async { prepared.run(&context).await }))
}

/// Guard that requests a stop when it is dropped, unless it was disarmed. A caller that goes away
/// stops its call.
pub(crate) struct StopOnDrop(pub(crate) Option<Stop>);

impl StopOnDrop {
    pub(crate) fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        if let Some(stop) = &self.0 {
            stop.request(StopReason::Cancelled);
        }
    }
}
