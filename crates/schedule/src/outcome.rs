//! The state of a job after its firings: delays after failures, and the end after too many.

use std::time::Duration;

/// Delay after the first failure of a firing. Each further one doubles it. Services that are restarted are
/// mostly back within this time.
const FIRST_DELAY: Duration = Duration::from_secs(30);
/// Longest delay after failures: that of the most common interval, so that no retry waits much longer than
/// the next firing would.
pub const MAX_DELAY: Duration = Duration::from_hours(1);

/// State of a job, as its outcomes have made it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JobState {
    /// Number of failures since the last success.
    pub failures: u32,
    /// Reason why the job is disabled, if it is.
    pub disabled: Option<String>,
}

/// Returns the state after a firing that succeeded.
#[must_use]
pub fn after_success(_state: &JobState) -> JobState {
    JobState::default()
}

/// Returns the state after a firing that failed, and the delay until it is tried again; `None` if it is
/// not. A firing has `retries` retries. A job is disabled after `most` failures in a row; 0 for never.
#[must_use]
pub fn after_failure(
    state: &JobState,
    reason: &str,
    attempt: u32,
    retries: u32,
    most: u32,
) -> (JobState, Option<Duration>) {
    let failures = state.failures.saturating_add(1);
    let is_last = most > 0 && failures >= most;
    let disabled = is_last.then(|| format!("{failures} failures in a row, the last: {reason}"));
    let delay = FIRST_DELAY.saturating_mul(2_u32.saturating_pow(attempt)).min(MAX_DELAY);
    let again = (!is_last && attempt < retries).then_some(delay);
    (JobState { failures, disabled }, again)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_delay_more_and_more_and_disable_in_the_end() {
        let mut state = JobState::default();
        let mut delays = Vec::new();
        for attempt in 0..4 {
            let (next, delay) = after_failure(&state, "it broke", attempt, 3, 6);
            state = next;
            delays.push(delay.map(|delay| delay.as_secs()));
        }
        assert_eq!(delays, [Some(30), Some(60), Some(120), None]);
        assert_eq!((state.failures, &state.disabled), (4, &None));
        let (state, _) = after_failure(&state, "it broke", 0, 3, 6);
        let (state, delay) = after_failure(&state, "it broke", 1, 3, 6);
        assert_eq!(delay, None);
        assert_eq!(state.disabled.as_deref(), Some("6 failures in a row, the last: it broke"));
        assert_eq!(after_success(&state), JobState::default());
        let (never, _) = after_failure(&state, "again", 0, 0, 0);
        assert_eq!(never.disabled, None);
        assert_eq!(after_failure(&state, "late", 40, 99, 0).1, Some(MAX_DELAY));
    }
}
