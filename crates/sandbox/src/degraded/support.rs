//! Whether this machine lets cells have namespaces.

use std::sync::OnceLock;

use crate::error::SandboxError;
use crate::run::run_in_namespaces;
use crate::spec::{CellSpec, Command, Program};
use crate::stopper::Stopper;

/// Whether cells have namespaces here, tried out once with a cell in which nothing runs. Takes some milliseconds the
/// first time; blocks.
///
/// Where they have none, changes of a command cannot be kept apart from the workspace, so nothing that it does can be
/// undone. [`run`](crate::run) tries again each time and says in its outcome what was in force.
pub fn has_namespaces() -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    *FOUND.get_or_init(|| !matches!(try_namespaces(), Err(SandboxError::Unavailable { .. })))
}

/// Tries whether a cell can have namespaces here. Takes some milliseconds; blocks.
///
/// # Errors
///
/// [`SandboxError::Unavailable`] where it cannot; others where that could not be tried.
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
