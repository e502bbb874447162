use jiff::Timestamp;
use tool::Clock;

/// A clock that stands.
#[derive(Debug, Clone, Copy)]
pub struct FixedClock(pub Timestamp);

impl Default for FixedClock {
    /// 1 January 2026, midnight UTC.
    fn default() -> Self {
        Self(Timestamp::constant(1_767_225_600, 0))
    }
}

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        self.0
    }
}
