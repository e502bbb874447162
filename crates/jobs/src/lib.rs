//! Jobs on a schedule: what runs, when, within which limits, and what became of it.
//!
//! The crate joins the times of `schedule` to the rows of a store. It runs nothing and reads no clock: a
//! runner claims the firings that are due, runs them, and reports their ends.

mod action;
mod book;
mod claims;
mod rules;

pub use action::Action;
pub use book::{BookError, NewJob, ScheduleBook, restored};
pub use claims::{AttemptOutcome, Claims};
pub use rules::{JobRules, Missed, Overlapping};
pub use store_api::{Claim, Firing, FiringState, ScheduleFilter, ScheduleRow, ScheduleState, StoreError};
