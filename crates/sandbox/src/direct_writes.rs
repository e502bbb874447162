//! Paths that a command of a cell writes to directly instead of through an overlay.

use std::fs;
use std::path::{Path, PathBuf};

use crate::overlay::Layers;
use crate::roots::Roots;

/// The destinations of one cell's changes.
#[derive(Clone, Debug)]
pub(crate) struct Direct {
    roots: Roots,
    /// The workspace behind an overlay, and the mounts below it, which are outside of the overlay.
    overlaid: Option<(PathBuf, Vec<PathBuf>)>,
    /// True if the overlay covers the entire workspace.
    wholly: bool,
}

impl Direct {
    pub(crate) fn new(roots: &Roots, layers: Option<&Layers>) -> Self {
        let overlaid = layers.map(|layers| (layers.workspace.clone(), layers.submounts.clone()));
        let wholly = overlaid.as_ref().is_some_and(|(workspace, submounts)| {
            let lies_in_it = |real: &PathBuf| real != workspace && real.starts_with(workspace);
            submounts.is_empty() && !roots.all().any(|root| lies_in_it(&root.real))
        });
        Self { roots: roots.clone(), overlaid, wholly }
    }

    /// Returns true if the command can write to any file of the host.
    pub(crate) fn is_anything(&self) -> bool {
        match &self.overlaid {
            Some((workspace, submounts)) => {
                !submounts.is_empty() || self.roots.all().any(|root| root.writable && root.real != *workspace)
            }
            None => self.roots.all().any(|root| root.writable),
        }
    }

    pub(crate) fn roots(&self) -> &Roots {
        &self.roots
    }

    /// Returns true if the command can write to this path of the host, which need not exist.
    pub(crate) fn writes(&self, path: &Path) -> bool {
        let through_the_overlay = |(workspace, _): &(PathBuf, _)| self.wholly && path.starts_with(workspace);
        if self.overlaid.as_ref().is_some_and(through_the_overlay) {
            return false;
        }
        let Some(real) = resolved(path) else { return false };
        let holding = self.roots.all().filter(|root| real.starts_with(&root.real));
        let Some(root) = holding.max_by_key(|root| root.real.components().count()) else { return false };
        match &self.overlaid {
            Some((workspace, submounts)) if root.real == *workspace => {
                submounts.iter().any(|point| real.starts_with(point))
            }
            _ => root.writable,
        }
    }
}

/// Resolves a path; if the last component does not exist, resolves its folder.
fn resolved(path: &Path) -> Option<PathBuf> {
    fs::canonicalize(path)
        .ok()
        .or_else(|| Some(fs::canonicalize(path.parent()?).ok()?.join(path.file_name()?)))
}
