//! A waiting cell that already shows the paths of the next call.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::stat;
use rustix::io::Errno;

use super::waiting::WaitingCell;
use crate::enforcement::Home;
use crate::error::SandboxError;
use crate::identity::Identity;
use crate::landlock;
use crate::overlay::Layers;
use crate::roots::Roots;
use crate::spec::{CellSpec, Overlay};

/// A prepared cell.
///
/// INVARIANT: the process is the first field: it ends before its sources are dropped.
#[derive(Debug)]
pub(crate) struct PreparedCell {
    pub(crate) waiting: WaitingCell,
    pub(crate) wanted: PreparationInputs,
    pub(crate) seen: Vec<FileIdentity>,
    pub(crate) roots: Roots,
    pub(crate) layers: Option<Layers>,
    /// Identity of the folder of the home's caches, if it was available.
    pub(crate) kept: Option<FileIdentity>,
    /// Lifetime of the home's content, as the cell shows it.
    pub(crate) home: Home,
    /// Descriptions of the parts that could not be shown.
    pub(crate) missing: Vec<String>,
    /// User namespace and mount namespace of a finished cell.
    pub(crate) finished: Option<(OwnedFd, OwnedFd)>,
    /// File that reports mounts and unmounts since the preparation.
    pub(crate) mounts: File,
}

/// Inputs that determine how a cell is built.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PreparationInputs {
    pub(crate) identity: Identity,
    pub(crate) landlock: Option<i32>,
    pub(crate) workspace: PathBuf,
    pub(crate) read_only: Vec<PathBuf>,
    pub(crate) toolchains: Vec<PathBuf>,
    pub(crate) links: BTreeMap<PathBuf, PathBuf>,
    /// Covered paths, with the identity of each: a cover disappears from a file that another file
    /// replaces.
    pub(crate) covered: Vec<(PathBuf, Option<FileIdentity>)>,
    pub(crate) read_write: Vec<PathBuf>,
    pub(crate) home_files: Vec<(PathBuf, Vec<u8>)>,
    pub(crate) caches: Option<PathBuf>,
    pub(crate) overlay: Option<Overlay>,
    pub(crate) reads_only: bool,
}

/// Identity of the file at a path: device, inode, mode and owner.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FileIdentity([u64; 5]);

impl FileIdentity {
    /// Returns the identity of the file that the path leads to.
    pub(crate) fn at(path: &Path) -> Result<Self, Errno> {
        let found = stat(path)?;
        let (user, group) = (found.st_uid.into(), found.st_gid.into());
        Ok(Self([found.st_dev, found.st_ino, found.st_mode.into(), user, group]))
    }
}

impl PreparationInputs {
    /// Returns the inputs for a cell that uses these caches.
    pub(crate) fn by(spec: &CellSpec, caches: Option<PathBuf>) -> Result<Self, SandboxError> {
        Ok(Self {
            identity: Identity::of_this_process()?,
            landlock: landlock::version(),
            workspace: spec.workspace.clone(),
            read_only: spec.read_only.clone(),
            toolchains: spec.toolchains.clone(),
            links: spec.links.clone(),
            covered: spec.covered.iter().map(|path| (path.clone(), FileIdentity::at(path).ok())).collect(),
            read_write: spec.read_write.clone(),
            home_files: spec.home_files.clone(),
            caches,
            overlay: spec.overlay.clone(),
            reads_only: spec.reads_only,
        })
    }
}

impl PreparedCell {
    /// Returns true if the cell was made with these folders for the changes.
    pub(crate) fn is_for(&self, overlay: Option<&Overlay>) -> bool {
        self.wanted.overlay.as_ref() == overlay
    }
}
