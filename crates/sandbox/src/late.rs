//! Covers or freezes files in a cell whose command runs already: files that must be hidden, or not be changed, and that came,
//! or came again, since the cell was built.
//!
//! The cell's first process hands its namespaces over before the command starts, while it still may. A process of its own
//! then enters them for each covering; it is no process of the cell, so nothing in there can stop or kill it.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::{Errno, read};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Signal, pidfd_send_signal};

use crate::child::blueprint::c_string;
use crate::child::late::{self, Cover, Covering};
use crate::child::report::Report;
use crate::direct::Direct;
use crate::error::SandboxError;
use crate::overlay::Layers;
use crate::process;
use crate::roots::Roots;
use crate::spec::CellSpec;
use crate::streams::above_standard;

/// Covers and freezes files in the one cell that was given this, from before it is built until it has ended.
#[derive(Debug, Default)]
pub struct LateMasks(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// What is to be done as soon as the cell is there.
    waiting: BTreeMap<PathBuf, Cover>,
    cell: Option<Running>,
    /// Where its command can write to at once, or could; none where it never began.
    direct: Option<Direct>,
    /// Something could not be covered.
    failed: bool,
    /// What the caller of the command should know.
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
struct Running {
    namespaces: Namespaces,
    /// The cell's first process.
    process: OwnedFd,
    direct: Direct,
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
        self.state().act(paths, Cover::Hide)
    }

    /// Makes these paths read-only in the same way. What a program of the cell has open already, it can go on writing.
    ///
    /// # Errors
    /// As those of [`LateMasks::cover`].
    pub fn freeze(&self, paths: &[PathBuf]) -> Result<(), SandboxError> {
        self.state().act(paths, Cover::Freeze)
    }

    /// Whether the command can write to this path of the host at once, or could while it ran. Not before it has begun.
    pub fn write_directly(&self, path: &Path) -> bool {
        self.state().direct.as_ref().is_some_and(|direct| direct.writes(path))
    }

    /// Whether the command can write to anything of the host at once, or could while it ran. Not before it has begun.
    pub fn write_anything_directly(&self) -> bool {
        self.state().direct.as_ref().is_some_and(Direct::is_anything)
    }

    /// Whether it is known of the cell that its command begins. The command may be a moment ahead of that.
    pub fn have_begun(&self) -> bool {
        self.state().direct.is_some()
    }

    /// Whether the cell has begun and has ended.
    pub fn have_ended(&self) -> bool {
        let state = self.state();
        state.direct.is_some() && state.cell.is_none()
    }

    /// Leaves a note for the caller of the command.
    pub fn note(&self, note: String) {
        self.state().notes.push(note);
    }

    /// The notes that nobody has taken yet.
    pub fn take_notes(&self) -> Vec<String> {
        std::mem::take(&mut self.state().notes)
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
        let waiting = std::mem::take(&mut state.waiting);
        if state.failed {
            // It was given up before it was there.
            cell.kill();
        }
        state.direct = Some(cell.direct.clone());
        state.cell = Some(cell);
        for cover in [Cover::Freeze, Cover::Hide] {
            let chosen = waiting.iter().filter(|(_, wanted)| **wanted == cover);
            // The cell is killed where it fails, and that is remembered.
            let _killed = state.act(&chosen.map(|(path, _)| path.clone()).collect::<Vec<_>>(), cover);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change of it is a single step, so a panic elsewhere has left it whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn act(&mut self, paths: &[PathBuf], cover: Cover) -> Result<(), SandboxError> {
        match &self.cell {
            None => {
                for path in paths {
                    let wanted = self.waiting.entry(path.clone()).or_insert(cover);
                    // What must be hidden need not be frozen.
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

/// The masks of one cell, as its supervisor holds them. When it is dropped, nothing is covered any more, and nothing of
/// this process keeps the cell's file system.
#[derive(Debug)]
pub(crate) struct Late {
    masks: Arc<LateMasks>,
    direct: Direct,
    /// What has been handed over so far.
    user: Mutex<Option<OwnedFd>>,
}

impl Late {
    /// What `spec` wants covered.
    pub(crate) fn of(spec: &CellSpec, roots: &Roots, layers: Option<&Layers>) -> Option<Self> {
        let masks = spec.late_masks.clone()?;
        Some(Self { masks, direct: Direct::new(roots, layers), user: Mutex::default() })
    }

    /// The cell hands over one of its namespaces, the user namespace first. With the other one the masks are in force.
    pub(crate) fn takes(&self, which: Report, namespace: OwnedFd, process: OwnedFd) {
        let mut first = self.user.lock().unwrap_or_else(PoisonError::into_inner);
        match (which, first.take()) {
            (Report::MountNamespace, Some(user)) => {
                let namespaces = Namespaces { user, mount: namespace };
                self.masks.begin(Running { namespaces, process, direct: self.direct.clone() });
            }
            _ => *first = Some(namespace),
        }
    }
}

impl Late {
    /// Nothing is covered any more. What is left keeps the cell's file system until it is dropped; where nobody else does
    /// that waits for the kernel to take the mounts down.
    pub(crate) fn end(&self) -> Kept {
        // Waits for a covering that is going on: its process is in the cell's namespaces.
        Kept { _cell: self.masks.state().cell.take() }
    }
}

impl Drop for Late {
    fn drop(&mut self) {
        drop(self.end());
    }
}

/// What keeps the file system of a cell that is over.
#[derive(Debug)]
pub(crate) struct Kept {
    _cell: Option<Running>,
}

impl Running {
    fn cover(&self, paths: &[PathBuf], cover: Cover) -> Result<(), SandboxError> {
        let covered = self.attempt(paths, cover);
        if covered.is_err() {
            self.kill();
        }
        covered
    }

    fn kill(&self) {
        // The one possible failure is that it has ended.
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
        let covering = Covering {
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
