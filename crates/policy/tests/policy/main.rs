//! Guarantees of the policy, tested through its public interface.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail as tests do"
)]

mod ceilings;
mod commands;
mod compile;
mod impact;
mod leases;
mod lines;
mod msc_example;
mod paths;
mod programs;
mod properties;
mod random_lines;
mod rules;
mod sees;
mod setting;
mod spellings;
mod trust;
