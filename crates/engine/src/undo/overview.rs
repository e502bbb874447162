//! The newest changes of a workspace, as a user looks for the one to undo.

use std::collections::HashSet;

use serde::Serialize;
use serde_json::Value;
use store_api::{Checkpoint, Store, StoreError};
use tool::{CheckpointSummary, ToolError};

use super::{ChangedPath, summary, unreadable};
use crate::Engine;
use crate::actions::actions;
use crate::checkpoint_rows::entries;
use crate::db_change::is_of_database;

/// Maximum number of changed paths that an overview names.
const MAX_PATHS: u32 = 4;

/// Maximum number of checkpoints among which the newest change is searched for.
const MAX_SEARCHED: u32 = 1_000;

/// Checkpoint with what its call did.
#[derive(Debug, Serialize)]
pub struct ChangeOverview {
    /// Summary, as in the list.
    #[serde(flatten)]
    pub summary: CheckpointSummary,
    /// Planned actions of the call in words, such as `run npm install`. Empty if the audit has no such call.
    pub actions: Vec<String>,
    /// First changed paths.
    pub changes: Vec<ChangedPath>,
}

impl Engine {
    /// Lists the checkpoints of this workspace with what their calls did, newest first. Blocks on the disk.
    ///
    /// # Errors
    /// Fails if the checkpoints or the audit cannot be read.
    pub fn change_overviews(&self, limit: u32) -> Result<Vec<ChangeOverview>, ToolError> {
        let all = self.store.checkpoints().list(&self.place.workspace, limit).map_err(unreadable)?;
        let overviews = all.into_iter().map(|checkpoint| self.overview(checkpoint));
        overviews.collect::<Result<_, StoreError>>().map_err(unreadable)
    }

    /// Returns the newest change that is not undone and is no undo itself. Blocks on the disk.
    ///
    /// # Errors
    /// Fails if the checkpoints or the audit cannot be read.
    pub fn last_change(&self) -> Result<Option<ChangeOverview>, ToolError> {
        let all = self.store.checkpoints().list(&self.place.workspace, MAX_SEARCHED).map_err(unreadable)?;
        newest_in_force(all).map(|checkpoint| self.overview(checkpoint).map_err(unreadable)).transpose()
    }

    fn overview(&self, checkpoint: Checkpoint) -> Result<ChangeOverview, StoreError> {
        let store = self.store.as_ref();
        let rows = store.audit().show(&checkpoint.id)?;
        let plan = rows.last().and_then(|recorded| recorded.row.plan.as_deref()).unwrap_or_default();
        let plan: Value = serde_json::from_str(plan).unwrap_or_default();
        let changes = first_paths(store, &checkpoint.id, MAX_PATHS)?;
        Ok(ChangeOverview { summary: summary(checkpoint), actions: actions(&plan), changes })
    }
}

/// Returns the first changed paths of a checkpoint, at most `limit`.
pub(crate) fn first_paths(store: &dyn Store, id: &str, limit: u32) -> Result<Vec<ChangedPath>, StoreError> {
    let (data, files): (Vec<_>, Vec<_>) =
        store.checkpoints().first_entries(id, limit)?.into_iter().partition(is_of_database);
    // Entries that are damaged are reported by the undo that needs them.
    let files = entries(files).unwrap_or_default();
    let data = data.iter().map(|row| ChangedPath { what: "changed", path: tool::path_text(&row.path) });
    Ok(files.iter().filter(|entry| entry.is_telling()).map(ChangedPath::of).chain(data).collect())
}

/// Returns the newest checkpoint that is neither undone nor an undo, of checkpoints from the newest to
/// the oldest.
fn newest_in_force(all: Vec<Checkpoint>) -> Option<Checkpoint> {
    let mut undone = HashSet::new();
    for checkpoint in &all {
        // An undo that is undone itself undoes nothing.
        if undone.contains(&checkpoint.id) {
            continue;
        }
        let Some(undoes) = &checkpoint.undoes else { continue };
        let (first, last) = undoes.split_once("..").unwrap_or((undoes, undoes));
        let is_within = |other: &&Checkpoint| *first <= *other.id && *other.id <= *last;
        let paths: u64 = all.iter().filter(is_within).map(|other| other.paths).sum();
        // An undo of only some paths leaves a change in force.
        if first != last || checkpoint.paths >= paths {
            undone.extend(all.iter().filter(is_within).map(|other| other.id.clone()));
        }
    }
    all.into_iter().find(|checkpoint| checkpoint.undoes.is_none() && !undone.contains(&checkpoint.id))
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use store_api::CheckpointState;

    use super::*;

    fn checkpoint(id: &str, undoes: Option<&str>, paths: u64) -> Checkpoint {
        Checkpoint {
            id: id.to_owned(),
            session: None,
            tool: "file_write".to_owned(),
            workspace: "/w".into(),
            made_at: Timestamp::UNIX_EPOCH,
            folder: String::new(),
            state: CheckpointState::Done,
            undoes: undoes.map(str::to_owned),
            paths,
            bytes: 0,
            unsaved: Vec::new(),
            roots: Vec::new(),
        }
    }

    #[test]
    fn the_newest_change_in_force_is_neither_an_undo_nor_undone() {
        for (undos, expected) in [
            (&[][..], Some("3")),
            (&[("4", "3", 2)], Some("2")),
            // Some paths alone were undone.
            (&[("4", "3", 1)], Some("3")),
            // The undo was undone.
            (&[("5", "4", 2), ("4", "3", 2)], Some("3")),
            (&[("4", "2..3", 2)], Some("1")),
            (&[("4", "1..3", 3)], None),
        ] {
            let undos = undos.iter().map(|(id, undoes, paths)| checkpoint(id, Some(undoes), *paths));
            let all = undos.chain(["3", "2", "1"].map(|id| checkpoint(id, None, 2))).collect();
            assert_eq!(newest_in_force(all).map(|found| found.id).as_deref(), expected);
        }
    }
}
