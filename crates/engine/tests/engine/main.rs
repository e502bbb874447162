//! Calls through the engine, with tools made for the purpose.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::needless_pass_by_value,
    reason = "a test program: what goes wrong in it ends it"
)]

mod approvals;
mod ceilings;
mod dynamic;
mod life;
mod pruning;
