//! Covers files in a cell whose command runs already: files that must be hidden and that came, or came again, since the
//! cell was built.
//!
//! The cell's first process hands its namespaces over before the command starts, while it still may. A process of its own
//! then enters them for each covering; it is no process of the cell, so nothing in there can stop or kill it.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::{Errno, read};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Signal, pidfd_send_signal};

use crate::child::blueprint::c_string;
use crate::child::late::{self, Covering};
use crate::child::report::Report;
use crate::error::SandboxError;
use crate::process;
use crate::roots::Roots;
use crate::spec::CellSpec;
use crate::streams::above_standard;

/// Covers files in the one cell that was given this, from before it is built until it has ended.
#[derive(Debug, Default)]
pub struct LateMasks(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// What is to be covered as soon as the cell is there.
    waiting: BTreeSet<PathBuf>,
    cell: Option<Running>,
    /// Something could not be covered.
    failed: bool,
}

/// The namespaces of a cell.
#[derive(Debug)]
struct Namespaces {
    user: OwnedFd,
    mount: OwnedFd,
}

/// A cell whose command runs.
#[derive(Debug)]
struct Running {
    namespaces: Namespaces,
    /// The cell's first process.
    process: OwnedFd,
    roots: Roots,
}

impl LateMasks {
    /// Covers these paths of the host in the cell, now or as soon as its command runs. What does not exist, or is not
    /// shown, is left out; what a program of the cell has open already, it can go on reading.
    ///
    /// Blocks for about a millisecond, longer the more memory this program holds.
    ///
    /// # Errors
    /// Where a path cannot be covered. The cell is killed then, so that nothing in it sees what it must not.
    pub fn cover(&self, paths: &[PathBuf]) -> Result<(), SandboxError> {
        let mut state = self.state();
        match &state.cell {
            None => {
                state.waiting.extend(paths.iter().cloned());
                Ok(())
            }
            Some(cell) => {
                let covered = cell.cover(paths);
                state.failed |= covered.is_err();
                covered
            }
        }
    }

    /// Kills the cell, because it is no longer known what must be hidden from it.
    pub fn give_up(&self) {
        let mut state = self.state();
        state.failed = true;
        if let Some(cell) = &state.cell {
            cell.kill();
        }
    }

    /// Whether something could not be covered, so that the cell was killed.
    pub fn have_failed(&self) -> bool {
        self.state().failed
    }

    /// The command is about to run in these namespaces.
    fn begin(&self, cell: Running) {
        let mut state = self.state();
        let waiting: Vec<PathBuf> = std::mem::take(&mut state.waiting).into_iter().collect();
        if state.failed {
            // It was given up before it was there.
            cell.kill();
        }
        state.failed |= !waiting.is_empty() && cell.cover(&waiting).is_err();
        state.cell = Some(cell);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change of it is a single step, so a panic elsewhere has left it whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The masks of one cell, as its supervisor holds them. When it is dropped, nothing is covered any more, and nothing of
/// this process keeps the cell's file system.
pub(crate) struct Late {
    masks: Arc<LateMasks>,
    roots: Roots,
    /// What has been handed over so far.
    user: Mutex<Option<OwnedFd>>,
}

impl Late {
    /// What `spec` wants covered.
    pub(crate) fn of(spec: &CellSpec, roots: &Roots) -> Option<Self> {
        Some(Self { masks: spec.late_masks.clone()?, roots: roots.clone(), user: Mutex::default() })
    }

    /// The cell hands over one of its namespaces, the user namespace first. With the other one the masks are in force.
    pub(crate) fn takes(&self, which: Report, namespace: OwnedFd, process: OwnedFd) {
        let mut first = self.user.lock().unwrap_or_else(PoisonError::into_inner);
        match (which, first.take()) {
            (Report::MountNamespace, Some(user)) => {
                let namespaces = Namespaces { user, mount: namespace };
                self.masks.begin(Running { namespaces, process, roots: self.roots.clone() });
            }
            _ => *first = Some(namespace),
        }
    }
}

impl Drop for Late {
    fn drop(&mut self) {
        // Waits for a covering that is going on: its process is in the cell's namespaces.
        self.masks.state().cell = None;
    }
}

impl Running {
    fn cover(&self, paths: &[PathBuf]) -> Result<(), SandboxError> {
        let covered = self.attempt(paths);
        if covered.is_err() {
            self.kill();
        }
        covered
    }

    fn kill(&self) {
        // The one possible failure is that it has ended.
        let _ended = pidfd_send_signal(&self.process, Signal::KILL);
    }

    fn attempt(&self, paths: &[PathBuf]) -> Result<(), SandboxError> {
        let places = self.roots.inside(paths)?.into_keys();
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
        let covering = Covering {
            keep,
            user: user.as_raw_fd(),
            mount: mount.as_raw_fd(),
            answer: theirs.as_raw_fd(),
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
