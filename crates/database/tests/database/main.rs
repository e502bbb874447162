//! Tests of statements on real files: permitted actions, refusals, and results.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test program: what goes wrong in it ends it")]

mod files;
mod memory;
mod statements;
mod tried;
mod undo;
mod world;
