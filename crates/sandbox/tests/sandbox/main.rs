//! Cells that are made for their call, and programs that make cells.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test program: it starts processes outside of any cell, and what goes wrong in it ends it"
)]

mod cells;
mod doors;
mod groups;
mod probes;
mod sessions;
mod spawner;
