//! Runs a command in a cell: namespaces of its own, a file system that shows only what it is given, no network but
//! its own loopback, no privileges, and a filter on its system calls.
//!
//! [`run`] is the way in. A [`CellSpec`] says what the cell shows, a [`Command`] what runs in it, and the
//! [`Outcome`] what came of it and what was in force. [`probe`] tries on this machine whether cells hold.
//!
//! ```
//! use sandbox::{CellSpec, Command, Exit, Program, Stopper, run};
//!
//! let folder = tempfile::tempdir()?;
//! let spec = CellSpec {
//!     workspace: folder.path().to_owned(),
//!     spool_directory: std::env::temp_dir(),
//!     output_limit: 64 << 20,
//!     ..CellSpec::default()
//! };
//! let command = Command {
//!     program: Program::Shell("whoami; ls /root".to_owned()),
//!     working_directory: spec.workspace.clone(),
//! };
//! let outcome = run(&spec, &command, None, &Stopper::new()?, &mut |_, _| {})?;
//! assert_eq!(outcome.stdout.head, b"agent\n");
//! assert_eq!(outcome.exit, Exit::Code(2), "there is no such folder in a cell");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! This crate knows no tools, no policy and no configuration: its callers decide what may run and what it may see.
//! It never runs anything without a cell. Where the machine refuses namespaces, a weaker cell does without them, and the
//! [`Enforcement`] of the outcome says so. Which layer held which limit it says too.
//!
//! A cell is made when it is needed, which costs more the more memory this program holds. A program that serves starts
//! a [`Spawner`] first thing in `main` and names it in each [`CellSpec`]: cells then wait ready-made. Who knows what
//! the next command will want to see has one of them show it already ([`make_ready`]).
//!
//! Linux on `x86_64` and `aarch64` only; elsewhere it does not compile.

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
compile_error!("Handfast's sandbox needs Linux (or WSL2) on x86_64 or aarch64");

mod attention;
mod capture;
mod cgroup;
mod child;
mod degraded;
mod direct;
mod doors;
mod enforcement;
mod error;
mod hint;
mod home;
mod identity;
mod landlock;
mod late;
mod launch;
mod limits;
mod mounts;
mod network;
mod outcome;
mod overlay;
mod plumbing;
mod probe;
mod process;
mod program;
mod roots;
mod run;
mod seccomp;
mod session;
mod spawner;
mod spec;
mod stopper;
mod streams;
mod supervise;
mod sys;
mod system;
mod view;

pub use child::HOST_NAME;
pub use child::entrance::enter;
pub use degraded::{has_namespaces, try_namespaces};
pub use doors::{Doors, PROXY_PORT};
pub use enforcement::{
    Degraded, DeniedFiles, Enforcement, Home, NetworkReach, UserMapping, WorkspaceChanges,
};
pub use error::SandboxError;
pub use home::{Alone, KeptHome};
pub use late::LateMasks;
pub use launch::make_ready;
pub use limits::{Layer, Limit, LimitInForce, Limits, ProcessTotal};
pub use network::SessionNetwork;
pub use outcome::{Captured, Ended, Exit, Origin, Outcome, Stream};
pub use probe::{Attempter, MARKER, Probe, Verdict, attempt, probe};
pub use run::run;
pub use session::{
    Ending, Keeper, Lifetime, Listed, OwnedSessions, Part, Phase, Session, SessionError, SessionLimits,
    SessionOutput, Sessions, Status,
};
pub use spawner::{Pool, Spawner};
pub use spec::{CellSpec, Command, Entrance, Overlay, Placeholder, Program, TerminalSize};
pub use stopper::Stopper;
pub use sys::{give_memory_back, unblock_signals};
pub use system::{is_of_system, shell};
