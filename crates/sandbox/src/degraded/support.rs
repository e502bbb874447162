//! Checks for namespaces on this machine.

use std::sync::OnceLock;

use crate::error::SandboxError;
use crate::run::run_in_namespaces;
use crate::spec::{CellSpec, Command, Program};
use crate::stopper::Stopper;

/// Returns true if cells have namespaces on this machine, tested once with an empty cell. Blocks
/// for some milliseconds the first time.
///
/// Without namespaces, a command writes to the workspace directly, so its changes cannot be undone.
/// [`run`](crate::run) tries again each time and reports in its outcome what was in force.
pub fn has_namespaces() -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    *FOUND.get_or_init(|| !matches!(try_namespaces(), Err(SandboxError::Unavailable { .. })))
}

/// Tests whether a cell can have namespaces on this machine. Blocks for some milliseconds.
///
/// # Errors
/// [`SandboxError::Unavailable`] if it cannot; other variants if the test itself failed.
pub fn try_namespaces() -> Result<(), SandboxError> {
    let folder = tempfile::tempdir()
        .map_err(|source| SandboxError::Io { doing: "making a folder for a trial", source })?;
    let spec = CellSpec {
        workspace: folder.path().to_owned(),
        spool_directory: folder.path().to_owned(),
        ..CellSpec::default()
    };
    let command = Command {
        program: Program::Argv(vec!["/bin/sh".into(), "-c".into(), ":".into()]),
        working_directory: folder.path().to_owned(),
    };
    run_in_namespaces(&spec, &command, None, &Stopper::new()?, &mut |_, _| {}).map(drop)
}
