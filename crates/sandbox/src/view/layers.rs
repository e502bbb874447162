//! Steps that show a workspace through an overlay.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::{READ_ONLY, READ_WRITE, ShownParts, View, kind_of};
use crate::child::blueprint::{Kind, LOWER, Place, Source, Step, c_string};
use crate::error::SandboxError;
use crate::overlay::{LAYERS, Layers};
use crate::roots::Root;

/// Folder of the mounts from which an overlay is made.
const SITE: &str = "/.cell/overlay";
/// First mount point of a workspace with several names, which are clones of it.
const SHARED: &str = "/.cell/overlay/shared";

impl View {
    /// Shows the workspace at one of its names.
    pub(super) fn overlay(
        &mut self,
        root: &Root,
        layers: &Layers,
        shown: ShownParts<'_>,
    ) -> Result<(), SandboxError> {
        let several = shown.roots.all().filter(|other| other.real == root.real).count() > 1;
        let lower = Path::new(OsStr::from_bytes(LOWER.to_bytes()));
        if !std::mem::replace(&mut self.overlaid, true) {
            // The mounts below the workspace are shown from here, and can be written.
            let attributes = if layers.submounts.is_empty() { READ_ONLY } else { READ_WRITE };
            let tree = self.tree(&root.real, shown.identity, attributes)?;
            self.with_submounts = !tree.without_submounts;
            self.mount(tree.source, lower, Kind::Folder, attributes)?;
            let tree = self
                .tree(&layers.folder, shown.identity, READ_WRITE)
                .map_err(|error| layers.unmappable(error))?;
            self.mount(tree.source, Path::new(LAYERS), Kind::Folder, READ_WRITE)?;
            let source = Source::Overlay { upper: layers.upper.clone(), work: layers.work.clone() };
            let at = if several { Path::new(SHARED) } else { &root.at };
            self.mount(source, at, Kind::Folder, READ_WRITE)?;
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

    /// Makes the folder in which the overlay is built. A waiting cell has it ready, whether or not
    /// there will be an overlay.
    ///
    /// No process may enter the folder and, because it is read-only, no process can change that, so
    /// it protects like a mask. Unmounting its content instead would take longer than all other
    /// steps, because the kernel waits for every processor.
    pub(super) fn site(&mut self) -> Result<(), SandboxError> {
        let source = Source::Memory { size: c"4k".to_owned(), mode: c"0000".to_owned() };
        self.mount(source, Path::new(SITE), Kind::Folder, READ_WRITE)?;
        for path in [Path::new(OsStr::from_bytes(LOWER.to_bytes())), Path::new(LAYERS), Path::new(SHARED)] {
            self.steps.push(Step::Folder { at: Place::new(path)?, mode: 0o755 });
        }
        self.steps.push(Step::Seal { at: Place::new(Path::new(SITE))? });
        Ok(())
    }
}
