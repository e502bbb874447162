//! The steps that show a workspace through an overlay.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::{READ_WRITE, Shown, View, kind_of};
use crate::child::blueprint::{Kind, LOWER, Place, Source, Step, c_string};
use crate::error::SandboxError;
use crate::overlay::{LAYERS, Layers};
use crate::roots::Root;

/// Where a workspace with several names is mounted first, for these to be clones of.
const SHARED: &str = "/.cell/overlay";

impl View {
    /// Shows the workspace at one of its names.
    pub(super) fn overlay(
        &mut self,
        root: &Root,
        layers: &Layers,
        shown: Shown<'_>,
    ) -> Result<(), SandboxError> {
        let several = shown.roots.all().filter(|other| other.real == root.real).count() > 1;
        let lower = Path::new(OsStr::from_bytes(LOWER.to_bytes()));
        if self.scaffold.is_empty() {
            let tree = self.tree(&root.real, shown.identity, READ_WRITE)?;
            self.with_submounts = !tree.without_submounts;
            self.mount(tree.source, lower, Kind::Folder, READ_WRITE)?;
            let tree = self
                .tree(&layers.folder, shown.identity, READ_WRITE)
                .map_err(|error| layers.unmappable(error))?;
            self.mount(tree.source, Path::new(LAYERS), Kind::Folder, READ_WRITE)?;
            let source = Source::Overlay { upper: layers.upper.clone(), work: layers.work.clone() };
            let at = if several { Path::new(SHARED) } else { &root.at };
            self.mount(source, at, Kind::Folder, READ_WRITE)?;
            self.scaffold = vec![lower.to_owned(), LAYERS.into()];
            self.scaffold.extend(several.then(|| SHARED.into()));
        }
        if several {
            self.mount(Source::Inside(c_string("path", SHARED)?), &root.at, Kind::Folder, READ_WRITE)?;
            self.require_at_resolved_path(root);
        }
        if self.with_submounts {
            for point in &layers.submounts {
                let Ok(below) = point.strip_prefix(&root.real) else { continue };
                let source = Source::Inside(c_string("path", lower.join(below))?);
                self.mount(source, &root.at.join(below), kind_of(point)?, READ_WRITE)?;
                if let Some(Step::Mount(mount)) = self.steps.last_mut() {
                    (mount.required, mount.make_point) = (false, false);
                }
            }
        }
        Ok(())
    }

    /// Takes away what only helped to mount the overlay, so that the workspace cannot be reached beside it.
    pub(super) fn dismantle(&mut self) -> Result<(), SandboxError> {
        for path in std::mem::take(&mut self.scaffold) {
            self.steps.push(Step::Unmount { at: Place::new(&path)? });
        }
        Ok(())
    }
}
