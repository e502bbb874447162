//! Rows of checkpoints: the author of a change, and the entries that it changed.

use std::io;
use std::path::{Path, PathBuf};

use checkpoint::{ChangeEntries, SavedEntry, State};
use jiff::Timestamp;
use store_api::{Checkpoint, CheckpointEntry, CheckpointState, Hash, Store};

/// Author of a change.
#[derive(Debug, Clone)]
pub(crate) struct Author {
    /// Id of the call, which is also that of its checkpoint.
    pub(crate) id: String,
    pub(crate) session: Option<String>,
    pub(crate) tool: String,
    pub(crate) now: Timestamp,
    /// Id of the checkpoint that this change undoes, or those of the first and the last one.
    pub(crate) undoes: Option<String>,
}

impl Author {
    /// Records the changes that are about to happen. Returns true if any of them can be undone.
    pub(crate) fn prepare(
        &self,
        store: &dyn Store,
        workspace: &Path,
        folder: &str,
        saved: &ChangeEntries,
    ) -> io::Result<bool> {
        if !saved.entries.iter().any(SavedEntry::can_be_undone) {
            return Ok(false);
        }
        self.add(store, workspace, folder, CheckpointState::Prepared, saved, &[])
            .map_err(io::Error::other)?;
        Ok(true)
    }

    /// Records a checkpoint with these entries.
    pub(crate) fn add(
        &self,
        store: &dyn Store,
        workspace: &Path,
        folder: &str,
        state: CheckpointState,
        saved: &ChangeEntries,
        roots: &[PathBuf],
    ) -> Result<(), store_api::StoreError> {
        let checkpoint = Checkpoint {
            id: self.id.clone(),
            session: self.session.clone(),
            tool: self.tool.clone(),
            workspace: workspace.to_owned(),
            made_at: self.now,
            folder: folder.to_owned(),
            state,
            undoes: self.undoes.clone(),
            paths: telling(saved),
            bytes: saved.bytes,
            unsaved: saved.unsaved.clone(),
            roots: roots.to_vec(),
        };
        store.require_room(saved.entries.len())?;
        let needed: Vec<Hash> = saved.needed.iter().copied().map(Hash::from).collect();
        store.checkpoints().add(&checkpoint, &mut rows(saved), &needed)
    }
}

/// Returns the number of entries whose change is visible.
pub(crate) fn telling(saved: &ChangeEntries) -> u64 {
    saved.entries.iter().filter(|entry| entry.is_telling()).count() as u64
}

/// Encodes entries as rows.
pub(crate) fn rows(saved: &ChangeEntries) -> impl Iterator<Item = CheckpointEntry> {
    let row = |entry: &SavedEntry| CheckpointEntry {
        path: entry.path.clone(),
        before: entry.before.as_ref().map(State::encode),
        after: entry.after.as_ref().map(State::encode),
        content: entry.before.as_ref().and_then(|before| before.content).map(Into::into),
    };
    saved.entries.iter().map(row)
}

/// Decodes entries from their rows. Returns `None` if a row is damaged.
pub(crate) fn entries(rows: Vec<CheckpointEntry>) -> Option<Vec<SavedEntry>> {
    let state = |bytes: Option<Vec<u8>>| match bytes {
        None => Some(None),
        Some(bytes) => State::decode(&bytes).map(Some),
    };
    let entry = |row: CheckpointEntry| {
        Some(SavedEntry { path: row.path, before: state(row.before)?, after: state(row.after)? })
    };
    rows.into_iter().map(entry).collect()
}
