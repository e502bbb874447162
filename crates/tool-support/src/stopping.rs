//! Cancellation of a call during any wait.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, Waker};

use parking_lot::Mutex;
use tool::{EffectState, Stop, ToolError};

/// Returns the result of `work`, or the error of a stop that was requested meanwhile. `began` is
/// true once a request has begun that may change something.
///
/// # Errors
/// The error of `work`; `ETIMEOUT` or `ECANCELLED` if the call was stopped.
pub async fn unless_stopped<T>(
    stop: &Stop,
    began: &AtomicBool,
    work: impl Future<Output = Result<T, ToolError>>,
) -> Result<T, ToolError> {
    let mut work = pin!(work);
    let waiting: Arc<Mutex<Option<Waker>>> = Arc::default();
    let woken = waiting.clone();
    stop.on_request(move |_| {
        if let Some(waker) = woken.lock().take() {
            waker.wake();
        }
    });
    std::future::poll_fn(|context| {
        // Register the waker before the check, so that no stop request is lost in between.
        *waiting.lock() = Some(context.waker().clone());
        if let Some(reason) = stop.requested() {
            let error = ToolError::from(reason);
            let unsure = began.load(Ordering::SeqCst);
            return Poll::Ready(Err(if unsure { error.effect(EffectState::Maybe) } else { error }));
        }
        work.as_mut().poll(context)
    })
    .await
}
