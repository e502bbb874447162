use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use tool::{Context, Data, Prepared, Stop, StopReason, ToolError};

/// How long a caller stays awake for a read. The quickest reads take a third of it, waking a thread on an idle processor as much
/// again, and up to twice as much in a virtual machine; whoever falls asleep is woken for that price once more.
const MOMENT: Duration = Duration::from_micros(50);

/// Waits until a stop is requested.
pub(crate) async fn requested(stop: &Stop) -> StopReason {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    stop.on_request(move |reason| {
        // Nobody listens any more: then nobody needs to know.
        let _ = sender.send(reason);
    });
    match receiver.await {
        Ok(reason) => reason,
        // The signal itself is gone, so it will never be given.
        Err(_) => std::future::pending().await,
    }
}

/// Runs a tool, so that it goes on until it ends or is told to stop, whatever becomes of who waits for it.
///
/// For one that may be done in a moment the caller stays awake that long, so that it need not be woken; others may run meanwhile.
pub(crate) fn start(
    prepared: Prepared,
    context: Arc<Context>,
    in_a_moment: bool,
) -> JoinHandle<Result<Data, ToolError>> {
    if prepared.only_waits {
        return tokio::spawn(async move { prepared.run(&context).await });
    }
    let runtime = tokio::runtime::Handle::current();
    // A thread of its own: tools may block. It is the runtime's, so it ends with the process at the latest.
    let task = tokio::task::spawn_blocking(move || runtime.block_on(async { prepared.run(&context).await }));
    let until = Instant::now() + MOMENT;
    while in_a_moment && !task.is_finished() && Instant::now() < until {
        thread::yield_now();
    }
    task
}

/// Requests a stop when dropped, unless it was disarmed: a caller that goes away takes its call along.
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
