//! Decisions about the life of a server's process: when a failed one may start again, and when an idle one
//! ends. Pure: the caller hands in the time, and acts.

use std::time::{Duration, Instant};

/// Rules for starting a server again after a failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackoffRules {
    /// Wait after the first failure. Each further one doubles it.
    pub first: Duration,
    /// Longest wait.
    pub longest: Duration,
    /// Time that a server must have run for its earlier failures to be forgotten.
    pub steady: Duration,
    /// Number of failures in a row after which the server is not started again by itself.
    pub most: u32,
}

impl Default for BackoffRules {
    fn default() -> Self {
        Self {
            first: Duration::from_millis(500),
            longest: Duration::from_mins(1),
            steady: Duration::from_mins(1),
            most: 6,
        }
    }
}

/// Decision about a server that is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartDecision {
    /// The server may start now.
    Now,
    /// The server may start after this wait.
    After(Duration),
    /// The server failed too often, and stays down until [`Restarts::forgive`].
    Quarantined {
        /// Number of failures in a row.
        failures: u32,
    },
}

/// Failures of one server.
#[derive(Debug, Clone, Default)]
pub struct Restarts {
    failures: u32,
    started: Option<Instant>,
    not_before: Option<Instant>,
}

impl Restarts {
    /// Decides whether the server may start.
    pub fn decide(&self, rules: &BackoffRules, now: Instant) -> StartDecision {
        if self.failures >= rules.most {
            return StartDecision::Quarantined { failures: self.failures };
        }
        match self.not_before.map(|moment| moment.saturating_duration_since(now)) {
            Some(wait) if !wait.is_zero() => StartDecision::After(wait),
            _ => StartDecision::Now,
        }
    }

    /// Notes that the server was started.
    pub fn started(&mut self, now: Instant) {
        self.started = Some(now);
    }

    /// Notes that the server failed: it did not start, closed midway, or broke the protocol. `jitter`
    /// is a random number below 1,000, which spreads the restarts of servers that failed together.
    pub fn failed(&mut self, rules: &BackoffRules, now: Instant, jitter: u32) {
        let ran = self.started.take().map(|started| now.saturating_duration_since(started));
        if ran.is_some_and(|ran| ran >= rules.steady) {
            self.failures = 0;
        }
        let doubled = 1_u32.checked_shl(self.failures.min(31)).unwrap_or(u32::MAX);
        let wait = rules.first.saturating_mul(doubled).min(rules.longest);
        let wait = wait.saturating_add((wait / 4_000).saturating_mul(jitter.min(1_000)));
        self.failures = self.failures.saturating_add(1);
        self.not_before = now.checked_add(wait);
    }

    /// Notes that the server ended because nobody needed it any longer.
    pub fn ended(&mut self) {
        *self = Self::default();
    }

    /// Forgets all failures, on a human's word or after a change of the configuration.
    pub fn forgive(&mut self) {
        *self = Self { started: self.started, ..Self::default() };
    }
}

/// Rules for ending a server that works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecycleRules {
    /// Time without a call after which the server ends.
    pub idle: Duration,
    /// Time after which the server ends as soon as no call runs, against memory that it leaks.
    pub lifetime: Duration,
}

impl Default for RecycleRules {
    fn default() -> Self {
        Self { idle: Duration::from_mins(10), lifetime: Duration::from_hours(12) }
    }
}

/// Use of a server until now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerUse {
    /// Moment of the start.
    pub started: Instant,
    /// Moment at which the last call ended; the start if there was none.
    pub last_used: Instant,
    /// Number of calls that run.
    pub running: usize,
}

/// Decision about a server that runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecycleDecision {
    /// The server stays; nothing changes before this time has passed, unless a call ends.
    Keep(Duration),
    /// The server was not used for too long.
    EndIdle,
    /// The server has lived long enough.
    EndOld,
}

/// Decides whether a server that runs should end. A server with a running call stays.
pub fn recycle(rules: &RecycleRules, used: &ServerUse, now: Instant) -> RecycleDecision {
    let idle = now.saturating_duration_since(used.last_used);
    let age = now.saturating_duration_since(used.started);
    if used.running > 0 {
        return RecycleDecision::Keep(rules.idle);
    }
    if age >= rules.lifetime {
        return RecycleDecision::EndOld;
    }
    if idle >= rules.idle {
        return RecycleDecision::EndIdle;
    }
    RecycleDecision::Keep(rules.idle.saturating_sub(idle).min(rules.lifetime.saturating_sub(age)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_their_bound_and_end_in_quarantine() {
        let rules = BackoffRules { most: 9, ..BackoffRules::default() };
        let mut restarts = Restarts::default();
        let mut now = Instant::now();
        let mut waits = Vec::new();
        for _ in 0..9 {
            assert_eq!(restarts.decide(&rules, now), StartDecision::Now);
            restarts.started(now);
            restarts.failed(&rules, now, 0);
            if let StartDecision::After(wait) = restarts.decide(&rules, now) {
                waits.push(wait.as_millis());
                now += wait;
            }
        }
        assert_eq!(waits, [500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000]);
        assert_eq!(restarts.decide(&rules, now), StartDecision::Quarantined { failures: 9 });
        restarts.forgive();
        assert_eq!(restarts.decide(&rules, now), StartDecision::Now);
    }

    #[test]
    fn a_server_that_ran_long_enough_starts_from_the_first_wait() {
        let rules = BackoffRules::default();
        let mut restarts = Restarts::default();
        let now = Instant::now();
        for _ in 0..5 {
            restarts.failed(&rules, now, 0);
        }
        restarts.started(now);
        restarts.failed(&rules, now + rules.steady, 0);
        assert_eq!(restarts.decide(&rules, now + rules.steady), StartDecision::After(rules.first));
    }

    #[test]
    fn jitter_adds_at_most_a_quarter() {
        let rules = BackoffRules::default();
        let now = Instant::now();
        let wait = |jitter| {
            let mut restarts = Restarts::default();
            restarts.failed(&rules, now, jitter);
            restarts.decide(&rules, now)
        };
        assert_eq!(wait(0), StartDecision::After(Duration::from_millis(500)));
        assert_eq!(wait(1_000), StartDecision::After(Duration::from_millis(625)));
        assert_eq!(wait(u32::MAX), wait(1_000));
    }

    #[test]
    fn idle_and_old_servers_end_and_busy_ones_stay() {
        let rules = RecycleRules { idle: Duration::from_secs(10), lifetime: Duration::from_secs(100) };
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let used = |last: u64, running| ServerUse { started: start, last_used: after(last), running };
        assert_eq!(recycle(&rules, &used(0, 0), after(4)), RecycleDecision::Keep(Duration::from_secs(6)));
        assert_eq!(recycle(&rules, &used(0, 0), after(10)), RecycleDecision::EndIdle);
        assert_eq!(recycle(&rules, &used(0, 1), after(1_000)), RecycleDecision::Keep(rules.idle));
        assert_eq!(recycle(&rules, &used(99, 0), after(100)), RecycleDecision::EndOld);
        assert_eq!(recycle(&rules, &used(95, 0), after(97)), RecycleDecision::Keep(Duration::from_secs(3)));
    }
}
