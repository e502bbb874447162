//! Clocks under the control of a test.

use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use tool::{BoxFuture, Clock, Timer};

/// A clock that always returns the same time.
#[derive(Debug, Clone, Copy)]
pub struct FixedClock(pub Timestamp);

impl Default for FixedClock {
    /// Returns a clock at 1 January 2026, midnight UTC.
    fn default() -> Self {
        Self(Timestamp::constant(1_767_225_600, 0))
    }
}

/// A wall clock that a test advances. Clones share the time.
#[derive(Debug, Clone, Default)]
pub struct MovingClock(Arc<Mutex<SignedDuration>>);

impl MovingClock {
    /// Advances the clock.
    pub fn advance(&self, by: SignedDuration) {
        let mut passed = self.0.lock();
        *passed = passed.saturating_add(by);
    }
}

impl Clock for MovingClock {
    fn now(&self) -> Timestamp {
        FixedClock::default().0 + *self.0.lock()
    }
}

/// A timer that a test advances. Clones share the time, which does not pass by itself.
#[derive(Debug, Clone)]
pub struct MovingTimer(Arc<Waits>);

#[derive(Debug)]
struct Waits {
    began: Instant,
    state: Mutex<WaitState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct WaitState {
    passed: Duration,
    /// Waits in the order of their beginnings, with the moment since the beginning of the timer.
    waiting: BTreeMap<u64, (Duration, Waker)>,
    begun: u64,
}

/// One wait for a moment.
struct Wait {
    of: Arc<Waits>,
    moment: Duration,
    number: u64,
}

impl Default for MovingTimer {
    fn default() -> Self {
        let (began, state) = (Instant::now(), Mutex::default());
        Self(Arc::new(Waits { began, state, changed: Condvar::new() }))
    }
}

impl MovingTimer {
    /// Waits until somebody waits for a moment within `by`, then advances the timer by that
    /// duration. Blocks.
    pub fn advance(&self, by: Duration) {
        let mut state = self.0.state();
        while !state.waiting.values().any(|(moment, _)| *moment <= state.passed + by) {
            self.0.changed.wait(&mut state);
        }
        state.passed += by;
        let passed = state.passed;
        let reached: Vec<_> = state.waiting.extract_if(.., |_, (moment, _)| *moment <= passed).collect();
        drop(state);
        for (_, (_, waker)) in reached {
            waker.wake();
        }
    }
}

impl Waits {
    fn state(&self) -> MutexGuard<'_, WaitState> {
        self.state.lock()
    }
}

impl Timer for MovingTimer {
    fn now(&self) -> Instant {
        self.0.began + self.0.state().passed
    }

    fn sleep_until(&self, moment: Instant) -> BoxFuture<'static, ()> {
        let mut state = self.0.state();
        state.begun += 1;
        let moment = moment.saturating_duration_since(self.0.began);
        Box::pin(Wait { of: self.0.clone(), moment, number: state.begun })
    }
}

impl Future for Wait {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.of.state();
        if self.moment <= state.passed {
            return Poll::Ready(());
        }
        state.waiting.insert(self.number, (self.moment, context.waker().clone()));
        self.of.changed.notify_all();
        Poll::Pending
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        self.of.state().waiting.remove(&self.number);
    }
}

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        self.0
    }
}
