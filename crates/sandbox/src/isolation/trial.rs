//! Tests whether this machine offers an isolation, by an empty command in an empty cell.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::backend::{Abilities, CellHost, Isolation};
use super::namespaces::backend::Namespaces;
use crate::error::SandboxError;
use crate::outcome::{ChangeSource, Outcome};
use crate::overlay::{ForeseenOverlay, foreseen_overlay};
use crate::run::run;
use crate::spec::{CellSpec, Command, Overlay, Program};
use crate::stopper::Stopper;

impl Isolation {
    /// Returns true if a command in a cell with these roots would change the workspace through an
    /// overlay alone, with its changes in a folder inside `area`.
    ///
    /// Looks at owners and mounts each time. The first check of a workspace also runs an empty
    /// command on an overlay in the folders that `begin` makes. That takes some milliseconds.
    ///
    /// Without an overlay, a command writes to the workspace directly, so its changes cannot be
    /// undone. [`run`](crate::run) tries again each time and reports in its outcome what was in
    /// force.
    pub fn can_give_overlay(
        &self,
        spec: &CellSpec,
        area: &Path,
        begin: impl FnOnce() -> io::Result<Overlay>,
    ) -> bool {
        if !self.abilities().overlay {
            return false;
        }
        match foreseen_overlay(spec, area) {
            ForeseenOverlay::None => false,
            ForeseenOverlay::Certain => true,
            ForeseenOverlay::Possible(key) => {
                let is_mounted = self.offered.get() != Some(&false) && self.mounts(&spec.workspace, begin);
                if is_mounted {
                    key.note_mounted();
                }
                is_mounted
            }
        }
    }

    /// Mounts an overlay of the workspace in an empty cell.
    fn mounts(&self, workspace: &Path, begin: impl FnOnce() -> io::Result<Overlay>) -> bool {
        let Ok(overlay) = begin() else { return false };
        let isolation = self.preferred_alone();
        let ran = isolation.run_nothing(CellSpec {
            workspace: workspace.to_owned(),
            overlay: Some(overlay),
            overlay_only: true,
            ..CellSpec::default()
        });
        match &ran {
            // The value is already known if another test was quicker.
            Ok(_) => drop(self.offered.set(true)),
            Err(SandboxError::Unavailable { .. }) => drop(self.offered.set(false)),
            Err(_) => {}
        }
        ran.is_ok_and(|outcome| matches!(outcome.changes, ChangeSource::UpperFolder(_)))
    }

    /// Returns true if cells can share a network with egress, on this machine. Tested once;
    /// blocks for some milliseconds the first time.
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
        let folder = trial_folder()?;
        self.run_nothing(CellSpec { workspace: folder.path().to_owned(), ..CellSpec::default() }).map(drop)
    }

    /// Runs an empty command in the cell.
    fn run_nothing(&self, spec: CellSpec) -> Result<Outcome, SandboxError> {
        let folder = trial_folder()?;
        let host = CellHost { isolation: self.clone(), ..CellHost::default() };
        let command = Command {
            program: Program::Argv(vec!["/bin/sh".into(), "-c".into(), ":".into()]),
            working_directory: spec.workspace.clone(),
        };
        let spec = CellSpec { spool_directory: folder.path().to_owned(), ..spec };
        run(&spec, &host, &command, None, &Stopper::new()?, &mut |_, _| {})
    }
}

fn trial_folder() -> Result<tempfile::TempDir, SandboxError> {
    tempfile::tempdir().map_err(|source| SandboxError::Io { doing: "making a folder for a trial", source })
}

/// Tests whether a cell can have namespaces on this machine. Blocks for some milliseconds.
///
/// # Errors
/// [`SandboxError::Unavailable`] if it cannot; other variants if the test itself failed.
pub fn try_namespaces() -> Result<(), SandboxError> {
    Isolation::in_order(Arc::new(Namespaces), Vec::new()).try_out()
}
