//! The machine's timer.

use std::time::Instant;

use tool::{BoxFuture, Timer};

/// Timer of the async runtime.
#[derive(Debug, Clone, Copy, Default)]
pub struct TokioTimer;

impl Timer for TokioTimer {
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn sleep_until(&self, moment: Instant) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep_until(moment.into()))
    }
}
