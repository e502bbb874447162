//! Rules for instants that nobody was there for, and for the begin of a firing in its minute.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

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

/// Answer of the rule for overlaps to an instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// The firing begins.
    Now,
    /// The firing begins when the ones before it have ended.
    Later,
    /// The instant is left out.
    Never,
}

impl Overlap {
    /// Returns what becomes of an instant while `running` firings of its job run and `waiting` ones wait.
    /// One may wait: a job that takes longer than its interval would otherwise never catch up.
    pub fn decide(self, running: u32, waiting: u32) -> Start {
        match self {
            _ if running == 0 && waiting == 0 => Start::Now,
            Self::Allow => Start::Now,
            Self::Queue if waiting == 0 => Start::Later,
            Self::Queue | Self::Skip => Start::Never,
        }
    }
}

/// Maximum number of instants that are made up for, whatever the rule says.
const MOST_MADE_UP: usize = 1_000;

/// Returns the instants to fire now, oldest first: those after `last` up to `now`, by the rule. An instant
/// that is at most `grace` ago was not missed, and fires under every rule.
///
/// The effort depends on the number of instants that fire, and not on the length of the pause.
pub fn missed(
    schedule: &Schedule,
    last: Timestamp,
    now: Timestamp,
    grace: Duration,
    misfire: Misfire,
) -> Vec<Timestamp> {
    let grace = SignedDuration::try_from(grace).unwrap_or(SignedDuration::MAX);
    let made_up = match misfire {
        Misfire::Skip => 0,
        Misfire::Once => 1,
        Misfire::UpTo(most) => most.min(MOST_MADE_UP),
    };
    let mut looked_back = grace.saturating_add(SignedDuration::from_mins(1));
    loop {
        let from = now.checked_sub(looked_back).unwrap_or(Timestamp::MIN).max(last);
        let mut due = schedule.all_between(from, now);
        let on_time = due.iter().filter(|instant| now.duration_since(**instant) <= grace).count();
        let fire = on_time.max(made_up);
        if from == last || fire <= due.len() {
            return due.split_off(due.len().saturating_sub(fire));
        }
        looked_back = looked_back.saturating_add(looked_back);
    }
}

/// Rules of a job for instants that are due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// Time after an instant in which it counts as on time.
    pub grace: Duration,
    /// Rule for instants that were missed.
    pub misfire: Misfire,
    /// Rule for an instant while an earlier firing still runs.
    pub overlap: Overlap,
}

/// Firings of a job that have not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Open {
    /// Number of those that run, or are tried again later.
    pub running: u32,
    /// Number of those that wait for earlier ones.
    pub queued: u32,
}

/// Decision about the instants that are due, by the rules of their job.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// Instants whose firings begin now, the earliest first.
    pub fire: Vec<Timestamp>,
    /// Instants whose firings begin when those before them have ended.
    pub queue: Vec<Timestamp>,
    /// First instant that is not due yet.
    pub next_at: Option<Timestamp>,
}

/// Plans what happens at `now` to the instants from `first` on, none of which has fired.
///
/// Instants that are due together were far apart when they were missed, so they are no overlap of each
/// other: they run one after another, or all at once if the rule allows that.
pub fn plan(schedule: &Schedule, first: Timestamp, now: Timestamp, open: Open, rules: &Rules) -> Plan {
    let before = first.checked_sub(SignedDuration::from_nanos(1)).unwrap_or(first);
    let mut plan = Plan { next_at: schedule.next(now.max(before)), ..Plan::default() };
    let mut start = rules.overlap.decide(open.running, open.queued);
    for instant in missed(schedule, before, now, rules.grace, rules.misfire) {
        match start {
            Start::Now => plan.fire.push(instant),
            Start::Later => plan.queue.push(instant),
            Start::Never => {}
        }
        if start == Start::Now && rules.overlap != Overlap::Allow {
            start = Start::Later;
        }
    }
    plan
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
