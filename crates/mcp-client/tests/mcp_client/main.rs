//! The client against servers: scripted ones that break every rule, and the official ones.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a helper of a test fails it by panicking"
)]

mod conformance;
mod fake;
mod hostile;
mod http;
mod login;
mod names;
mod official;
mod random;
mod sessions;
mod speed;
mod stateless;
#[path = "../../examples/conformance_client/transport.rs"]
mod transport;
