//! A call that was stopped ends, whatever it waits for.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};

use tool::{EffectState, Stop, ToolError};

/// The work's result, or the stop that was requested meanwhile. `began` says whether a request has begun that may change something.
///
/// # Errors
/// What the work says; `ETIMEOUT` or `ECANCELLED` where the call was stopped.
pub async fn unless_stopped<T>(
    stop: &Stop,
    began: &AtomicBool,
    work: impl Future<Output = Result<T, ToolError>>,
) -> Result<T, ToolError> {
    let mut work = pin!(work);
    let waiting: Arc<Mutex<Option<Waker>>> = Arc::default();
    let woken = waiting.clone();
    stop.on_request(move |_| {
        if let Some(waker) = woken.lock().unwrap_or_else(PoisonError::into_inner).take() {
            waker.wake();
        }
    });
    std::future::poll_fn(|context| {
        // First who is to be woken, then whether there is a reason by now.
        *waiting.lock().unwrap_or_else(PoisonError::into_inner) = Some(context.waker().clone());
        if let Some(reason) = stop.requested() {
            let error = ToolError::from(reason);
            let unsure = began.load(Ordering::SeqCst);
            return Poll::Ready(Err(if unsure { error.effect(EffectState::Maybe) } else { error }));
        }
        work.as_mut().poll(context)
    })
    .await
}
