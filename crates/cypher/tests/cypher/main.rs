//! The tests of the engine through its public interface.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test program: what goes wrong in it ends it"
)]

mod gaps;
mod gherkin;
mod hostile;
mod language;
mod plans;
mod random;
mod rendered;
mod setup;
mod small;
mod stored;
mod tck;
