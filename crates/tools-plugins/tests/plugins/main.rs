//! Plugins in real cells: what they may do, and what becomes of those that misbehave.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::needless_pass_by_value,
    reason = "a test program: what goes wrong in it ends it"
)]

mod hostile;
mod place;
mod rights;
mod serving;
