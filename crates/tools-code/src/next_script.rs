//! Preparation of the next script of a session while no call waits for it: its folder, and a cell that shows the
//! folder.
//!
//! A cell serves one script. If the next script needs another view, the prepared cell is ended, and the script gets a
//! cell that is made for it.

use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Instant;

use parking_lot::Mutex;
use sandbox::{CellHost, CellSpec, ProgramFolder, Spawner};

/// Maximum number of sessions for whose next script a cell waits.
const MOST_WAITING: usize = 4;

/// Folders whose cells wait.
#[derive(Debug, Default)]
pub(crate) struct NextScripts(Mutex<Vec<NextScript>>);

#[derive(Debug)]
struct NextScript {
    /// Owner of the cells.
    owner: String,
    folder: ProgramFolder,
    /// Source of the waiting cell, which ends with the network of its owner.
    spawner: Weak<Spawner>,
    since: Instant,
}

impl NextScripts {
    /// Takes the folder that was prepared for the next script of this owner.
    pub(crate) fn take(&self, owner: &str) -> Option<ProgramFolder> {
        let mut waiting = self.0.lock();
        let at = waiting.iter().position(|next| next.owner == owner && next.spawner.strong_count() > 0)?;
        Some(waiting.swap_remove(at).folder)
    }

    /// Prepares a folder below `place` and a cell like that of the last script of this owner. Does nothing without a
    /// source of waiting cells. Blocks for some milliseconds.
    pub(crate) fn prepare(&self, owner: &str, place: &Path, (spec, host): (CellSpec, &CellHost)) {
        let Some(spawner) = &host.spawner else { return };
        if self.0.lock().iter().any(|next| next.owner == owner && next.spawner.strong_count() > 0) {
            return;
        }
        // The next script makes what cannot be made now, and reports errors.
        let Ok(folder) = ProgramFolder::make(place) else { return };
        let spec = CellSpec { workspace: folder.path().to_owned(), ..spec };
        if !matches!(host.make_ready(&spec), Ok(true)) {
            return;
        }
        let (owner, spawner) = (owner.to_owned(), Arc::downgrade(spawner));
        let next = NextScript { owner, folder, spawner, since: Instant::now() };
        let dropped = self.insert(next);
        for NextScript { spawner, .. } in &dropped {
            if let Some(spawner) = spawner.upgrade() {
                spawner.put_away();
            }
        }
    }

    /// Inserts an entry. Returns those that make room for it, and those whose cells have ended.
    fn insert(&self, next: NextScript) -> Vec<NextScript> {
        let mut waiting = self.0.lock();
        let mut dropped: Vec<_> = waiting
            .extract_if(.., |other| other.owner == next.owner || other.spawner.strong_count() == 0)
            .collect();
        if waiting.len() >= MOST_WAITING
            && let Some(oldest) = (0..waiting.len()).min_by_key(|at| waiting[*at].since)
        {
            dropped.push(waiting.swap_remove(oldest));
        }
        waiting.push(next);
        dropped
    }
}
