//! Preparation of the next call while no call waits: its folders, and for a command a cell that has
//! mounted them.

use std::sync::{Arc, Weak};

use parking_lot::MutexGuard;
use sandbox::{CellHost, CellSpec, Spawner};

use super::changes::overlay;
use super::{ChangedBy, Snapshots};

impl Snapshots {
    /// Prepares the folders for the next call of this kind. For a command with the view of `cell`,
    /// starts a waiting cell that already keeps changes there. The next call reports errors.
    pub(crate) fn make_ready(&self, cell: Option<(&CellSpec, &CellHost)>) {
        let changed_by = if cell.is_some() { ChangedBy::Command } else { ChangedBy::Draft };
        // Another thread that holds the lock prepares the same folders.
        let Some(closed) = self.making.try_lock() else { return };
        if *closed || self.ready(changed_by).is_some() {
            return;
        }
        let Ok(mut call) = self.area().begin() else { return };
        let begun = cell.map(|(cell, host)| {
            let overlay = Some(overlay(&call));
            host.make_ready(&CellSpec { overlay, ..cell.clone() })
        });
        if let Some(Err(_)) = begun {
            // The folders cannot be used any more. The next start removes folders that cannot be
            // removed now.
            drop(call.discard());
            let Ok(other) = self.area().begin() else { return };
            call = other;
        }
        if let Some((_, host)) = cell {
            *self.ready_in() = host.spawner.as_ref().map(Arc::downgrade).unwrap_or_default();
        }
        *self.ready(changed_by) = Some(call);
    }

    /// Returns true if the folders for the next command are mounted in a cell of this spawner, or
    /// in no cell.
    pub(super) fn is_ready_in(&self, spawner: Option<&Arc<Spawner>>) -> bool {
        let ready_in = self.ready_in().upgrade();
        ready_in.is_none_or(|ready_in| spawner.is_some_and(|spawner| Arc::ptr_eq(spawner, &ready_in)))
    }

    /// Removes the folders that were prepared in a cell of this spawner, which is about to end. The
    /// next start removes folders that cannot be removed now.
    pub(crate) fn let_go_of(&self, spawner: &Arc<Spawner>) {
        let _alone = self.making.lock();
        if !self.is_ready_in(Some(spawner)) {
            return;
        }
        // The cell ends first, because it uses the folders.
        spawner.put_away();
        let ready = self.ready(ChangedBy::Command).take();
        drop(ready.map(checkpoint::Call::discard));
    }

    /// Removes the folders that were prepared for a call, because no call follows. The next start
    /// removes folders that cannot be removed now.
    pub(crate) fn put_away(&self) {
        let mut closed = self.making.lock();
        *closed = true;
        // The cell ends first, because it uses the folders.
        if let Some(spawner) = self.ready_in().upgrade() {
            spawner.put_away();
        }
        for changed_by in [ChangedBy::Command, ChangedBy::Draft] {
            let ready = self.ready(changed_by).take();
            drop(ready.map(checkpoint::Call::discard));
        }
    }

    fn ready_in(&self) -> MutexGuard<'_, Weak<Spawner>> {
        self.ready_in.lock()
    }

    pub(super) fn ready(&self, changed_by: ChangedBy) -> MutexGuard<'_, Option<checkpoint::Call>> {
        let ready = match changed_by {
            ChangedBy::Command => &self.ready_for_command,
            ChangedBy::Draft | ChangedBy::Restoration => &self.ready_for_draft,
        };
        ready.lock()
    }
}
