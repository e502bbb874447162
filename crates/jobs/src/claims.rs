//! Claims of the firings that are due, and their ends.

use std::path::Path;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use schedule::{JobState, Open, after_failure, after_success, plan};
use store_api::{
    AfterAttempt, AttemptEnd, Claim, Claimer, Due, Firing, OpenFirings, ScheduleRow, Store, StoreError,
};

use crate::{JobRules, restored};

/// Time for which a claim holds without a renewal. A runner that is killed leaves its firings for so long.
const LEASE: SignedDuration = SignedDuration::from_secs(60);

/// End of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptOutcome {
    /// True if the attempt has succeeded.
    pub succeeded: bool,
    /// Outcome, for people.
    pub outcome: String,
    /// Reference of the whole output.
    pub output: Option<String>,
}

/// The claims of one process on the firings of one workspace. Each method blocks, and returns an error if
/// the state cannot be read or written.
#[derive(Clone)]
pub struct Claims {
    store: Arc<dyn Store>,
    claimer: Claimer,
}

impl Claims {
    /// Time between two renewals of a claim.
    pub const RENEW_EVERY: std::time::Duration = std::time::Duration::from_secs(15);

    /// Creates the claims of an owner, such as a process.
    pub fn new(store: Arc<dyn Store>, owner: String, workspace: &Path) -> Self {
        let claimer = Claimer { owner, workspace: workspace.to_owned(), lease: LEASE, most: 1 };
        Self { store, claimer }
    }

    /// Returns the claimer.
    pub fn claimer(&self) -> &Claimer {
        &self.claimer
    }

    /// Returns the time at which there is something to claim.
    pub fn next(&self) -> Result<Option<Timestamp>, StoreError> {
        self.store.schedules().next_claim(&self.claimer.workspace)
    }

    /// Claims what is due, about `most` firings, with the schedule of each.
    pub fn due(&self, now: Timestamp, most: usize) -> Result<Vec<(ScheduleRow, Firing)>, StoreError> {
        let schedules = self.store.schedules();
        let claimer = Claimer { most, ..self.claimer.clone() };
        let claimed = schedules.claim_due(&claimer, now, &|row, open| due(row, open, now))?;
        let mut found = Vec::with_capacity(claimed.len());
        for firing in claimed {
            // A schedule that was removed meanwhile has taken its firings with it.
            if let Some(row) = schedules.find(&firing.claim.schedule)? {
                found.push((row, firing));
            }
        }
        Ok(found)
    }

    /// Extends a claim; returns false if it is void, so that its attempt must stop.
    pub fn renew(&self, claim: &Claim, now: Timestamp) -> Result<bool, StoreError> {
        let until = now.checked_add(self.claimer.lease).unwrap_or(Timestamp::MAX);
        self.store.schedules().renew(claim, until)
    }

    /// Records the end of an attempt, and plans the next one by the rules of the job. Returns false if the
    /// claim is void.
    pub fn finish(&self, claim: &Claim, ended: &AttemptOutcome, now: Timestamp) -> Result<bool, StoreError> {
        let AttemptOutcome { succeeded, outcome, output } = ended.clone();
        let end = AttemptEnd { succeeded, outcome, output };
        self.store.schedules().finish(claim, &end, now, &|row, firing| after(row, firing, ended, now))
    }
}

/// Returns the rules of a job. Rows of a later version may have others, which do not count here.
pub(crate) fn rules(row: &ScheduleRow) -> JobRules {
    serde_json::from_str(&row.rules).unwrap_or_default()
}

fn due(row: &ScheduleRow, open: OpenFirings, now: Timestamp) -> Due {
    let Some(first) = row.next_at else { return Due::default() };
    let Ok(schedule) = restored(row) else {
        // The one firing fails with the reason, and disables the schedule.
        return Due { fire: vec![first], ..Due::default() };
    };
    let open = Open { running: open.running, queued: open.queued };
    let plan = plan(&schedule, first, now, open, &rules(row).of_times());
    Due { fire: plan.fire, queue: plan.queue, next_at: plan.next_at }
}

fn after(row: &ScheduleRow, firing: &Firing, ended: &AttemptOutcome, now: Timestamp) -> AfterAttempt {
    if let Err(error) = restored(row) {
        let failures = row.failures.saturating_add(1);
        return AfterAttempt { failures, retry_at: None, disabled: Some(error.to_string()) };
    }
    let state = JobState { failures: row.failures, disabled: None };
    let (state, delay) = if ended.succeeded {
        (after_success(&state), None)
    } else {
        let JobRules { retries, max_failures, .. } = rules(row);
        after_failure(&state, &ended.outcome, firing.attempt, retries, max_failures)
    };
    let retry_at = delay.and_then(|delay| now.checked_add(delay).ok());
    AfterAttempt { failures: state.failures, retry_at, disabled: state.disabled }
}
