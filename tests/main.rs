//! The tests of the whole binary, in one program: each folder has the tests of one kind of promise.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::needless_pass_by_value,
    reason = "a test program: it starts processes, and what goes wrong in it ends it"
)]

mod collector;
#[path = "../crates/tools-work/tests/fakes/mod.rs"]
mod fakes;
mod harness;
mod http;
mod https;
mod server;
mod shown;
mod specialist;

mod durability;
mod functional;
mod security;
