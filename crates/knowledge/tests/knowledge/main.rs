//! Tests of a knowledge base through its public API: real files, a real index, real processes.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test program: it starts processes, and what goes wrong in it ends it"
)]

mod base;
mod cutting;
mod evaluation;
mod finding;
mod processes;
mod quality;
mod syncing;
