//! Conformance suite of stores: the promises of `store-api` that every implementation keeps.
//!
//! The suite uses two handles of one state, as two processes would, and sees nothing but the traits.
//! Each implementation tests its own files, formats and damage.

mod agents;
mod approvals;
mod audit;
mod checkpoints;
mod contents;
mod leases;
mod mail;
mod mail_order;
mod mail_replies;
mod memories;
mod presence;
mod schedules;
mod spending;

use std::fmt::Debug;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use store_api::{Store, StoreError};

/// An implementation of [`Store`] under test.
pub trait Implementation {
    /// Opens the state of this name, and creates a missing one. Handles of one name share a state.
    ///
    /// # Errors
    /// Returns an error if the state cannot be opened.
    fn open(&self, state: &str) -> Result<Arc<dyn Store>, StoreError>;
}

/// A promise that an implementation breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Promise, as a sentence.
    pub promise: &'static str,
    /// Difference between the promise and the behaviour.
    pub problem: String,
}

/// Checks the selected promises, each on a state of its own, and returns the broken ones.
pub fn violations(implementation: &dyn Implementation, select: impl Fn(&str) -> bool) -> Vec<Violation> {
    let subjects = [
        audit::PROMISES,
        approvals::PROMISES,
        leases::PROMISES,
        checkpoints::PROMISES,
        contents::PROMISES,
        memories::PROMISES,
        presence::PROMISES,
        schedules::PROMISES,
        agents::PROMISES,
        mail::PROMISES,
        mail_order::PROMISES,
        mail_replies::PROMISES,
        spending::PROMISES,
    ];
    let mut broken = Vec::new();
    let selected = subjects.into_iter().flatten().filter(|(promise, _)| select(promise));
    for (number, (promise, check)) in selected.enumerate() {
        let state = format!("state-{number}");
        if let Err(Problem(problem)) = check(&Handles { implementation, state }) {
            broken.push(Violation { promise, problem });
        }
    }
    broken
}

/// A promise with the check that it is kept.
type Promise = (&'static str, fn(&Handles<'_>) -> Result<(), Problem>);

/// The difference between a promise and a behaviour.
struct Problem(String);

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        Self(format!("an operation failed: {error} ({error:?})"))
    }
}

/// The handles of one state.
struct Handles<'a> {
    implementation: &'a dyn Implementation,
    state: String,
}

impl Handles<'_> {
    fn open(&self) -> Result<Arc<dyn Store>, Problem> {
        Ok(self.implementation.open(&self.state)?)
    }

    fn two(&self) -> Result<[Arc<dyn Store>; 2], Problem> {
        Ok([self.open()?, self.open()?])
    }
}

/// Checks that `found` equals `expected`.
#[expect(clippy::needless_pass_by_value, reason = "a check consumes the values that it compares")]
fn equal<T: Debug + PartialEq>(what: &str, found: T, expected: T) -> Result<(), Problem> {
    if found == expected {
        return Ok(());
    }
    Err(Problem(format!("{what}: expected {expected:?}, found {found:?}")))
}

/// Checks that `is_true` is true.
fn holds(what: &str, is_true: bool) -> Result<(), Problem> {
    if is_true { Ok(()) } else { Err(Problem(format!("this does not hold: {what}"))) }
}

/// Returns a time of the suite.
fn at(minutes: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_hours(500_000) + SignedDuration::from_mins(minutes)
}
