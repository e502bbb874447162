//! Tests whether this machine offers an isolation, by an empty command in an empty cell.

use std::sync::Arc;

use super::backend::{Abilities, CellHost, Isolation};
use super::namespaces::backend::Namespaces;
use crate::error::SandboxError;
use crate::run::run;
use crate::spec::{CellSpec, Command, Program};
use crate::stopper::Stopper;

impl Isolation {
    /// Returns true if cells can isolate the changes of the workspace in an overlay, on this
    /// machine, tested once. Blocks for some milliseconds the first time.
    ///
    /// Without an overlay, a command writes to the workspace directly, so its changes cannot be
    /// undone. [`run`](crate::run) tries again each time and reports in its outcome what was in
    /// force.
    pub fn can_give_overlay(&self) -> bool {
        self.can(|abilities| abilities.overlay)
    }

    /// Returns true if cells can share a network with egress, on this machine. Blocks as
    /// [`Isolation::can_give_overlay`] does.
    pub fn can_give_network(&self) -> bool {
        self.can(|abilities| abilities.network)
    }

    /// Returns the reason, in words for an agent, why cells cannot share a network with egress.
    pub fn no_network_because(&self) -> &'static str {
        if self.abilities().network {
            "this machine refuses namespaces, which restrict programs to the listed hosts; see `handfast \
             doctor`"
        } else {
            "the `isolation` of the profile has no network with a way out; `isolation: auto` may have one"
        }
    }

    fn can(&self, ability: impl Fn(Abilities) -> bool) -> bool {
        // A cell with an overlay or a network is one of the preferred kind.
        ability(self.abilities()) && *self.offered.get_or_init(|| self.preferred_alone().is_offered())
    }

    fn is_offered(&self) -> bool {
        // An error of another kind says nothing about the machine.
        !matches!(self.try_out(), Err(SandboxError::Unavailable { .. }))
    }

    /// Runs an empty command in an empty cell.
    pub(super) fn try_out(&self) -> Result<(), SandboxError> {
        let folder = tempfile::tempdir()
            .map_err(|source| SandboxError::Io { doing: "making a folder for a trial", source })?;
        let spec = CellSpec {
            workspace: folder.path().to_owned(),
            spool_directory: folder.path().to_owned(),
            ..CellSpec::default()
        };
        let host = CellHost { isolation: self.clone(), ..CellHost::default() };
        let command = Command {
            program: Program::Argv(vec!["/bin/sh".into(), "-c".into(), ":".into()]),
            working_directory: folder.path().to_owned(),
        };
        run(&spec, &host, &command, None, &Stopper::new()?, &mut |_, _| {}).map(drop)
    }
}

/// Tests whether a cell can have namespaces on this machine. Blocks for some milliseconds.
///
/// # Errors
/// [`SandboxError::Unavailable`] if it cannot; other variants if the test itself failed.
pub fn try_namespaces() -> Result<(), SandboxError> {
    Isolation::in_order(Arc::new(Namespaces), Vec::new()).try_out()
}
