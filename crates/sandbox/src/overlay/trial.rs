//! Checks whether a command in a workspace would get an overlay, before anything relies on it.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::{Key, Surroundings};
use crate::degraded;
use crate::enforcement::WorkspaceChanges;
use crate::error::SandboxError;
use crate::identity::Identity;
use crate::roots::Roots;
use crate::spec::{CellSpec, Overlay};

/// Workspaces and upper folders for which the kernel has mounted an overlay.
static MOUNTED: Mutex<BTreeSet<Key>> = Mutex::new(BTreeSet::new());

/// Workspaces of cells that had no overlay although this check had foreseen one.
static DISTRUSTED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Returns true if a command in a cell with these roots would change the workspace through an
/// overlay alone, with its changes in a folder inside `area`.
///
/// Looks at owners and mounts each time. The first check of a workspace also runs an empty command
/// on an overlay in the folders that `begin` makes. That takes some milliseconds.
pub fn has_overlay(spec: &CellSpec, area: &Path, begin: impl FnOnce() -> io::Result<Overlay>) -> bool {
    if DISTRUSTED.lock().unwrap_or_else(PoisonError::into_inner).contains(&spec.workspace) {
        return false;
    }
    match key(spec, area) {
        Err(_) => false,
        // Nobody can change a workspace that is shown read-only.
        Ok(None) => true,
        Ok(Some(key)) if MOUNTED.lock().unwrap_or_else(PoisonError::into_inner).contains(&key) => true,
        Ok(Some(_)) if !degraded::may_have_namespaces() => false,
        Ok(Some(key)) => {
            let is_mounted = is_mounted(&spec.workspace, begin);
            if is_mounted {
                note_mounted(key);
            }
            is_mounted
        }
    }
}

/// Records that a cell of this workspace had no overlay although [`has_overlay`] had foreseen one,
/// so that [`has_overlay`] is false from now on.
pub fn distrust_overlay(workspace: &Path) {
    DISTRUSTED.lock().unwrap_or_else(PoisonError::into_inner).insert(workspace.to_owned());
}

/// Records that the kernel has mounted such an overlay.
pub(super) fn note_mounted(key: Key) {
    MOUNTED.lock().unwrap_or_else(PoisonError::into_inner).insert(key);
}

fn key(spec: &CellSpec, area: &Path) -> Result<Option<Key>, SandboxError> {
    let roots = Roots::new(spec)?;
    let Some(root) = roots.workspace().filter(|root| root.writable) else { return Ok(None) };
    let identity = Identity::of_this_process()?;
    Surroundings::of(&root.real, area, &roots, identity, true).map(|found| Some(found.key))
}

/// Mounts an overlay of the workspace in an empty cell.
fn is_mounted(workspace: &Path, begin: impl FnOnce() -> io::Result<Overlay>) -> bool {
    let Ok(overlay) = begin() else { return false };
    let tried = degraded::run_nothing(CellSpec {
        workspace: workspace.to_owned(),
        overlay: Some(overlay),
        overlay_only: true,
        ..CellSpec::default()
    });
    tried.is_ok_and(|outcome| outcome.enforcement.workspace == WorkspaceChanges::Overlay)
}
