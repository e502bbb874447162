//! Covering and freezing of files in a cell whose command already runs: files that must be hidden
//! or unchanged, and that appeared after the cell was built.
//!
//! The backend of the cell does the work, behind [`LateCover`].

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use parking_lot::{Mutex, MutexGuard};

use crate::child::cover::Cover;
use crate::direct_writes::Direct;
use crate::error::SandboxError;

/// A handle that covers and freezes files in a single cell, from before the cell is built until it
/// has ended.
#[derive(Debug, Default)]
pub struct LateMasks(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Requests to execute as soon as the cell exists.
    waiting: BTreeMap<PathBuf, Cover>,
    cell: Option<Box<dyn LateCover>>,
    /// Paths that its command can write to directly, or could; `None` if the command never started.
    direct: Option<Direct>,
    /// True if a request failed.
    failed: bool,
    /// Notes for the caller of the command.
    notes: Vec<String>,
}

/// A running cell in which a backend can cover files.
pub(crate) trait LateCover: fmt::Debug + Send {
    /// Covers or freezes these paths of the host in the cell. Paths that do not exist or are not
    /// visible are skipped.
    fn cover(&self, paths: &[PathBuf], cover: Cover) -> Result<(), SandboxError>;

    /// Kills every process of the cell.
    fn kill(&self);

    /// Returns the paths that the command can write to directly.
    fn direct(&self) -> &Direct;
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

    /// Connects the handle to a cell whose command is about to run, and executes the waiting
    /// requests.
    pub(crate) fn begin(&self, cell: Box<dyn LateCover>) {
        let mut state = self.state();
        let waiting = std::mem::take(&mut state.waiting);
        if state.failed {
            // The cell was given up before it existed.
            cell.kill();
        }
        state.direct = Some(cell.direct().clone());
        state.cell = Some(cell);
        for cover in [Cover::Freeze, Cover::Hide] {
            let chosen = waiting.iter().filter(|(_, wanted)| **wanted == cover);
            // A failure kills the cell, and `failed` records that.
            let _killed = state.act(&chosen.map(|(path, _)| path.clone()).collect::<Vec<_>>(), cover);
        }
    }

    /// Ends all covering. The result may keep the cell's file system alive until it is dropped.
    pub(crate) fn end(&self) -> Option<Box<dyn LateCover>> {
        // Taking the lock waits for a covering in progress, whose process may be in the cell.
        self.state().cell.take()
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
                if covered.is_err() {
                    cell.kill();
                    self.failed = true;
                }
                covered
            }
        }
    }
}
