//! Changes of databases as checkpoints store them.

use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use database::{Change, Databases, KeepError, ReadPieces};
use parking_lot::Mutex;
use store_api::{Checkpoint, CheckpointEntry, Hash, Store};

/// Marker that replaces the old state of a path if the change is one of a database.
pub(crate) const OF_DATABASE: &[u8] = b"handfast database change 1";

/// Largest change, in bytes without its pieces, that is read back: the rows that are stored one by
/// one, and room for them as text. Up to format 7 of the state, a database of 64 MiB.
const LARGEST_CHANGE: u64 = 256 * 1024 * 1024;

/// Returns true if an entry of a checkpoint is a change of a database.
pub(crate) fn is_of_database(entry: &CheckpointEntry) -> bool {
    entry.before.as_deref() == Some(OF_DATABASE)
}

/// Changes of one database that are to be undone, the last change first.
pub(crate) struct DataUndo {
    pub(crate) path: PathBuf,
    pub(crate) changes: Vec<Change>,
    pub(crate) force: bool,
}

/// Changes that a call made in databases, and those that it is to undo there once its files are in
/// place.
#[derive(Default)]
pub(crate) struct DbChanges {
    pub(crate) made: Arc<AtomicBool>,
    pub(crate) faults: Arc<Mutex<Vec<String>>>,
    pub(crate) undoes: Arc<Mutex<Vec<DataUndo>>>,
}

/// Reads the change that an entry of a checkpoint stores.
pub(crate) fn read(store: &Arc<dyn Store>, row: &CheckpointEntry) -> Result<Change, KeepError> {
    let hash = row.content.ok_or("it has no content")?;
    let mut bytes = Vec::new();
    store.blobs().reader()?.open(&hash)?.take(LARGEST_CHANGE).read_to_end(&mut bytes)?;
    let store = store.clone();
    let pieces: ReadPieces = Arc::new(move |pieces, to| {
        let reader = store.blobs().reader()?;
        let mut content = Vec::new();
        for piece in pieces {
            content.clear();
            reader.open(&(*piece).into())?.take(LARGEST_CHANGE).read_to_end(&mut content)?;
            if Hash::of(&content).as_bytes() != piece {
                return Err("a piece of it is damaged".into());
            }
            to.write_all(&content)?;
        }
        Ok(())
    });
    Ok(Change::decode(&bytes, &pieces)?)
}

/// Settles the checkpoint of a killed process that was changing a database. Does nothing if the
/// database is not one of this workspace.
pub(crate) fn settle(
    store: &Arc<dyn Store>,
    databases: Option<&Databases>,
    checkpoint: &Checkpoint,
    rows: &[CheckpointEntry],
) -> Result<(), KeepError> {
    let Some(row) = rows.iter().find(|row| is_of_database(row)) else { return Ok(()) };
    let path = checkpoint.workspace.join(&row.path);
    let Some(database) = databases.and_then(|databases| databases.at(&path)) else { return Ok(()) };
    if database.has_happened(&read(store, row)?)? {
        store.checkpoints().complete(&checkpoint.id)?;
    } else {
        store.checkpoints().remove(&checkpoint.id)?;
    }
    Ok(())
}
