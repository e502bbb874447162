//! Connections to the one SQLite file: creation, migration, opening and locking.
//!
//! This module knows no table of the schema. Every connection is in WAL mode with
//! `synchronous=NORMAL`: a commit survives the end of the process by any signal. After a power loss
//! the file is intact but may lack the last commits. The audit writer raises `synchronous` to FULL
//! for rows that must survive a power loss.

use parking_lot::{Mutex, MutexGuard};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use rusqlite::{Connection, DropBehavior, OpenFlags, TransactionBehavior};
use rustix::fs::{FileType, Mode};
use store_api::{Cause, StoreError};

use crate::packs;

/// Code that a migration runs after its statements.
type Migration = fn(&Connection) -> rusqlite::Result<()>;

/// Migrations in order; the one at index `n` brings the file to `user_version` `n + 1`. A released
/// migration is never edited.
const MIGRATIONS: &[(&str, Option<Migration>)] = &[
    (include_str!("schema/0001.sql"), None),
    (include_str!("schema/0002.sql"), None),
    (include_str!("schema/0003.sql"), None),
    (include_str!("schema/0004.sql"), None),
    (include_str!("schema/0005.sql"), None),
    (include_str!("schema/0006.sql"), Some(packs::gather)),
    (include_str!("schema/0007.sql"), None),
    (include_str!("schema/0008.sql"), None),
    (include_str!("schema/0009.sql"), None),
    (include_str!("schema/0010.sql"), None),
    (include_str!("schema/0011.sql"), None),
];

/// SQL that brings a database of a test from the newest format to format 8.
#[cfg(test)]
pub(crate) const TO_FORMAT_8: &str = "DROP INDEX audit_by_workspace; ALTER TABLE audit DROP COLUMN workspace;
    DROP TABLE schedules; DROP TABLE firings; DROP TABLE agents; DROP TABLE agent_entries; DROP TABLE mail;
    DROP TABLE spending; DROP TABLE reservations; DROP TABLE reserved_accounts;";

/// Maximum number of idle connections that stay open for the next reader.
const IDLE_CONNECTIONS: usize = 4;

/// Size in bytes to which the WAL is truncated after a checkpoint has emptied it.
const WAL_BYTES_KEPT: u32 = 16 * 1024 * 1024;

/// Number of WAL pages from which a commit runs a checkpoint: 8 MiB, half of the retained WAL. The
/// checkpoint waits for the disk, so [`Database::move_log`] runs one earlier, after a large change.
const WAL_PAGES: u32 = 2_048;

/// Number of pages that a transaction may change in memory, about 32 MiB. A spilled page that
/// changes again is written again. Without this limit, a transaction with thousands of random keys
/// wrote most of its pages several times.
const PAGES_UNTIL_SPILLED: u32 = 8_192;

/// The database file and its idle connections.
pub(crate) struct Database {
    path: PathBuf,
    idle: Mutex<Vec<Connection>>,
    access: Access,
    cover: OnceLock<Box<Cover>>,
}

/// A function that masks the secrets in a text, or returns `None` if the text contains no secret.
pub(crate) type Cover = dyn Fn(&str) -> Option<String> + Send + Sync;

/// Purpose for which a database is opened.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Reading and writing; a database that cannot be written is an immediate error.
    Write,
    /// Reading, even if the database cannot be written.
    Read,
}

impl Database {
    /// Opens `folder/handfast.db`, and creates or migrates it if needed. `prepare` is called before
    /// a file without any format becomes one of format 1, while other processes are locked out.
    pub(crate) fn open(
        folder: &Path,
        access: Access,
        prepare: impl FnOnce() -> Result<(), StoreError>,
    ) -> Result<Self, StoreError> {
        let path = folder.join("handfast.db");
        create_private(&path)?;
        let database = Self { path, idle: Mutex::default(), access, cover: OnceLock::new() };
        let mut connection = database.connect()?;
        let known = known_format();
        if database.format(&connection)? < known {
            let lock = File::open(folder).map_err(|error| StoreError::from_io(folder, error))?;
            locks::acquire(&lock, locks::Kind::Exclusive, &folder.display())
                .map_err(|error| StoreError::from_io(folder, error.into()))?;
            database.migrate(&mut connection, prepare)?;
        }
        database.is_known(&connection)?;
        database.idle().push(connection);
        Ok(database)
    }

    /// Runs `work` on its own connection, and blocks the calling thread.
    pub(crate) fn with<T>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let kept = self.idle().pop();
        let mut connection = match kept {
            Some(connection) => connection,
            None => self.connect()?,
        };
        let result = work(&mut connection);
        // After an error, the connection may have a half-finished statement or a broken file, so it
        // is closed.
        let mut idle = self.idle();
        if result.is_ok() && idle.len() < IDLE_CONNECTIONS {
            idle.push(connection);
        }
        result
    }

    /// Runs `work`, which only reads.
    pub(crate) fn read<T>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        self.with(|connection| work(connection).map_err(|error| self.error(error)))
    }

    /// Runs `work` in one immediate transaction, so that no other process writes in between.
    pub(crate) fn write<T>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        self.end(DropBehavior::Commit, work)
    }

    /// Runs `work` in an immediate transaction and rolls it back. The result is that of the change
    /// if it were made.
    pub(crate) fn try_write<T>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        self.end(DropBehavior::Rollback, work)
    }

    fn end<T>(
        &self,
        end: DropBehavior,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        self.with(|connection| {
            let mut transaction = connection
                .transaction_with_behavior(TransactionBehavior::Immediate)
                .map_err(|error| self.error(error))?;
            self.is_known(&transaction)?;
            let value = work(&transaction).map_err(|error| self.error(error))?;
            transaction.set_drop_behavior(end);
            transaction.finish().map_err(|error| self.error(error))?;
            Ok(value)
        })
    }

    /// Runs a WAL checkpoint, as far as no other connection reads from the WAL or runs one.
    pub(crate) fn move_log(&self) -> Result<(), StoreError> {
        self.read(|connection| connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())))
    }

    /// Opens a connection, set up like every other.
    pub(crate) fn connect(&self) -> Result<Connection, StoreError> {
        let opened = match self.as_unchanging() {
            Some(uri) => Connection::open_with_flags(
                uri,
                OpenFlags::SQLITE_OPEN_READ_ONLY
                    | OpenFlags::SQLITE_OPEN_URI
                    | OpenFlags::SQLITE_OPEN_NO_MUTEX,
            ),
            None => Connection::open_with_flags(
                &self.path,
                OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
            ),
        };
        let mut connection = opened.map_err(|error| self.error(error))?;
        set_up(&mut connection).map_err(|error| self.error(error))?;
        Ok(connection)
    }

    /// Returns an immutable-mode URI for a file on a read-only file system with an empty WAL.
    /// Otherwise the engine would create a file next to the database to read it at all. Returns
    /// `None` if the file can change, or must be written to be read.
    fn as_unchanging(&self) -> Option<String> {
        if self.access == Access::Write {
            return None;
        }
        let there = rustix::fs::statvfs(&self.path).ok()?;
        let wal = std::fs::metadata(self.path.with_extension("db-wal")).map_or(0, |wal| wal.len());
        if !there.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY) || wal > 0 {
            return None;
        }
        let path = self.path.to_str()?.replace('%', "%25").replace('?', "%3f").replace('#', "%23");
        Some(format!("file:{path}?immutable=1"))
    }

    /// Classifies an error of the engine, with the path of this file.
    pub(crate) fn error(&self, error: rusqlite::Error) -> StoreError {
        classified(&self.path, error)
    }

    /// Closes the idle connections.
    pub(crate) fn close_idle(&self) {
        self.idle().clear();
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.idle.lock()
    }

    /// Masks secrets in the texts of later rows. The first call wins.
    pub(crate) fn cover_with(&self, cover: Box<Cover>) {
        let _second = self.cover.set(cover);
    }

    /// Masks secrets in a text that goes into a row.
    pub(crate) fn cover(&self, text: &mut String) {
        if let Some(covered) = self.cover.get().and_then(|cover| cover(text)) {
            *text = covered;
        }
    }

    /// Refuses a database that a newer Handfast has migrated, even while this process has it open.
    /// Within a transaction no other process can migrate it.
    pub(crate) fn is_known(&self, connection: &Connection) -> Result<(), StoreError> {
        let (found, known) = (self.format(connection)?, known_format());
        if found > known {
            return Err(StoreError::NewerDatabase { path: self.path.clone(), found, known });
        }
        Ok(())
    }

    fn format(&self, connection: &Connection) -> Result<i64, StoreError> {
        let mut statement =
            connection.prepare_cached("PRAGMA user_version").map_err(|error| self.error(error))?;
        statement.query_row([], |row| row.get(0)).map_err(|error| self.error(error))
    }

    fn migrate(
        &self,
        connection: &mut Connection,
        prepare: impl FnOnce() -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        // Another process may have migrated the database while this one waited for the lock.
        let found = self.format(connection)?;
        if found == 0 {
            connection
                .pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))
                .map_err(|error| self.error(error))?;
            prepare()?;
        }
        for (format, (statements, moving)) in (1_i64..).zip(MIGRATIONS).filter(|(format, _)| *format > found)
        {
            let apply = |connection: &mut Connection| {
                let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
                transaction.execute_batch(statements)?;
                moving.map_or(Ok(()), |moving| moving(&transaction))?;
                transaction.pragma_update(None, "user_version", format)?;
                transaction.commit()
            };
            apply(connection).map_err(|error| self.error(error))?;
        }
        Ok(())
    }
}

/// Classifies an error of the database engine; `path` is the database.
fn classified(path: &Path, error: rusqlite::Error) -> StoreError {
    use rusqlite::ErrorCode as Code;
    use rusqlite::ffi;

    let path = path.to_owned();
    let extended = error.sqlite_error().map_or(0, |failure| failure.extended_code);
    let code = error.sqlite_error_code();
    let source: Cause = Arc::new(error);
    match code {
        // SQLite extends the shared-memory file next to the database by writing. On a full disk
        // it reports an I/O error for that file, but "full" for the database itself.
        _ if extended == ffi::SQLITE_IOERR_SHMSIZE => StoreError::DiskFull { path, source },
        Some(Code::DiskFull) => StoreError::DiskFull { path, source },
        Some(Code::ReadOnly | Code::CannotOpen | Code::PermissionDenied) => {
            StoreError::NotWritable { path, source }
        }
        Some(Code::DatabaseCorrupt | Code::NotADatabase) => StoreError::Corrupt { path, source },
        Some(Code::DatabaseBusy | Code::DatabaseLocked) => StoreError::Busy { path, source },
        _ => StoreError::Database { path, source },
    }
}

fn known_format() -> i64 {
    i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX)
}

fn set_up(connection: &mut Connection) -> rusqlite::Result<()> {
    connection.busy_handler(Some(wait_for_lock))?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "cache_spill", PAGES_UNTIL_SPILLED)?;
    connection.pragma_update_and_check(None, "wal_autocheckpoint", WAL_PAGES, |_| Ok(()))?;
    connection.pragma_update_and_check(None, "journal_size_limit", WAL_BYTES_KEPT, |_| Ok(()))
}

/// Waits for another process's transaction: often at first, because a transaction usually takes well
/// under a millisecond, and for 10 seconds in all. The engine's own handler sleeps up to 100 ms at a
/// time.
fn wait_for_lock(attempts: i32) -> bool {
    const QUICK: i32 = 100;
    const SLOW: i32 = 1_990;
    if attempts >= QUICK + SLOW {
        return false;
    }
    thread::sleep(if attempts < QUICK { Duration::from_micros(500) } else { Duration::from_millis(5) });
    true
}

/// Creates an empty file of mode 0600 if none exists; the engine gives the companion files the same
/// mode.
///
/// INVARIANT: the database is only opened through the engine. Its locks belong to the process, and
/// closing any other descriptor of the file would silently release them all.
fn create_private(path: &Path) -> Result<(), StoreError> {
    match rustix::fs::mknodat(rustix::fs::CWD, path, FileType::RegularFile, Mode::RUSR | Mode::WUSR, 0) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => Ok(()),
        // An existing database can be opened in a folder that accepts no new file.
        Err(_) if path.exists() => Ok(()),
        Err(error) => Err(StoreError::from_io(path, error.into())),
    }
}
