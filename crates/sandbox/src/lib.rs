//! Runs a command in a cell: separate namespaces, a file system that shows only the given paths, no
//! network except a separate loopback device, no privileges, and a system call filter.
//!
//! [`run`] is the entry point. A [`CellSpec`] describes the cell, a [`CellHost`] has the live parts
//! that it stands on, a [`Command`] is the program that runs in it, and the [`Outcome`] has the
//! result and the restrictions in force. [`probe`] tests on
//! this machine whether cells withstand attacks.
//!
//! ```
//! use sandbox::{CellHost, CellSpec, Command, Exit, Program, Stopper, run};
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
//! let outcome = run(&spec, &CellHost::default(), &command, None, &Stopper::new()?, &mut |_, _| {})?;
//! assert_eq!(outcome.stdout.head, b"agent\n");
//! assert_eq!(outcome.exit, Exit::Code(2), "there is no such folder in a cell");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! This crate knows no tools, no policy and no configuration: its callers decide which commands run
//! and which files they see. It never runs a command without a cell. An [`Isolation`] chooses
//! how cells are made. If the machine refuses namespaces, a weaker cell works without them. The [`Enforcement`] of the outcome reports that,
//! and the layer that enforced each limit.
//!
//! A cell is made on demand, which costs more the more memory this program uses. A server program
//! starts a [`Spawner`] at the beginning of `main` and names it in each [`CellHost`]; cells then
//! wait ready-made. A caller that can predict the next command prepares one of them for it
//! ([`CellHost::make_ready`]).
//!
//! The crate supports only Linux on `x86_64` and `aarch64`; elsewhere it does not compile.

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
compile_error!("Handfast's sandbox needs Linux (or WSL2) on x86_64 or aarch64");

mod capture;
mod cell_processes;
mod cell_source;
mod cgroup;
mod child;
mod direct_writes;
mod egress_listener;
mod enforcement;
mod error;
mod found_program;
mod hint;
mod home;
mod identity;
mod isolation;
mod landlock;
mod late_mask;
mod limits;
mod mounts;
mod network;
mod only_compute;
mod outcome;
mod overlay;
mod owner;
mod piped_program;
mod probe;
mod process;
mod program;
mod roots;
mod run;
mod seccomp;
mod session;
mod spawner;
mod spec;
mod stdin_wait;
mod stdio_pump;
mod stopper;
mod streams;
mod supervise;
mod sys;
mod system;
mod view;

pub use cell_processes::{CellConnection, CellProcesses};
pub use cell_source::{CellRequest, CellSource, CellSourceError, WorkspaceView};
pub use child::HOST_NAME;
pub use child::entrance::enter;
pub use egress_listener::{EgressListeners, PROXY_PORT};
pub use enforcement::{
    Degraded, DeniedFiles, Enforcement, Home, NetworkReach, UserMapping, WorkspaceChanges,
};
pub use error::SandboxError;
pub use found_program::FoundProgram;
pub use home::{ExclusiveHome, KeptHome};
pub use isolation::{CellHost, Isolation, IsolationChoice, try_namespaces};
pub use late_mask::LateMasks;
pub use limits::{Layer, Limit, LimitInForce, Limits, ProcessTotal};
pub use network::SessionNetwork;
pub use only_compute::only_compute;
pub use outcome::{CapturedStream, ChangeSource, EndReason, Exit, Origin, Outcome, Stream};
pub use overlay::distrust_overlay;
pub use piped_program::{
    PipedAs, PipedProgram, ProgramFolder, ProgramPipes, UntilConnected, remove_left_folders,
};
pub use probe::{Attempter, MARKER, Probe, Verdict, attempt, probe};
pub use run::run;
pub use session::{
    Ending, Keeper, Lifetime, ListedSession, OwnedSessions, Part, Phase, Session, SessionError,
    SessionLimits, SessionOutput, Sessions, Status,
};
pub use spawner::{Pool, Spawner, StartingSpawner};
pub use spec::{CellSpec, Command, Entrance, Overlay, Placeholder, Program, TerminalSize};
pub use stopper::Stopper;
pub use sys::{give_memory_back, unblock_signals};
pub use system::{is_needed_whole, is_of_system, shell, system_folders};
