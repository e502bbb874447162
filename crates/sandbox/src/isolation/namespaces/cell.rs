//! The parts of a cell with namespaces, and its end.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use rustix::io::Errno;

use super::late::Late;
use crate::cgroup::Group;
use crate::child::report::Report;
use crate::error::SandboxError;
use crate::isolation::first_process::{CellParts, ProcessCell};
use crate::overlay::Layers;
use crate::process::Process;
use crate::spawner::Spawner;

/// A cell of this backend.
pub(super) type NamespaceCell = ProcessCell<NamespaceParts>;

/// The parts of a cell of this backend.
pub(super) struct NamespaceParts {
    /// Handle that covers files that appear while the command runs.
    pub(super) late: Option<Late>,
    pub(super) layers: Option<Layers>,
    pub(super) spawner: Option<Arc<Spawner>>,
}

impl CellParts for NamespaceParts {
    fn own_folder(&self) -> Option<&Path> {
        self.layers.as_ref().map(|layers| layers.folder.as_path())
    }

    fn take_namespace(
        &self,
        report: Report,
        namespace: OwnedFd,
        process: &Process,
    ) -> Result<(), SandboxError> {
        let Some(late) = &self.late else { return Ok(()) };
        late.takes(report, namespace, process.descriptor()?);
        Ok(())
    }

    fn overlay_refused(&self, errno: Errno) -> Option<SandboxError> {
        self.layers.as_ref().map(|layers| layers.refused(errno))
    }

    fn end(
        self,
        process: Process,
        group: Option<Group>,
        may_outlast: bool,
    ) -> Result<Option<String>, SandboxError> {
        // Covering ends here; `kept` is the only reference that keeps the cell's file system alive.
        let kept = self.late.map(|late| late.end());
        match self.spawner {
            // A first process that is alone is our own code at its end, and takes the cell's mounts
            // down. No caller need wait for that: an overlay does not buffer writes. Once the
            // writers are gone, all their writes, including those through mappings, are in the
            // upper folder's files.
            Some(spawner) if may_outlast => spawner.see_off(process, group, kept),
            _ => {
                drop(kept);
                process.kill();
                process.end().map_err(SandboxError::io("waiting for the end of the cell"))?;
                drop(group);
            }
        }
        Ok(None)
    }
}
