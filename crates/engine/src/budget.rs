//! Budgets of principals: how many calls they may still make, and until when.

use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tool::{Code, Retry, ToolError};

/// Part of a budget, or what is left of one. `None` sets no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Allowance {
    /// Number of calls.
    pub calls: Option<u64>,
    /// Time from now on, in which every call must end.
    pub time: Option<Duration>,
}

/// Budget of a principal. Clones share it.
///
/// A budget is only ever taken out of another one, and the calls that are left of it return there
/// with its last clone. The default sets no limit.
#[derive(Clone, Default)]
pub struct Budget(Option<Arc<Account>>);

struct Account {
    /// Name of the principal, for messages.
    whose: String,
    parent: Budget,
    /// Number of calls that are left.
    calls: Mutex<Option<u64>>,
    /// Time at which the budget ends, and the name of the principal who set it.
    ends: Option<(Timestamp, String)>,
}

impl Budget {
    /// Takes a budget for `whose` out of this one: as much as is wanted, and never more than is
    /// left.
    #[must_use]
    pub fn take(&self, whose: &str, wanted: Allowance, now: Timestamp) -> Budget {
        let own = wanted.time.and_then(|time| now.checked_add(SignedDuration::try_from(time).ok()?).ok());
        let own = own.map(|at| (at, whose.to_owned()));
        let of_parent = self.0.as_ref().and_then(|account| account.ends.clone());
        let ends = [own, of_parent].into_iter().flatten().min_by_key(|(at, _)| *at);
        let calls = match self.0.as_ref().map(|account| account.calls()) {
            Some(mut left) => match &mut *left {
                Some(left) => {
                    let taken = wanted.calls.unwrap_or(*left).min(*left);
                    *left -= taken;
                    Some(taken)
                }
                None => wanted.calls,
            },
            None => wanted.calls,
        };
        let whose = whose.to_owned();
        Budget(Some(Arc::new(Account { whose, parent: self.clone(), calls: Mutex::new(calls), ends })))
    }

    /// Returns what is left.
    pub fn left(&self, now: Timestamp) -> Allowance {
        let Some(account) = &self.0 else { return Allowance::default() };
        let until = |at: Timestamp| Duration::try_from(at.duration_since(now)).unwrap_or_default();
        Allowance { calls: *account.calls(), time: account.ends.as_ref().map(|(at, _)| until(*at)) }
    }

    /// Spends one call. Returns the time that is left for it, if that is limited.
    ///
    /// # Errors
    /// `EQUOTA` with the name of the principal whose budget is used up.
    pub(crate) fn spend_call(&self, now: Timestamp) -> Result<Option<Duration>, ToolError> {
        let Some(account) = &self.0 else { return Ok(None) };
        let time = self.left(now).time;
        if let Some((_, whose)) = account.ends.as_ref().filter(|(at, _)| *at <= now) {
            return Err(used_up(whose, "its time has passed"));
        }
        match &mut *account.calls() {
            Some(0) => return Err(used_up(&account.whose, "no calls are left")),
            Some(left) => *left -= 1,
            None => {}
        }
        Ok(time)
    }

    /// Returns a call that was spent and not made.
    pub(crate) fn return_call(&self) {
        self.add(1);
    }

    fn add(&self, returned: u64) {
        if let Some(account) = &self.0
            && let Some(left) = &mut *account.calls()
        {
            *left += returned;
        }
    }
}

impl Account {
    fn calls(&self) -> MutexGuard<'_, Option<u64>> {
        // Every change of the number is a single step.
        self.calls.lock()
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        let left = *self.calls();
        self.parent.add(left.unwrap_or(0));
    }
}

fn used_up(whose: &str, why: &str) -> ToolError {
    ToolError::new(Code::Quota, format!("the budget of {whose} is used up: {why}"))
        .hint("whoever set this budget must make the call, or set a larger one")
        .retry(Retry::Never)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn calls(calls: u64) -> Allowance {
        Allowance { calls: Some(calls), time: None }
    }

    fn seconds(seconds: u64) -> Allowance {
        Allowance { calls: None, time: Some(Duration::from_secs(seconds)) }
    }

    fn after(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    #[test]
    fn a_used_up_budget_says_whose_it_is() {
        let parent = Budget::default().take("the agent `lead`", calls(3), NOW);
        let child = parent.take("the agent `tester`", calls(1), NOW);
        assert_eq!(child.spend_call(NOW).unwrap(), None);
        let error = child.spend_call(NOW).unwrap_err();
        assert_eq!((error.code, error.retry), (Code::Quota, Retry::Never));
        assert_eq!(error.message, "the budget of the agent `tester` is used up: no calls are left");
        assert_eq!(parent.left(NOW), calls(2));
    }

    #[test]
    fn the_time_of_a_child_ends_with_that_of_its_parent_whose_name_the_error_has() {
        let parent = Budget::default().take("the agent `lead`", seconds(60), NOW);
        let child = parent.take("the agent `tester`", seconds(600), after(50));
        assert_eq!(child.spend_call(after(50)).unwrap(), Some(Duration::from_secs(10)));
        let error = child.spend_call(after(60)).unwrap_err();
        assert_eq!(error.message, "the budget of the agent `lead` is used up: its time has passed");
        let shorter = parent.take("the agent `tester`", seconds(5), NOW);
        let error = shorter.spend_call(after(5)).unwrap_err();
        assert_eq!(error.message, "the budget of the agent `tester` is used up: its time has passed");
    }

    #[test]
    fn calls_that_a_child_did_not_make_return_to_its_parent() {
        let parent = Budget::default().take("parent", calls(5), NOW);
        let child = parent.take("child", calls(4), NOW);
        let clone = child.clone();
        child.spend_call(NOW).unwrap();
        drop(child);
        assert_eq!(parent.left(NOW), calls(1), "a clone still has them");
        clone.return_call();
        drop(clone);
        assert_eq!(parent.left(NOW), calls(5));
    }

    #[derive(Debug, Clone)]
    enum Step {
        Take { from: usize, calls: Option<u64>, seconds: Option<u64> },
        Spend { from: usize },
        Drop { which: usize },
        Pass { seconds: u64 },
    }

    fn step() -> impl Strategy<Value = Step> {
        let taken = (0..8_usize, proptest::option::of(0..20_u64), proptest::option::of(0..50_u64));
        prop_oneof![
            taken.prop_map(|(from, calls, seconds)| Step::Take { from, calls, seconds }),
            (0..8_usize).prop_map(|from| Step::Spend { from }),
            (1..8_usize).prop_map(|which| Step::Drop { which }),
            (0..10_u64).prop_map(|seconds| Step::Pass { seconds }),
        ]
    }

    proptest! {
        #[test]
        fn a_child_never_has_more_than_its_parent_had_left(
            whole in 0..40_u64,
            time in 0..100_u64,
            steps in proptest::collection::vec(step(), 1..60),
        ) {
            let root = Allowance { calls: Some(whole), time: Some(Duration::from_secs(time)) };
            let mut now = NOW;
            let mut budgets = vec![Budget::default().take("root", root, now)];
            let mut spent = 0;
            for step in steps {
                match step {
                    Step::Take { from, calls, seconds } => {
                        let parent = &budgets[from % budgets.len()];
                        let before = parent.left(now);
                        let wanted = Allowance { calls, time: seconds.map(Duration::from_secs) };
                        let child = parent.take("child", wanted, now);
                        let (left, after) = (child.left(now), parent.left(now));
                        prop_assert!(left.calls <= before.calls && left.time <= before.time);
                        prop_assert!(left.calls.is_some() && left.time.is_some(), "no limit was lost");
                        prop_assert!(calls.is_none_or(|calls| left.calls <= Some(calls)));
                        prop_assert_eq!(left.calls.unwrap() + after.calls.unwrap(), before.calls.unwrap());
                        budgets.push(child);
                    }
                    Step::Spend { from } => {
                        let budget = &budgets[from % budgets.len()];
                        let before = budget.left(now);
                        let may = before.calls > Some(0) && before.time > Some(Duration::ZERO);
                        prop_assert_eq!(budget.spend_call(now).is_ok(), may);
                        spent += u64::from(may);
                    }
                    Step::Drop { which } if which < budgets.len() => drop(budgets.swap_remove(which)),
                    Step::Drop { .. } => {}
                    Step::Pass { seconds } => now += SignedDuration::from_secs(seconds.cast_signed()),
                }
                let left: u64 = budgets.iter().map(|budget| budget.left(now).calls.unwrap()).sum();
                // A budget that was dropped and has children returns its calls with the last child.
                prop_assert!(left + spent <= whole);
            }
            budgets.truncate(1);
            prop_assert_eq!(budgets[0].left(now).calls, Some(whole - spent), "nothing is lost either");
        }
    }
}
