//! Work after a response, which no response waits for.

use std::sync::Arc;

use parking_lot::Mutex;
use sandbox::{CellHost, CellSpec};
use tokio::task::JoinHandle;
use tool::{EffectState, ToolError};

use crate::snapshot::Snapshots;

/// Preparation for the next call.
pub(crate) struct NextCall {
    pub(super) snapshots: Arc<Snapshots>,
    /// Cell of this call, if it was a command.
    pub(super) cell: Option<(Arc<CellSpec>, Arc<CellHost>)>,
}

/// Background work after responses. Removals may take long, and no response waits for them.
#[derive(Default)]
pub(crate) struct BackgroundWork(Mutex<Vec<JoinHandle<()>>>);

impl BackgroundWork {
    /// Prepares the next call, which may come at any moment, and then removes a snapshot.
    pub(super) fn add(&self, remove: impl FnOnce() + Send + 'static, next: Option<NextCall>) {
        self.work(move || {
            let cell = next.as_ref().and_then(|next| next.cell.as_ref());
            let cell = cell.map(|(cell, host)| (&**cell, &**host));
            if let Some(next) = &next {
                next.snapshots.make_ready(cell);
            }
            // The next start removes folders that cannot be removed now.
            remove();
            // Large sets of changes use much memory, which is returned to the system here.
            sandbox::give_memory_back();
            // The spawner's work takes longest and comes last, because the next call does not need it.
            if let Some(spawner) = cell.and_then(|(_, host)| host.spawner.as_ref()) {
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

/// Runs work on the changes of a call on a thread that may block.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ToolError> {
    tokio::task::spawn_blocking(work).await.map_err(|panic| {
        ToolError::internal("handling the changes of the call failed")
            .effect(EffectState::Maybe)
            .because(panic)
    })
}
