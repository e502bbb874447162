//! Steps that replace masked files with placeholders.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::View;
use crate::child::blueprint::{Place, Placeholder, Step, c_string};
use crate::error::SandboxError;
use crate::overlay::Layers;
use crate::roots::Roots;
use crate::spec::CellSpec;

/// Temporary name under which a placeholder is made. If the name is taken by a file, the masked
/// file next to it is covered instead.
const MADE_AS: &str = ".handfast-placeholder";

impl View {
    /// Replaces the masked files that may have a placeholder. Returns the remaining masked paths.
    pub(super) fn placeholders<'a>(
        &mut self,
        spec: &'a CellSpec,
        (roots, layers): (&Roots, &Layers),
        frozen: &BTreeMap<PathBuf, PathBuf>,
    ) -> Result<Cow<'a, [PathBuf]>, SandboxError> {
        if spec.placeholders.is_empty() {
            return Ok(Cow::Borrowed(&spec.masked));
        }
        let (mut left, mut seen) = (Vec::new(), BTreeSet::new());
        for path in &spec.masked {
            let wanted = spec.placeholders.get(path);
            let found = wanted.and_then(|wanted| Some((wanted, place(path, roots, layers, frozen)?)));
            let Some((wanted, (real, relative))) = found else {
                left.push(path.clone());
                continue;
            };
            if !seen.insert(real.clone()) {
                continue;
            }
            let (Some(folder), Some(below)) = (real.parent(), relative.parent()) else { continue };
            let placeholder = Placeholder {
                folder: c_string("path", folder)?,
                made_as: c_string("path", MADE_AS)?,
                upper: c_string("path", layers.upper_at.join(below).join(MADE_AS))?,
                mark: wanted.mark.clone(),
                content: wanted.content.clone(),
                mode: wanted.mode,
            };
            self.steps.push(Step::Placeholder { at: Place::new(&real)?, placeholder });
        }
        // Another path may lead to the same file.
        left.retain(|path| fs::canonicalize(path).map_or(true, |real| !seen.contains(&real)));
        Ok(Cow::Owned(left))
    }
}

/// Returns the path of a file in the cell and relative to the workspace, if the file is visible
/// through the overlay and may be removed.
fn place(
    path: &Path,
    roots: &Roots,
    layers: &Layers,
    frozen: &BTreeMap<PathBuf, PathBuf>,
) -> Option<(PathBuf, PathBuf)> {
    let real = fs::canonicalize(path).ok()?;
    let relative = real.strip_prefix(&layers.workspace).ok()?.to_owned();
    let is_inner = |root: &Path| root != layers.workspace && root.starts_with(&layers.workspace);
    let written_elsewhere = layers.submounts.iter().any(|point| real.starts_with(point))
        || roots.all().any(|root| is_inner(&root.real) && real.starts_with(&root.real));
    let stays = frozen.keys().any(|frozen| real.starts_with(frozen));
    let is_file = fs::symlink_metadata(&real).is_ok_and(|found| found.is_file());
    (is_file && !written_elsewhere && !stays).then_some((real, relative))
}
