//! The tests of the code graph through its public interface.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test program: what goes wrong in it ends it"
)]

mod cache;
mod compiled;
mod files;
mod hostile;
mod imports;
mod incremental;
mod languages;
mod more_languages;
mod opening;
mod pycg;
mod queries;
mod resolution;
mod stored;
mod sweep;
