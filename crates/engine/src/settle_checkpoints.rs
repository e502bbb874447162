//! Completion of checkpoints after a change, by the process that made the change or by the next
//! start.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use checkpoint::{ChangeEntries, SavedEntry, Workspace};
use database::Databases;
use store_api::{CheckpointState, Store};

use crate::checkpoint_rows::{entries, rows, telling};
use crate::db_change::{self, is_of_database};
use crate::saved_contents::SavedContents;

/// Completed or removed checkpoint of a direct change.
pub(crate) struct Settled {
    /// True if the checkpoint has an entry.
    pub(crate) made: bool,
    pub(crate) unsaved: Vec<PathBuf>,
}

/// Completes the checkpoint of a direct change with the current state, or removes it if nothing has
/// changed.
pub(crate) fn settle(
    store: &dyn Store,
    workspace: &Workspace,
    id: &str,
    saved: ChangeEntries,
    (roots, renamed): (&[PathBuf], &[PathBuf]),
) -> Result<Settled, Box<dyn std::error::Error + Send + Sync>> {
    let saved = workspace.note_after(saved, (roots, renamed), &SavedContents::new(store, None))?;
    let made = saved.entries.iter().any(SavedEntry::is_telling);
    if made {
        store.checkpoints().complete_as(id, &mut rows(&saved), telling(&saved), &saved.unsaved)?;
    } else {
        store.checkpoints().remove(id)?;
    }
    Ok(Settled { made, unsaved: saved.unsaved })
}

/// Settles the checkpoints of processes that have ended, after their commits were rolled back or
/// cleaned up. `is_open` returns true if a folder still has a process or an unfinished commit.
pub(crate) fn settle_all(
    store: &Arc<dyn Store>,
    databases: Option<&Databases>,
    is_open: impl Fn(&str) -> Result<bool, checkpoint::Error>,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    for checkpoint in store.checkpoints().unfinished()? {
        if is_open(&checkpoint.folder)? {
            continue;
        }
        // The process may have completed the checkpoint and closed its folder after the list was
        // read. From now on no other process changes it.
        let now = store.checkpoints().find(&checkpoint.id)?;
        let Some(checkpoint) = now.filter(|now| now.state != CheckpointState::Done) else { continue };
        if checkpoint.state == CheckpointState::Prepared {
            store.checkpoints().remove(&checkpoint.id)?;
            continue;
        }
        let rows = store.checkpoints().entries(&checkpoint.id)?;
        if rows.iter().any(is_of_database) {
            db_change::settle(store, databases, &checkpoint, &rows)?;
            continue;
        }
        let Some(entries) = entries(rows) else { continue };
        // A workspace that no longer exists cannot be compared.
        let Ok(workspace) = Workspace::open(&checkpoint.workspace) else { continue };
        for root in &checkpoint.roots {
            // A file that is being renamed over another has a temporary name for a moment.
            roots::remove_abandoned_in(&checkpoint.workspace, root.parent().unwrap_or(Path::new("")))?;
        }
        let saved = ChangeEntries { entries, bytes: checkpoint.bytes, ..ChangeEntries::default() };
        settle(store.as_ref(), &workspace, &checkpoint.id, saved, (&checkpoint.roots, &[]))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::checkpoint_rows::Author;

    /// Creates a store with one checkpoint that its process has not completed.
    fn store_with_prepared(folder: &Path, id: &str) -> Arc<dyn Store> {
        let store = Arc::new(store_sqlite::SqliteStore::open(folder).unwrap());
        let author = Author {
            id: id.to_owned(),
            session: None,
            tool: "file_write".to_owned(),
            now: Timestamp::UNIX_EPOCH,
            undoes: None,
        };
        author
            .add(store.as_ref(), folder, "f", CheckpointState::Prepared, &ChangeEntries::default(), &[])
            .unwrap();
        store
    }

    #[test]
    fn a_checkpoint_that_its_process_completes_while_another_starts_stays() {
        let folder = tempfile::tempdir().unwrap();
        let store = store_with_prepared(folder.path(), "a");
        // The process completes its commit and closes its folder between the two checks of the
        // process that starts.
        let completed = |folder: &str| {
            store.checkpoints().complete_folder(folder).unwrap();
            Ok(false)
        };
        settle_all(&store, None, completed).unwrap();
        assert!(store.checkpoints().find("a").unwrap().is_some());
    }

    #[test]
    fn a_checkpoint_of_a_commit_that_did_not_happen_goes() {
        let folder = tempfile::tempdir().unwrap();
        let store = store_with_prepared(folder.path(), "a");
        settle_all(&store, None, |_| Ok(true)).unwrap();
        assert!(store.checkpoints().find("a").unwrap().is_some(), "its process lives");
        settle_all(&store, None, |_| Ok(false)).unwrap();
        assert!(store.checkpoints().find("a").unwrap().is_none());
    }
}
