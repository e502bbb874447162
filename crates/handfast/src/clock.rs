//! The machine's clock.

use jiff::Timestamp;
use tool::Clock;

/// The machine's clock.
pub(crate) struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the clock that everything else goes through")]
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}
