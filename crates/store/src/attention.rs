//! Who waits for what others write, and who is there to be asked.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::Connection;
use rustix::fs::FlockOperation;

use crate::database::Database;
use crate::error::StoreError;

/// Tells whether anybody has written since it was last asked: one look at a number, without reading a table.
pub struct Watch {
    database: Arc<Database>,
    connection: Connection,
    version: i64,
}

impl Watch {
    pub(crate) fn new(database: Arc<Database>) -> Result<Self, StoreError> {
        let connection = database.connect()?;
        let mut watch = Self { database, connection, version: 0 };
        watch.has_changed()?;
        Ok(watch)
    }

    /// Whether another connection, of this process or of another one, has committed anything since the last time.
    pub fn has_changed(&mut self) -> Result<bool, StoreError> {
        let version = self
            .connection
            .query_row("PRAGMA data_version", [], |row| row.get(0))
            .map_err(|error| self.database.error(error))?;
        Ok(std::mem::replace(&mut self.version, version) != version)
    }
}

/// That somebody looks at the questions as they come, for as long as this value lives, also when its process is killed.
pub struct Attention {
    _file: File,
}

/// The files behind it: each watcher holds a lock on one of them, and whoever wants to know tries to take it.
///
/// A single file would not do: two who try at the same moment would each take the other for a watcher.
const PLACES: usize = 8;

fn place(folder: &Path, number: usize) -> PathBuf {
    folder.join(format!("attention.{number}"))
}

fn open(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

impl Attention {
    /// Pays attention. With more watchers than places the last ones are not seen, and the others are there.
    pub(crate) fn pay(folder: &Path) -> Result<Self, StoreError> {
        let mut last = None;
        for number in 0..PLACES {
            let path = place(folder, number);
            let file = open(&path).map_err(|error| StoreError::from_io(&path, error))?;
            if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
                return Ok(Self { _file: file });
            }
            last = Some(file);
        }
        let path = place(folder, 0);
        last.map(|file| Self { _file: file })
            .ok_or_else(|| StoreError::from_io(&path, std::io::Error::other("there is no place")))
    }

    /// Whether anybody does.
    pub(crate) fn is_paid(folder: &Path) -> bool {
        (0..PLACES).any(|number| {
            let Ok(file) = File::open(place(folder, number)) else { return false };
            // Shared, so that two who look do not see each other.
            rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared).is_err()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attention_is_seen_while_it_lasts_and_those_who_look_do_not_see_each_other() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!Attention::is_paid(folder.path()));
        let first = Attention::pay(folder.path()).unwrap();
        let second = Attention::pay(folder.path()).unwrap();
        assert!(Attention::is_paid(folder.path()));
        drop(first);
        assert!(Attention::is_paid(folder.path()));
        drop(second);
        let looking: Vec<_> = (0..4)
            .map(|_| {
                let folder = folder.path().to_owned();
                std::thread::spawn(move || (0..500).any(|_| Attention::is_paid(&folder)))
            })
            .collect();
        assert!(looking.into_iter().all(|thread| !thread.join().unwrap()));
    }
}
