//! Clocks under the control of a test.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use tool::Clock;

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

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        self.0
    }
}
