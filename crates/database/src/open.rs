//! Database files, and hardened connections to them.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{Connection, OpenFlags};
use rustix::fs::{FileType, Mode};

use crate::DatabaseError;
use crate::action::{Phase, Statement, Watch};
use crate::memory::{Counts, LARGEST_HEAP, LARGEST_VALUE};

/// Name of the database that a call uses by default.
pub const DEFAULT_NAME: &str = "data";

/// Path of the default database, relative to the workspace.
pub const DEFAULT_PATH: &str = ".handfast/data.db";

/// Suffixes of the files that SQLite creates next to a database.
const COMPANIONS: [&str; 3] = ["-wal", "-shm", "-journal"];

/// Maximum length of a statement, in bytes.
const LONGEST_STATEMENT: i32 = 1024 * 1024;

/// Maximum number of idle reading connections that stay open for later calls.
const IDLE_CONNECTIONS: usize = 4;

/// Instructions of SQLite's virtual machine between two checks for a stop of the call: about 50 µs.
const INSTRUCTIONS_BETWEEN_LOOKS: i32 = 1_000;

/// Lock timeout while a schema is read, when a stop of the call cannot be checked.
const SHORT_WAIT: Duration = Duration::from_millis(500);

/// End of a rollback journal that names a super-journal (SQLite file format, section 3). SQLite
/// would read that other file and remove it.
const NAMES_ANOTHER: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];

/// A function that returns true once the call was stopped. Called often.
pub type StopCheck = Arc<dyn Fn() -> bool + Send + Sync>;

/// The databases of a workspace, by name.
pub struct Databases(BTreeMap<String, Database>);

/// One database.
pub struct Database {
    name: String,
    path: PathBuf,
    /// Folder for temporary copies of the database.
    pub(crate) spool: PathBuf,
    idle: Mutex<Vec<Reader>>,
}

/// A read-only connection, with the device and inode of its file; `None` if the file does not exist.
pub(crate) struct Reader {
    pub(crate) connection: Connection,
    pub(crate) watch: Arc<Watch>,
    pub(crate) counts: Counts,
    file: Option<(u64, u64)>,
}

/// A writing connection.
pub(crate) struct Writer {
    pub(crate) connection: Connection,
    pub(crate) watch: Arc<Watch>,
}

impl Databases {
    /// Creates the set from the default database and `others` (name and path relative to
    /// `workspace`). `workspace` is absolute and free of symbolic links.
    ///
    /// Temporary copies for inspection and restores go to `spool`, which is created if missing.
    /// Files that a killed process left there may be removed.
    pub fn new(workspace: &Path, others: &BTreeMap<String, PathBuf>, spool: &Path) -> Self {
        let usual = [(DEFAULT_NAME.to_owned(), PathBuf::from(DEFAULT_PATH))];
        let named = usual.into_iter().chain(others.clone());
        let database = |(name, path): (String, PathBuf)| {
            let path = workspace.join(path);
            (name.clone(), Database { name, path, spool: spool.to_owned(), idle: Mutex::default() })
        };
        Self(named.map(database).collect())
    }

    /// Returns the database with this name.
    pub fn named(&self, name: &str) -> Result<&Database, DatabaseError> {
        self.0.get(name).ok_or_else(|| DatabaseError::Unknown(name.to_owned()))
    }

    /// Returns the database in this file.
    pub fn at(&self, path: &Path) -> Option<&Database> {
        self.0.values().find(|database| database.path == path)
    }

    /// Returns the names of the databases.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Returns the files that only SQLite may touch: each database and the files next to it. A
    /// replaced file, or a `close` that releases SQLite's locks, would damage an open database.
    pub fn files(&self) -> Vec<PathBuf> {
        let with = |path: &Path, end: &str| {
            let mut name = path.as_os_str().to_owned();
            name.push(end);
            PathBuf::from(name)
        };
        let all = |database: &Database| {
            let companions = COMPANIONS.map(|end| with(&database.path, end));
            std::iter::once(database.path.clone()).chain(companions).collect::<Vec<_>>()
        };
        self.0.values().flat_map(all).collect()
    }
}

impl Database {
    /// Returns the name of the database.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the absolute path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the actions of a statement, from its preparation on a read-only connection. Nothing is run.
    pub fn plan(&self, sql: &str) -> Result<Statement, DatabaseError> {
        self.with_reader(|reader| self.judge(&reader.connection, &reader.watch, sql))
    }

    /// Returns the actions of a changing statement.
    pub(crate) fn judge(
        &self,
        connection: &Connection,
        watch: &Watch,
        sql: &str,
    ) -> Result<Statement, DatabaseError> {
        whole(sql)?;
        watch.enter(Phase::Own);
        // Run a statement: `prepare` alone does not notice that the schema has changed since it was read.
        let mut current = connection
            .prepare_cached("SELECT 1 FROM sqlite_schema LIMIT 1")
            .map_err(|error| self.error(error))?;
        current.exists([]).map_err(|error| self.error(error))?;
        watch.enter(Phase::Judged);
        let prepared = connection.prepare(sql);
        let (statement, denied) = watch.take();
        let prepared = prepared.map_err(|error| match denied {
            Some(what) => DatabaseError::Denied(what),
            None => self.error(error),
        })?;
        watch.enter(Phase::Own);
        match (prepared.readonly(), prepared.column_count()) {
            (true, 0) => Err(DatabaseError::Empty),
            (true, _) => Err(DatabaseError::OnlyReads),
            (false, _) if statement.actions.is_empty() => {
                Err(DatabaseError::Denied("direct writing to the schema".to_owned()))
            }
            (false, _) => Ok(statement),
        }
    }

    /// Classifies an error of the engine.
    pub(crate) fn error(&self, error: rusqlite::Error) -> DatabaseError {
        DatabaseError::of(&self.path, error)
    }

    /// Runs `work` with a read-only connection to the current file, or to an empty database if the
    /// file does not exist.
    pub(crate) fn with_reader<T>(
        &self,
        work: impl FnOnce(&mut Reader) -> Result<T, DatabaseError>,
    ) -> Result<T, DatabaseError> {
        let mut reader = match self.kept()? {
            Some(reader) => reader,
            None => self.reader(self.look()?)?,
        };
        reader.watch.enter(Phase::Own);
        let done = work(&mut reader);
        reader.watch.enter(Phase::Own);
        // A connection that met an error of the file is not reused.
        let is_sound = !matches!(
            done,
            Err(DatabaseError::Damaged { .. } | DatabaseError::Engine(_) | DatabaseError::Refused { .. })
        );
        let mut idle = self.idle.lock();
        if is_sound && idle.len() < IDLE_CONNECTIONS {
            idle.push(reader);
        }
        done
    }

    /// Runs `work` with a read-only connection that is interrupted when the call is stopped.
    pub(crate) fn with_stoppable_reader<T>(
        &self,
        stopped: &StopCheck,
        work: impl FnOnce(&mut Reader) -> Result<T, DatabaseError>,
    ) -> Result<T, DatabaseError> {
        self.with_reader(|reader| {
            interrupt_where(&mut reader.connection, Some(stopped)).map_err(|error| self.error(error))?;
            let done = work(reader);
            // `stopped` belongs to this call, so the connection must not call it later.
            interrupt_where(&mut reader.connection, None).map_err(|error| self.error(error))?;
            done
        })
    }

    /// Takes an idle connection to the current file. The path to its folder was checked when the
    /// connection was opened.
    fn kept(&self) -> Result<Option<Reader>, DatabaseError> {
        let mut idle = self.idle.lock();
        if idle.is_empty() {
            return Ok(None);
        }
        let file = self.found()?;
        idle.retain(|reader| reader.file == file && file.is_some());
        Ok(idle.pop())
    }

    fn reader(&self, file: Option<(u64, u64)>) -> Result<Reader, DatabaseError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        let opened = match file {
            Some(_) => Connection::open_with_flags(&self.path, flags),
            None => Connection::open_in_memory(),
        };
        let mut connection = opened.map_err(|error| self.error(error))?;
        let watch = defend(&mut connection).map_err(|error| self.error(error))?;
        connection.pragma_update(None, "query_only", true).map_err(|error| self.error(error))?;
        Ok(Reader { connection, watch, counts: Counts::default(), file })
    }

    /// Opens a writing connection. The file is created if it does not exist.
    pub(crate) fn writer(&self, stopped: &StopCheck) -> Result<Writer, DatabaseError> {
        if self.look()?.is_none() {
            self.create()?;
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        let failed = |error| self.error(error);
        let mut connection = Connection::open_with_flags(&self.path, flags).map_err(failed)?;
        let watch = defend(&mut connection).map_err(failed)?;
        self.wait(stopped, || {
            connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get::<_, String>(0))
        })?;
        connection.pragma_update(None, "synchronous", "NORMAL").map_err(failed)?;
        interrupt_where(&mut connection, Some(stopped)).map_err(failed)?;
        Ok(Writer { connection, watch })
    }

    /// Retries `work` while another connection holds the lock, until the call is stopped: agents
    /// that share a database wait for each other.
    pub(crate) fn wait<T>(
        &self,
        stopped: &StopCheck,
        mut work: impl FnMut() -> rusqlite::Result<T>,
    ) -> Result<T, DatabaseError> {
        let mut pause = Duration::from_micros(500);
        loop {
            match work() {
                Err(error) if DatabaseError::is_busy(&error) && !stopped() => {
                    thread::sleep(pause);
                    pause = (pause * 2).min(Duration::from_millis(10));
                }
                done => return done.map_err(|error| self.error(error)),
            }
        }
    }

    /// Checks the path and returns device and inode of the file; `None` if it does not exist.
    pub(crate) fn look(&self) -> Result<Option<(u64, u64)>, DatabaseError> {
        let folder = self.path.parent().unwrap_or(Path::new("/"));
        if folder.canonicalize().is_ok_and(|real| real != folder) {
            return Err(self.refused("its path has a link"));
        }
        self.found()
    }

    fn refused(&self, because: &str) -> DatabaseError {
        DatabaseError::Refused { path: self.path.clone(), because: because.to_owned() }
    }

    fn found(&self) -> Result<Option<(u64, u64)>, DatabaseError> {
        let found = match fs::symlink_metadata(&self.path) {
            Ok(found) => found,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(DatabaseError::Io { path: self.path.clone(), source }),
        };
        if !found.is_file() {
            return Err(self.refused("it is not a file"));
        }
        if found.nlink() > 1 {
            return Err(
                self.refused("it has another hard link, through which others may change it while it is open")
            );
        }
        if self.journal_names_another() {
            return Err(self.refused("its rollback journal names another file, which would be removed"));
        }
        Ok(Some((found.dev(), found.ino())))
    }

    /// Returns true if there is a rollback journal that names another file. Databases of this crate
    /// are in WAL mode and have no rollback journal.
    fn journal_names_another(&self) -> bool {
        let mut name = self.path.as_os_str().to_owned();
        name.push("-journal");
        let path = PathBuf::from(name);
        // Journals carry no locks that the close of this descriptor could release.
        let is_file = fs::symlink_metadata(&path).is_ok_and(|found| found.is_file() && found.len() >= 8);
        let end = |mut file: File| {
            let mut end = [0; 8];
            file.seek(SeekFrom::End(-8))?;
            file.read_exact(&mut end)?;
            Ok::<_, std::io::Error>(end)
        };
        is_file && File::open(&path).and_then(end).is_ok_and(|end| end == NAMES_ANOTHER)
    }

    /// Creates an empty file with mode 0600, and its folder if missing. Both get the owner of the
    /// folder above.
    fn create(&self) -> Result<(), DatabaseError> {
        let failed = |path: &Path, source| DatabaseError::Io { path: path.to_owned(), source };
        let folder = self.path.parent().unwrap_or(Path::new("/"));
        if !folder.is_dir() {
            let made = fs::DirBuilder::new().mode(0o700).create(folder);
            made.and_then(|()| own_as_above(folder)).map_err(|error| failed(folder, error))?;
        }
        let mode = Mode::RUSR | Mode::WUSR;
        match rustix::fs::mknodat(rustix::fs::CWD, &self.path, FileType::RegularFile, mode, 0) {
            Ok(()) => own_as_above(&self.path).map_err(|error| failed(&self.path, error)),
            Err(rustix::io::Errno::EXIST) => Ok(()),
            Err(error) => Err(failed(&self.path, error.into())),
        }
    }
}

/// Refuses NUL bytes: SQLite reads a statement up to the first one, so the rest would be neither
/// run nor refused.
pub(crate) fn whole(sql: &str) -> Result<(), DatabaseError> {
    if sql.contains('\0') {
        return Err(DatabaseError::Syntax("the statement has a NUL byte".to_owned()));
    }
    Ok(())
}

/// Interrupts running statements once the call is stopped; `None` removes the check.
pub(crate) fn interrupt_where(
    connection: &mut Connection,
    stopped: Option<&StopCheck>,
) -> rusqlite::Result<()> {
    let looked_at = stopped.map(|stopped| {
        let stopped = stopped.clone();
        move || stopped()
    });
    connection.progress_handler(INSTRUCTIONS_BETWEEN_LOOKS, looked_at)
}

/// Hardens a connection to an untrusted file. Functions in the schema are untrusted, shadow tables
/// and the schema table are write-protected, and pages are checked as they are read. The size of
/// statements, values and expressions is limited.
pub(crate) fn defend(connection: &mut Connection) -> rusqlite::Result<Arc<Watch>> {
    for (setting, value) in [
        (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
        (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_FTS3_TOKENIZER, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_ATTACH_CREATE, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_ATTACH_WRITE, false),
        // A double-quoted name without a match is an error, not a string.
        (DbConfig::SQLITE_DBCONFIG_DQS_DML, false),
        (DbConfig::SQLITE_DBCONFIG_DQS_DDL, false),
    ] {
        connection.set_db_config(setting, value)?;
    }
    for (limit, value) in [
        (Limit::SQLITE_LIMIT_LENGTH, LARGEST_VALUE),
        (Limit::SQLITE_LIMIT_SQL_LENGTH, LONGEST_STATEMENT),
        (Limit::SQLITE_LIMIT_ATTACHED, 0),
        (Limit::SQLITE_LIMIT_EXPR_DEPTH, 200),
        (Limit::SQLITE_LIMIT_COMPOUND_SELECT, 200),
        (Limit::SQLITE_LIMIT_TRIGGER_DEPTH, 50),
        (Limit::SQLITE_LIMIT_WORKER_THREADS, 0),
    ] {
        connection.set_limit(limit, value)?;
    }
    connection.busy_timeout(SHORT_WAIT)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    connection.pragma_update(None, "mmap_size", 0)?;
    // The limit is that of the process, and can only be lowered.
    connection.pragma_update(None, "hard_heap_limit", LARGEST_HEAP)?;
    Watch::over(connection)
}

/// Gives a new file to the owner of the folder above, if this process is root. Otherwise that user
/// could not use the file.
fn own_as_above(path: &Path) -> std::io::Result<()> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let above = fs::symlink_metadata(path.parent().unwrap_or(path))?;
    std::os::unix::fs::lchown(path, Some(above.uid()), Some(above.gid()))
}
