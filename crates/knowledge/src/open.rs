//! The index file and its connections.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use retrieval::embedder::{Embedder, OpenModel, OpenedModel};
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use crate::IndexError;
use crate::vector_cache::VectorCache;

/// Version of the file format and of the chunking. A file of another version is rebuilt.
const FORMAT: i64 = 1;

/// Maximum wait for a lock of another process.
const TIMEOUT: Duration = Duration::from_mins(1);

/// Maximum number of idle connections that stay open.
const IDLE: usize = 2;

/// The index of one base.
pub struct Index {
    path: PathBuf,
    opens: Option<OpenModel>,
    model: OnceLock<OpenedModel>,
    idle: Mutex<Vec<Connection>>,
    pub(crate) held: Mutex<VectorCache>,
    /// Cached count of chunks without a vector, with the number of changes that it is valid for.
    pub(crate) counted: Mutex<Option<(i64, u64)>>,
}

impl Index {
    /// Creates a handle to the index in a file, which is created on first use. Without a model, the
    /// search uses words only.
    pub fn new(path: PathBuf, opens: Option<OpenModel>) -> Self {
        Self {
            path,
            opens,
            model: OnceLock::new(),
            idle: Mutex::default(),
            held: Mutex::default(),
            counted: Mutex::default(),
        }
    }

    /// Returns the path of the index file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns true if a model is configured, even if it cannot be opened.
    pub fn has_model(&self) -> bool {
        self.opens.is_some()
    }

    /// Returns the model, opened on first use; `None` if no model is configured.
    pub fn model(&self) -> Option<&OpenedModel> {
        let opens = self.opens.as_ref()?;
        Some(self.model.get_or_init(|| opens()))
    }

    /// Returns the model if it could be opened.
    pub(crate) fn usable_model(&self) -> Option<&Arc<dyn Embedder>> {
        self.model().and_then(|opened| opened.as_ref().ok())
    }

    pub(crate) fn held(&self) -> MutexGuard<'_, VectorCache> {
        self.held.lock()
    }

    /// Runs `work` on a connection. If the file is damaged, it is rebuilt and `work` runs again. No
    /// data is lost: the files of the base contain everything.
    pub(crate) fn with<T>(
        &self,
        work: &mut dyn FnMut(&mut Connection) -> Result<T, IndexError>,
    ) -> Result<T, IndexError> {
        match self.attempt(work) {
            Err(IndexError::Database(error) | IndexError::Open { source: error, .. })
                if IndexError::is_damage(&error) =>
            {
                self.remove_damaged()?;
                self.attempt(work)
            }
            done => done,
        }
    }

    /// Runs `work` on a consistent snapshot of the index. One transaction is also faster than a
    /// lock per statement.
    pub(crate) fn read<T>(
        &self,
        work: &mut dyn FnMut(&Connection) -> Result<T, IndexError>,
    ) -> Result<T, IndexError> {
        self.with(&mut |connection| {
            let transaction = connection.transaction()?;
            work(&transaction)
        })
    }

    /// Runs `work` in one writing transaction.
    pub(crate) fn write<T>(
        &self,
        work: &mut dyn FnMut(&Connection) -> Result<T, IndexError>,
    ) -> Result<T, IndexError> {
        self.with(&mut |connection| {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let value = work(&transaction)?;
            transaction.commit()?;
            Ok(value)
        })
    }

    fn attempt<T>(
        &self,
        work: &mut dyn FnMut(&mut Connection) -> Result<T, IndexError>,
    ) -> Result<T, IndexError> {
        let kept = self.idle().pop();
        let mut connection = match kept {
            Some(connection) => connection,
            None => self.connect()?,
        };
        let value = work(&mut connection)?;
        // A connection that met an error may hold an unfinished statement, so only sound ones are reused.
        let mut idle = self.idle();
        if idle.len() < IDLE {
            idle.push(connection);
        }
        Ok(value)
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.idle.lock()
    }

    fn connect(&self) -> Result<Connection, IndexError> {
        let failed = |source| IndexError::Open { path: self.path.clone(), source };
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(&self.path, flags).map_err(failed)?;
        connection.busy_timeout(TIMEOUT).map_err(failed)?;
        // A commit survives the end of the process. A commit that a power failure undoes is made again.
        connection
            .execute_batch(
                "PRAGMA wal_autocheckpoint = 16000; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA cache_size = -16384; PRAGMA temp_store = MEMORY;",
            )
            .map_err(failed)?;
        if format(&connection).map_err(failed)? != FORMAT {
            prepare(&mut connection).map_err(failed)?;
        }
        Ok(connection)
    }

    /// Removes a damaged file and SQLite's files next to it, unless another process was faster.
    fn remove_damaged(&self) -> Result<(), IndexError> {
        self.idle().clear();
        *self.held() = VectorCache::default();
        *self.counted.lock() = None;
        let _lock = lock(&self.path.with_extension("lock"))?;
        let is_whole = Connection::open(&self.path)
            .and_then(|connection| {
                connection.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0))
            })
            .is_ok_and(|said| said == "ok");
        if is_whole {
            return Ok(());
        }
        for end in ["", "-wal", "-shm"] {
            let mut path = self.path.clone().into_os_string();
            path.push(end);
            match remove(Path::new(&path)) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(IndexError::Folder(error));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn remove(path: &Path) -> std::io::Result<()> {
    std::fs::remove_file(path)
}

/// Takes a lock between processes, held while the returned file is open.
pub(crate) fn lock(path: &Path) -> Result<File, IndexError> {
    let file = lock_file(path)?;
    file.lock().map_err(IndexError::Folder)?;
    Ok(file)
}

/// Opens the file of a lock.
pub(crate) fn lock_file(path: &Path) -> Result<File, IndexError> {
    File::options().create(true).append(true).open(path).map_err(IndexError::Folder)
}

fn format(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("PRAGMA user_version", [], |row| row.get(0))
}

/// Creates the tables, in place of any tables of another format, while no other process writes.
fn prepare(connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if format(&transaction)? == FORMAT {
        return Ok(());
    }
    // Dropping a virtual table drops its shadow tables too, so a later drop of these must not fail.
    let names = |kind: &str| -> rusqlite::Result<Vec<String>> {
        let mut statement = transaction.prepare(&format!(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND sql LIKE '{kind}%'"
        ))?;
        let names = statement.query_map([], |row| row.get(0))?;
        names.collect()
    };
    for kind in ["CREATE VIRTUAL", "CREATE TABLE"] {
        for name in names(kind)? {
            transaction.execute_batch(&format!("DROP TABLE IF EXISTS \"{}\"", name.replace('"', "\"\"")))?;
        }
    }
    transaction.execute_batch(include_str!("schema.sql"))?;
    transaction.pragma_update(None, "user_version", FORMAT)?;
    transaction.commit()
}
