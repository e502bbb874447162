//! Work after a response, which no response waits for.

use std::sync::Arc;

use parking_lot::Mutex;
use sandbox::CellSpec;
use tokio::task::JoinHandle;

use crate::snapshot::{Snapshot, Snapshots};

use super::SavedState;

/// Preparation for the next call.
pub(crate) struct NextCall {
    pub(super) snapshots: Arc<Snapshots>,
    /// Cell of this call, if it was a command.
    pub(super) cell: Option<Arc<CellSpec>>,
}

/// Background work after responses. Removals may take long, and no response waits for them.
#[derive(Default)]
pub(crate) struct BackgroundWork(Mutex<Vec<JoinHandle<()>>>);

impl BackgroundWork {
    /// Prepares the next call, which may come at any moment, and then removes a snapshot.
    pub(super) fn add(&self, snapshot: Snapshot, next: Option<NextCall>) {
        self.work(move || {
            let cell = next.as_ref().and_then(|next| next.cell.as_deref());
            if let Some(next) = &next {
                next.snapshots.make_ready(cell);
            }
            // The next start removes folders that cannot be removed now.
            drop(snapshot.discard());
            // Large sets of changes use much memory, which is returned to the system here.
            sandbox::give_memory_back();
            // The spawner's work takes longest and comes last, because the next call does not need it.
            if let Some(spawner) = cell.and_then(|cell| cell.spawner.as_ref()) {
                spawner.look_after_the_ended();
            }
        });
    }

    /// Starts work on a thread that may block.
    pub(crate) fn work(&self, work: impl FnOnce() + Send + 'static) {
        let mut all = self.0.lock();
        all.retain(|removal| !removal.is_finished());
        all.push(tokio::task::spawn_blocking(work));
    }

    /// Removes the preparation of a run that did nothing.
    pub(crate) fn drop_unused(&self, before: SavedState) {
        if let SavedState::Snapshot(snapshot) = before {
            self.add(snapshot, None);
        }
    }

    /// Removes the folder of a call.
    pub(crate) fn remove(&self, folder: checkpoint::Call) {
        let mut all = self.0.lock();
        all.retain(|removal| !removal.is_finished());
        all.push(tokio::task::spawn_blocking(move || drop(folder.discard())));
    }

    /// Waits for all work that was started.
    pub(crate) async fn wait(&self) {
        let all = std::mem::take(&mut *self.0.lock());
        for removal in all {
            // After a panic, the next start removes remaining folders.
            let _ = removal.await;
        }
    }
}
