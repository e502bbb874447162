//! Rules for instants that nobody was there for, and for the begin of a firing in its minute.

use std::time::Duration;

use jiff::Timestamp;

use crate::schedule::Schedule;

/// Rule for instants that were missed, because nothing ran at that time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Misfire {
    /// Missed instants are left out.
    Skip,
    /// The last of them is made up for, once.
    #[default]
    Once,
    /// The last of them are made up for, at most this many.
    UpTo(usize),
}

/// Rule for an instant while an earlier firing still runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Overlap {
    /// The instant is left out.
    #[default]
    Skip,
    /// The firing waits until the earlier one has ended.
    Queue,
    /// Both run.
    Allow,
}

/// Maximum number of instants that are looked at after a pause. After a longer one, the latest count.
const LOOKED_AT: usize = 10_000;

/// Returns the instants to fire now, oldest first: those after `last` up to `now`, by the rule. An instant
/// that is less than `grace` ago was not missed, and fires under every rule.
pub fn missed(
    schedule: &Schedule,
    last: Timestamp,
    now: Timestamp,
    grace: Duration,
    misfire: Misfire,
) -> Vec<Timestamp> {
    let mut due: Vec<Timestamp> =
        schedule.next_ones(last, LOOKED_AT).into_iter().take_while(|instant| *instant <= now).collect();
    let Some(latest) = due.last().copied() else { return Vec::new() };
    if due.len() == LOOKED_AT {
        // The pause was long; the instants just before now are those that count.
        due = latest_before(schedule, latest, now);
    }
    let is_on_time = |instant: &Timestamp| {
        Duration::try_from(now.duration_since(*instant)).is_ok_and(|late| late <= grace)
    };
    let on_time = due.iter().filter(|instant| is_on_time(instant)).count();
    let made_up = match misfire {
        Misfire::Skip => on_time,
        Misfire::Once => on_time.max(1),
        Misfire::UpTo(most) => on_time.max(most),
    };
    due.split_off(due.len().saturating_sub(made_up))
}

/// Returns the last instants up to `now`, found from a moment that halves its distance to `now`.
fn latest_before(schedule: &Schedule, from: Timestamp, now: Timestamp) -> Vec<Timestamp> {
    let mut from = from;
    loop {
        let due: Vec<Timestamp> =
            schedule.next_ones(from, LOOKED_AT).into_iter().take_while(|instant| *instant <= now).collect();
        if due.len() < LOOKED_AT {
            return due;
        }
        let half = now.duration_since(from) / 2;
        match from.checked_add(half) {
            Ok(later) if later > from => from = later,
            _ => return due,
        }
    }
}

/// Returns the delay of a firing, below `most`: the same for the same job and instant, and spread evenly
/// over jobs, so that jobs of one instant do not all begin at once.
pub fn jitter(job: &str, instant: Timestamp, most: Duration) -> Duration {
    // FNV-1a, a hash whose values are the same in every version (64 bits: offset and prime of its authors).
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in job.bytes().chain(instant.as_second().to_le_bytes()) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    // The low bits of this hash are those of its last byte alone.
    let spread = hash ^ (hash >> 32);
    let most = u64::try_from(most.as_millis()).unwrap_or(u64::MAX);
    if most == 0 { Duration::ZERO } else { Duration::from_millis(spread % most) }
}
