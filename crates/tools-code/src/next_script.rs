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
pub(crate) struct NextScripts {
    waiting: Mutex<Vec<NextScript>>,
    /// Lock of the thread that prepares. An entry and its cell are made together.
    preparing: Mutex<()>,
}

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
        let mut waiting = self.waiting.lock();
        let at = waiting.iter().position(|next| next.owner == owner && next.spawner.strong_count() > 0)?;
        Some(waiting.swap_remove(at).folder)
    }

    /// Prepares a folder below `place` and a cell like that of the last script of this owner. Does nothing without a
    /// source of waiting cells. Blocks for some milliseconds.
    pub(crate) fn prepare(&self, owner: &str, place: &Path, (spec, host): (CellSpec, &CellHost)) {
        let Some(spawner) = &host.spawner else { return };
        let _alone = self.preparing.lock();
        if self.is_prepared(owner, spawner) {
            return;
        }
        // The next script makes what cannot be made now, and reports errors.
        let Ok(folder) = ProgramFolder::make(place) else { return };
        let spec = CellSpec { workspace: folder.path().to_owned(), ..spec };
        if !matches!(host.make_ready(&spec), Ok(true)) {
            return;
        }
        let next = NextScript {
            owner: owner.to_owned(),
            folder,
            spawner: Arc::downgrade(spawner),
            since: Instant::now(),
        };
        if let Some(spawner) = self.insert(next).and_then(|oldest| oldest.spawner.upgrade()) {
            spawner.put_away();
        }
    }

    /// Returns true if this owner has a folder whose cell waits. Removes a folder without a cell: a script that came
    /// before the entry was there has ended the cell, because that cell did not show the script's folder.
    fn is_prepared(&self, owner: &str, spawner: &Arc<Spawner>) -> bool {
        let mut waiting = self.waiting.lock();
        let _without_cell: Vec<_> = waiting
            .extract_if(.., |next| match next.spawner.upgrade() {
                Some(of_entry) if next.owner == owner => {
                    !Arc::ptr_eq(&of_entry, spawner) || !spawner.has_ready()
                }
                of_entry => of_entry.is_none(),
            })
            .collect();
        let is_prepared = waiting.iter().any(|next| next.owner == owner);
        // The folders are removed without the lock.
        drop(waiting);
        is_prepared
    }

    /// Inserts an entry. Returns the entry that makes room for it.
    fn insert(&self, next: NextScript) -> Option<NextScript> {
        let mut waiting = self.waiting.lock();
        let oldest = (0..waiting.len()).min_by_key(|at| waiting[*at].since);
        let dropped = oldest.filter(|_| waiting.len() >= MOST_WAITING).map(|at| waiting.swap_remove(at));
        waiting.push(next);
        dropped
    }
}
