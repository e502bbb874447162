//! What tests of tools are written with: a temporary workspace, a clock that stands, guards, and a way to run one tool.
//!
//! Nothing here decides or audits anything: a tool is run without the engine around it.
//! Tests are the only callers, so what goes wrong in their set-up panics.

#![expect(
    clippy::panic,
    clippy::expect_used,
    clippy::missing_panics_doc,
    reason = "tests are its only callers"
)]

mod check;
mod clock;
mod covering;
pub mod gmail;
mod guard;
pub mod linear;
mod policy;
mod run;
pub mod web;
mod workspace;

pub use check::{assert_contains, check_family, check_tool};
pub use clock::{FixedClock, MovingClock};
pub use covering::Covers;
pub use guard::{DenyNames, Permissive};
pub use policy::policy_of;
pub use run::{block_on, run_in, run_tool};
pub use workspace::Workspace;
