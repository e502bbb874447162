//! Runs a command in a cell: namespaces of its own, a file system that shows only what it is given, no network but
//! its own loopback, no privileges, and a filter on its system calls.
//!
//! [`run`] is the way in. A [`CellSpec`] says what the cell shows, a [`Command`] what runs in it, and the
//! [`Outcome`] what came of it and what was in force. [`probe`] tries on this machine whether cells hold.
//!
//! This crate knows no tools, no policy and no configuration: its callers decide what may run and what it may see.
//! It never runs anything without a cell. It has no pool of waiting cells, no overlay and no limits on memory or
//! processes yet.
//!
//! Linux on `x86_64` and `aarch64` only; elsewhere it does not compile.

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
compile_error!("Handfast's sandbox needs Linux (or WSL2) on x86_64 or aarch64");

mod capture;
mod child;
mod enforcement;
mod error;
mod hint;
mod identity;
mod landlock;
mod launch;
mod outcome;
mod probe;
mod program;
mod roots;
mod run;
mod seccomp;
mod spec;
mod stopper;
mod supervise;
mod sys;
mod system;
mod view;

pub use enforcement::{Enforcement, UserMapping};
pub use error::SandboxError;
pub use outcome::{Captured, Ended, Exit, Outcome, Stream};
pub use probe::{Probe, probe};
pub use run::run;
pub use spec::{CellSpec, Command, Program};
pub use stopper::Stopper;
pub use system::shell;
