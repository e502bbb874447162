//! Support for tests of tools: a temporary workspace, clocks, guards, local servers, and a way to
//! run one tool.
//!
//! This crate makes no decisions and writes no audit: a tool runs without the engine. Its only
//! callers are tests, so a failed set-up panics.

#![expect(
    clippy::panic,
    clippy::expect_used,
    clippy::missing_panics_doc,
    reason = "tests are its only callers"
)]

mod check;
mod clock;
mod covering;
mod guard;
mod policy;
mod run;
pub mod web;
mod workspace;

pub use check::{assert_contains, check_family, check_tool};
pub use clock::{FixedClock, MovingClock, MovingTimer};
pub use covering::TestSecrets;
pub use guard::{DenyNames, Permissive};
pub use policy::policy_of;
pub use run::{block_on, run_in, run_tool};
pub use workspace::Workspace;
