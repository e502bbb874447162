//! Ids of calls.

use tool::{CallId, Clock};

/// Builds an id that sorts by time: 12 hexadecimal digits of milliseconds, 10 random ones.
pub(crate) fn new_call_id(clock: &dyn Clock) -> CallId {
    let mut chance = [0_u8; 5];
    // Without the system's random source, the time distinguishes a process's calls well enough.
    let _ = getrandom::fill(&mut chance);
    let chance = chance.iter().fold(0_u64, |all, byte| all << 8 | u64::from(*byte));
    CallId(format!("{:012x}{chance:010x}", clock.now().as_millisecond().max(0)))
}
