//! Checks for namespaces on this machine.

use std::sync::OnceLock;

use crate::error::SandboxError;
use crate::outcome::Outcome;
use crate::run::run_in_namespaces;
use crate::spec::{CellSpec, Command, Program};
use crate::stopper::Stopper;

/// Finding of the first test.
static FOUND: OnceLock<bool> = OnceLock::new();

/// Returns true if cells have namespaces on this machine, tested once with an empty cell. Blocks
/// for some milliseconds the first time.
///
/// Without namespaces, a command writes to the workspace directly, so its changes cannot be undone.
/// [`run`](crate::run) tries again each time and reports in its outcome what was in force.
pub fn has_namespaces() -> bool {
    if let Some(found) = FOUND.get() {
        return *found;
    }
    let found = !matches!(try_namespaces(), Err(SandboxError::Unavailable { .. }));
    *FOUND.get_or_init(|| found)
}

/// Returns false if an earlier test has found no namespaces.
pub(crate) fn may_have_namespaces() -> bool {
    FOUND.get().is_none_or(|found| *found)
}

/// Tests whether a cell can have namespaces on this machine. Blocks for some milliseconds.
///
/// # Errors
/// [`SandboxError::Unavailable`] if it cannot; other variants if the test itself failed.
pub fn try_namespaces() -> Result<(), SandboxError> {
    let folder = trial_folder()?;
    let spec = CellSpec { workspace: folder.path().to_owned(), ..CellSpec::default() };
    run_nothing(spec).map(drop)
}

/// Runs an empty command in a cell with namespaces, and notes whether the machine has them.
pub(crate) fn run_nothing(spec: CellSpec) -> Result<Outcome, SandboxError> {
    let folder = trial_folder()?;
    let command = Command {
        program: Program::Argv(vec!["/bin/sh".into(), "-c".into(), ":".into()]),
        working_directory: spec.workspace.clone(),
    };
    let spec = CellSpec { spool_directory: folder.path().to_owned(), ..spec };
    let ran = run_in_namespaces(&spec, &command, None, &Stopper::new()?, &mut |_, _| {});
    match &ran {
        // The value is already known if another test was quicker.
        Ok(_) => drop(FOUND.set(true)),
        Err(SandboxError::Unavailable { .. }) => drop(FOUND.set(false)),
        Err(_) => {}
    }
    ran
}

fn trial_folder() -> Result<tempfile::TempDir, SandboxError> {
    tempfile::tempdir().map_err(|source| SandboxError::Io { doing: "making a folder for a trial", source })
}
