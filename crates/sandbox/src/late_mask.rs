//! Covering and freezing of files in a cell whose command already runs: files that must be hidden
//! or unchanged, and that appeared after the cell was built.
//!
//! The cell's first process hands its namespaces over before the command starts, while it still
//! may. For each covering, a new process enters them. That process does not belong to the cell, so
//! no process of the cell can stop or kill it.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use rustix::io::{Errno, read};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Signal, pidfd_send_signal};

use crate::child::blueprint::c_string;
use crate::child::late::{self, Cover, CoverInput};
use crate::child::report::Report;
use crate::direct_writes::Direct;
use crate::error::SandboxError;
use crate::overlay::Layers;
use crate::process;
use crate::roots::Roots;
use crate::spec::CellSpec;
use crate::streams::above_standard;

/// A handle that covers and freezes files in a single cell, from before the cell is built until it
/// has ended.
#[derive(Debug, Default)]
pub struct LateMasks(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Requests to execute as soon as the cell exists.
    waiting: BTreeMap<PathBuf, Cover>,
    cell: Option<RunningCell>,
    /// Paths that its command can write to directly, or could; `None` if the command never started.
    direct: Option<Direct>,
    /// True if a request failed.
    failed: bool,
    /// Notes for the caller of the command.
    notes: Vec<String>,
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

impl LateMasks {
    /// Covers these paths of the host in the cell, now or as soon as its command runs. Paths that
    /// do not exist or are not visible are skipped. A file that a program of the cell has already
    /// opened stays readable to it.
    ///
    /// Blocks for about a millisecond, longer the more memory this program uses.
    ///
    /// # Errors
    /// Returns an error if a path cannot be covered. The cell is then killed, so that no process in
    /// it sees the hidden file.
    pub fn cover(&self, paths: &[PathBuf]) -> Result<(), SandboxError> {
        self.state().act(paths, Cover::Hide)
    }

    /// Makes these paths read-only in the same way. A file that a program of the cell has already
    /// opened stays writable to it.
    ///
    /// # Errors
    /// Returns the errors of [`LateMasks::cover`], with the same effect.
    pub fn freeze(&self, paths: &[PathBuf]) -> Result<(), SandboxError> {
        self.state().act(paths, Cover::Freeze)
    }

    /// Returns true if the command can write to this path of the host directly, or could while it
    /// ran; false before the command starts.
    pub fn write_directly(&self, path: &Path) -> bool {
        self.state().direct.as_ref().is_some_and(|direct| direct.writes(path))
    }

    /// Returns true if the command can write to any file of the host directly, or could while it
    /// ran; false before the command starts.
    pub fn write_anything_directly(&self) -> bool {
        self.state().direct.as_ref().is_some_and(Direct::is_anything)
    }

    /// Returns true once this process knows that the cell's command starts. The command may be a
    /// moment ahead.
    pub fn have_begun(&self) -> bool {
        self.state().direct.is_some()
    }

    /// Returns true if the cell has started and ended.
    pub fn have_ended(&self) -> bool {
        let state = self.state();
        state.direct.is_some() && state.cell.is_none()
    }

    /// Leaves a note for the caller of the command.
    pub fn note(&self, note: String) {
        self.state().notes.push(note);
    }

    /// Returns the notes that no caller has taken yet.
    pub fn take_notes(&self) -> Vec<String> {
        std::mem::take(&mut self.state().notes)
    }

    /// Kills the cell, because the list of files to hide from it is no longer known.
    pub fn give_up(&self) {
        let mut state = self.state();
        state.failed = true;
        if let Some(cell) = &state.cell {
            cell.kill();
        }
    }

    /// Returns true if a request failed, so that the cell was killed.
    pub fn have_failed(&self) -> bool {
        self.state().failed
    }

    /// Records the namespaces of the command, which is about to run, and executes the waiting
    /// requests.
    fn begin(&self, cell: RunningCell) {
        let mut state = self.state();
        let waiting = std::mem::take(&mut state.waiting);
        if state.failed {
            // The cell was given up before it existed.
            cell.kill();
        }
        state.direct = Some(cell.direct.clone());
        state.cell = Some(cell);
        for cover in [Cover::Freeze, Cover::Hide] {
            let chosen = waiting.iter().filter(|(_, wanted)| **wanted == cover);
            // A failure kills the cell, and `failed` records that.
            let _killed = state.act(&chosen.map(|(path, _)| path.clone()).collect::<Vec<_>>(), cover);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change of the state is a single step, so a panic elsewhere has left it consistent.
        self.0.lock()
    }
}

impl State {
    fn act(&mut self, paths: &[PathBuf], cover: Cover) -> Result<(), SandboxError> {
        match &self.cell {
            None => {
                for path in paths {
                    let wanted = self.waiting.entry(path.clone()).or_insert(cover);
                    // A hidden file need not be frozen.
                    if cover == Cover::Hide {
                        *wanted = cover;
                    }
                }
                Ok(())
            }
            Some(cell) => {
                let covered = cell.cover(paths, cover);
                self.failed |= covered.is_err();
                covered
            }
        }
    }
}

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
    /// Returns the masks that `spec` asks for.
    pub(crate) fn of(spec: &CellSpec, roots: &Roots, layers: Option<&Layers>) -> Option<Self> {
        let masks = spec.late_masks.clone()?;
        Some(Self { masks, direct: Direct::new(roots, layers), user: Mutex::default() })
    }

    /// Takes one of the cell's namespaces, the user namespace first. The masks are in force when
    /// the second one arrives.
    pub(crate) fn takes(&self, which: Report, namespace: OwnedFd, process: OwnedFd) {
        let mut first = self.user.lock();
        match (which, first.take()) {
            (Report::MountNamespace, Some(user)) => {
                let namespaces = Namespaces { user, mount: namespace };
                self.masks.begin(RunningCell { namespaces, process, direct: self.direct.clone() });
            }
            _ => *first = Some(namespace),
        }
    }
}

impl Late {
    /// Ends all covering. The result keeps the cell's file system alive until it is dropped; if it
    /// is the last reference, the drop waits while the kernel takes down the mounts.
    pub(crate) fn end(&self) -> CellReferences {
        // Taking the lock waits for a covering in progress, whose process is in the cell's
        // namespaces.
        CellReferences { _cell: self.masks.state().cell.take() }
    }
}

impl Drop for Late {
    fn drop(&mut self) {
        drop(self.end());
    }
}

/// The references that keep alive the file system of an ended cell.
#[derive(Debug)]
pub(crate) struct CellReferences {
    _cell: Option<RunningCell>,
}

impl RunningCell {
    fn cover(&self, paths: &[PathBuf], cover: Cover) -> Result<(), SandboxError> {
        let covered = self.attempt(paths, cover);
        if covered.is_err() {
            self.kill();
        }
        covered
    }

    fn kill(&self) {
        // The only possible failure is a cell that has ended.
        let _ended = pidfd_send_signal(&self.process, Signal::KILL);
    }

    fn attempt(&self, paths: &[PathBuf], cover: Cover) -> Result<(), SandboxError> {
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
