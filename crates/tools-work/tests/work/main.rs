//! The tools for Linear and Gmail, against test servers that behave like these two.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::needless_pass_by_value,
    reason = "a test program"
)]

#[path = "../fakes/mod.rs"]
mod fakes;
mod gmail;
mod linear_action;
