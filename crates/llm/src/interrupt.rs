//! Waiting that a stop or an alarm ends.

use std::pin::{Pin, pin};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use tool::{BoxFuture, Stop, StopReason};

/// Stop of a caller, as something to wait for.
pub(crate) struct StopWatch<'a> {
    stop: &'a Stop,
    waker: Arc<Mutex<Option<Waker>>>,
}

/// Reason why a wait ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interrupt {
    /// The caller stopped.
    Stopped(StopReason),
    /// The alarm went off; the number is its place in the list.
    Alarm(usize),
}

impl<'a> StopWatch<'a> {
    /// Watches a stop.
    pub(crate) fn new(stop: &'a Stop) -> Self {
        let waker: Arc<Mutex<Option<Waker>>> = Arc::default();
        // A stop keeps its callbacks, and serves many requests of one call.
        let weak: Weak<_> = Arc::downgrade(&waker);
        stop.on_request(move |_| {
            let waker = weak.upgrade().and_then(|waker| waker.lock().take());
            if let Some(waker) = waker {
                waker.wake();
            }
        });
        Self { stop, waker }
    }

    /// Waits for `work`, unless the stop or one of the alarms comes first. Work is not begun after a stop. Work
    /// that is done counts as done, whatever else has happened meanwhile; a stop counts before an alarm.
    pub(crate) async fn wait<T>(
        &self,
        work: impl Future<Output = T>,
        alarms: &mut [BoxFuture<'static, ()>],
    ) -> Result<T, Interrupt> {
        if let Some(reason) = self.stop.requested() {
            return Err(Interrupt::Stopped(reason));
        }
        let mut work = pin!(work);
        std::future::poll_fn(|context| self.poll(work.as_mut(), alarms, context)).await
    }

    fn poll<T>(
        &self,
        work: Pin<&mut impl Future<Output = T>>,
        alarms: &mut [BoxFuture<'static, ()>],
        context: &mut Context<'_>,
    ) -> Poll<Result<T, Interrupt>> {
        if let Poll::Ready(done) = work.poll(context) {
            return Poll::Ready(Ok(done));
        }
        *self.waker.lock() = Some(context.waker().clone());
        if let Some(reason) = self.stop.requested() {
            return Poll::Ready(Err(Interrupt::Stopped(reason)));
        }
        for (place, alarm) in alarms.iter_mut().enumerate() {
            if alarm.as_mut().poll(context).is_ready() {
                return Poll::Ready(Err(Interrupt::Alarm(place)));
            }
        }
        Poll::Pending
    }
}
