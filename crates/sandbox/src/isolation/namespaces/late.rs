//! Covering of files in a running cell with namespaces.
//!
//! The cell's first process hands its namespaces over before the command starts, while it still
//! may. For each covering, a new process enters them. That process does not belong to the cell, so
//! no process of the cell can stop or kill it.

use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::io::{Errno, read};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Signal, pidfd_send_signal};

use crate::child::blueprint::c_string;
use crate::child::cover::Cover;
use crate::child::late::{self, CoverInput};
use crate::child::report::Report;
use crate::direct_writes::Direct;
use crate::error::SandboxError;
use crate::isolation::backend::CellHost;
use crate::late_mask::{LateCover, LateMasks};
use crate::overlay::Layers;
use crate::process;
use crate::roots::Roots;
use crate::spawner::CellReferences;
use crate::streams::above_standard;

/// The masks of one cell, owned by its supervisor. Dropping it ends all covering and releases this
/// process's references to the cell's file system.
#[derive(Debug)]
pub(crate) struct Late {
    masks: Arc<LateMasks>,
    direct: Direct,
    /// User namespace of the cell, received before its mount namespace.
    user: Mutex<Option<OwnedFd>>,
}

impl Late {
    /// Returns the masks that the host asks for.
    pub(crate) fn of(host: &CellHost, roots: &Roots, layers: Option<&Layers>) -> Option<Self> {
        let masks = host.late_masks.clone()?;
        Some(Self { masks, direct: Direct::new(roots, layers), user: Mutex::default() })
    }

    /// Takes one of the cell's namespaces, the user namespace first. The masks are in force when
    /// the second one arrives.
    pub(crate) fn takes(&self, which: Report, namespace: OwnedFd, process: OwnedFd) {
        let mut first = self.user.lock();
        match (which, first.take()) {
            (Report::MountNamespace, Some(user)) => {
                let namespaces = Namespaces { user, mount: namespace };
                let direct = self.direct.clone();
                self.masks.begin(Box::new(RunningCell { namespaces, process, direct }));
            }
            _ => *first = Some(namespace),
        }
    }
}

impl Late {
    /// Ends all covering. The result keeps the cell's file system alive until it is dropped; if it
    /// is the last reference, the drop waits while the kernel takes down the mounts.
    pub(crate) fn end(&self) -> CellReferences {
        CellReferences { _cell: self.masks.end() }
    }
}

impl Drop for Late {
    fn drop(&mut self) {
        drop(self.end());
    }
}

/// The namespaces of a cell.
#[derive(Debug)]
struct Namespaces {
    user: OwnedFd,
    mount: OwnedFd,
}

/// A cell whose command runs.
#[derive(Debug)]
struct RunningCell {
    namespaces: Namespaces,
    /// Descriptor of the cell's first process.
    process: OwnedFd,
    direct: Direct,
}

impl LateCover for RunningCell {
    fn kill(&self) {
        // The only possible failure is a cell that has ended.
        let _ended = pidfd_send_signal(&self.process, Signal::KILL);
    }

    fn direct(&self) -> &Direct {
        &self.direct
    }

    fn cover(&self, paths: &[PathBuf], cover: Cover) -> Result<(), SandboxError> {
        let places = self.direct.roots().inside(paths)?.into_keys();
        let places: Vec<CString> =
            places.map(|path| c_string("path", path)).collect::<Result<_, SandboxError>>()?;
        if places.is_empty() {
            return Ok(());
        }
        let (answer, theirs) = pipe_with(PipeFlags::CLOEXEC).map_err(SandboxError::io("making a pipe"))?;
        let theirs = above_standard(theirs)?;
        let (user, mount) = (&self.namespaces.user, &self.namespaces.mount);
        let mut keep = vec![user.as_raw_fd(), mount.as_raw_fd(), theirs.as_raw_fd()];
        keep.sort_unstable();
        let covering = CoverInput {
            keep,
            user: user.as_raw_fd(),
            mount: mount.as_raw_fd(),
            answer: theirs.as_raw_fd(),
            cover,
            places,
        };
        let process = process::start(0, || late::cover(&covering))
            .map_err(SandboxError::io("starting a process that covers files"))?;
        drop(theirs);
        let mut errno = [0_u8; 4];
        let answered = loop {
            match read(answer.as_fd(), &mut errno) {
                Err(Errno::INTR) => {}
                other => break other,
            }
        };
        process.end().map_err(SandboxError::io("waiting for a process that covers files"))?;
        let failed = |errno: Errno| SandboxError::Setup {
            doing: format!("covering files that came while the command ran (`{}`)", first(paths).display()),
            source: errno.into(),
        };
        match (answered.map_err(failed)?, i32::from_ne_bytes(errno)) {
            (4, 0) => Ok(()),
            (4, errno @ 1..4096) => Err(failed(Errno::from_raw_os_error(errno))),
            _ => Err(failed(Errno::PROTO)),
        }
    }
}

fn first(paths: &[PathBuf]) -> &Path {
    paths.first().map_or(Path::new(""), PathBuf::as_path)
}
