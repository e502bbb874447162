//! Times at which something happens: cron lines and phrases, their next instants, and what follows from
//! instants that were missed or failed.
//!
//! The crate is pure. Time comes in as an argument, so the crate reads no clock, and it stores nothing and
//! runs nothing. The crate `croner` matches cron lines; phrases are a closed grammar of this crate.

mod error;
mod grammar;
mod outcome;
mod pattern;
mod rules;
mod schedule;
mod time_of_day;
mod words;

pub use error::ScheduleError;
pub use outcome::{JobState, MAX_DELAY, after_failure, after_success};
pub use rules::{Misfire, Open, Overlap, Plan, Rules, Start, jitter, missed, plan};
pub use schedule::{Kind, Schedule};

#[cfg(test)]
mod tests;
