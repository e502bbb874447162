//! Expectations about the overlay of a workspace before it is mounted.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

use super::{Key, Surroundings};
use crate::error::SandboxError;
use crate::identity::Identity;
use crate::roots::Roots;
use crate::spec::CellSpec;

/// Workspaces and upper folders for which the kernel has mounted an overlay.
static MOUNTED: Mutex<BTreeSet<Key>> = Mutex::new(BTreeSet::new());

/// Workspaces of cells that had no overlay although one was foreseen.
static DISTRUSTED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Expectation about the overlay of a workspace.
pub(crate) enum ForeseenOverlay {
    /// No overlay is possible, or something in the workspace would be written directly.
    None,
    /// An overlay is possible, and a mount shows whether the kernel agrees.
    Possible(Key),
    /// An equal overlay was mounted before, or nothing can change the workspace.
    Certain,
}

/// Inspects the workspace, the mounts in it and the folder around the upper folder.
pub(crate) fn foreseen_overlay(spec: &CellSpec, area: &Path) -> ForeseenOverlay {
    if DISTRUSTED.lock().contains(&spec.workspace) {
        return ForeseenOverlay::None;
    }
    match key(spec, area) {
        Err(_) => ForeseenOverlay::None,
        Ok(None) => ForeseenOverlay::Certain,
        Ok(Some(key)) if MOUNTED.lock().contains(&key) => ForeseenOverlay::Certain,
        Ok(Some(key)) => ForeseenOverlay::Possible(key),
    }
}

/// Records that a cell of this workspace had no overlay although one was foreseen, so that none is
/// foreseen from now on.
pub fn distrust_overlay(workspace: &Path) {
    DISTRUSTED.lock().insert(workspace.to_owned());
}

impl Key {
    /// Records that the kernel has mounted such an overlay.
    pub(crate) fn note_mounted(self) {
        MOUNTED.lock().insert(self);
    }
}

/// Returns the key of the overlay, or `None` if the workspace is shown read-only.
fn key(spec: &CellSpec, area: &Path) -> Result<Option<Key>, SandboxError> {
    let roots = Roots::new(spec)?;
    let Some(root) = roots.workspace().filter(|root| root.writable) else { return Ok(None) };
    let identity = Identity::of_this_process()?;
    Surroundings::of(&root.real, area, &roots, identity, true).map(|found| Some(found.key))
}
