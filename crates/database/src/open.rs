//! Files, and connections to them that trust nothing in them.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{Connection, OpenFlags};
use rustix::fs::{FileType, Mode};

use crate::DatabaseError;
use crate::action::{Phase, Statement, Watch};
use crate::memory::{Counts, LARGEST_VALUE};

/// The database that a call is about unless it names another one.
pub const DEFAULT_NAME: &str = "data";

/// Where it lies in the workspace.
pub const DEFAULT_PATH: &str = ".handfast/data.db";

/// The names that SQLite gives the files beside a database, behind that of the database.
const COMPANIONS: [&str; 3] = ["-wal", "-shm", "-journal"];

/// Bytes of the text of one statement.
const LONGEST_STATEMENT: i32 = 1024 * 1024;

/// Reading connections that are kept open for the next call.
const IDLE_CONNECTIONS: usize = 4;

/// Instructions of SQLite's machine between two looks at whether the call was stopped: some 50 µs.
const INSTRUCTIONS_BETWEEN_LOOKS: i32 = 1_000;

/// How long a connection waits where nobody can be asked whether the call was stopped: while a schema is read.
const SHORT_WAIT: Duration = Duration::from_millis(500);

/// What of the end of a rollback journal says that it names another file, which SQLite would then read, and remove (its file format,
/// section 3, "super-journal").
const NAMES_ANOTHER: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];

/// Whether the call was stopped. Asked often.
pub type Stopped = Arc<dyn Fn() -> bool + Send + Sync>;

/// The databases of a workspace, by their names.
pub struct Databases(BTreeMap<String, Database>);

/// One database.
pub struct Database {
    name: String,
    path: PathBuf,
    /// Where copies of it lie for as long as something is done with them.
    pub(crate) spool: PathBuf,
    idle: Mutex<Vec<Reader>>,
}

/// A connection that cannot write, and the file that it is open on; none where the file is not there.
pub(crate) struct Reader {
    pub(crate) connection: Connection,
    pub(crate) watch: Arc<Watch>,
    pub(crate) counts: Counts,
    file: Option<(u64, u64)>,
}

/// A connection that can write.
pub(crate) struct Writer {
    pub(crate) connection: Connection,
    pub(crate) watch: Arc<Watch>,
}

impl Databases {
    /// The usual one of this workspace, which is absolute and without links, and others: by their names, relative to it.
    ///
    /// Copies that are looked at or put back lie in `spool` meanwhile, which is made where it is missing; what a killed process left
    /// there may be removed.
    pub fn new(workspace: &Path, others: &BTreeMap<String, PathBuf>, spool: &Path) -> Self {
        let usual = [(DEFAULT_NAME.to_owned(), PathBuf::from(DEFAULT_PATH))];
        let named = usual.into_iter().chain(others.clone());
        let database = |(name, path): (String, PathBuf)| {
            let path = workspace.join(path);
            (name.clone(), Database { name, path, spool: spool.to_owned(), idle: Mutex::default() })
        };
        Self(named.map(database).collect())
    }

    /// The one of this name.
    pub fn named(&self, name: &str) -> Result<&Database, DatabaseError> {
        self.0.get(name).ok_or_else(|| DatabaseError::Unknown(name.to_owned()))
    }

    /// The one in this file.
    pub fn at(&self, path: &Path) -> Option<&Database> {
        self.0.values().find(|database| database.path == path)
    }

    /// Their names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// What nobody but SQLite may touch: each file, and those that SQLite makes beside it. Another file in the place of an open
    /// one, or a look at the wrong moment that takes a lock away, damages a database.
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
    /// The name that calls know it by.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its file, absolute.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What a statement does, found by having SQLite prepare it on a connection that cannot write. Nothing is run.
    pub fn plan(&self, sql: &str) -> Result<Statement, DatabaseError> {
        self.with_reader(|reader| self.judge(&reader.connection, &reader.watch, sql))
    }

    /// What a changing statement does.
    pub(crate) fn judge(
        &self,
        connection: &Connection,
        watch: &Watch,
        sql: &str,
    ) -> Result<Statement, DatabaseError> {
        whole(sql)?;
        watch.enter(Phase::Own);
        // Only what runs finds out that the schema has changed since it was read; what is prepared does not.
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
                Err(DatabaseError::Denied("writing to the schema itself".to_owned()))
            }
            (false, _) => Ok(statement),
        }
    }

    /// An error of the engine, sorted.
    pub(crate) fn error(&self, error: rusqlite::Error) -> DatabaseError {
        DatabaseError::of(&self.path, error)
    }

    /// Does this with a connection that cannot write, on the file that is there now, or on an empty database where there is none.
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
        // One that saw an error of the file is not kept.
        let is_sound = !matches!(
            done,
            Err(DatabaseError::Damaged { .. } | DatabaseError::Engine(_) | DatabaseError::Refused { .. })
        );
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if is_sound && idle.len() < IDLE_CONNECTIONS {
            idle.push(reader);
        }
        done
    }

    /// The same for what may take long, until the call is stopped.
    pub(crate) fn with_stoppable_reader<T>(
        &self,
        stopped: &Stopped,
        work: impl FnOnce(&mut Reader) -> Result<T, DatabaseError>,
    ) -> Result<T, DatabaseError> {
        self.with_reader(|reader| {
            interrupt_where(&mut reader.connection, Some(stopped)).map_err(|error| self.error(error))?;
            let done = work(reader);
            // The call that it asks about ends with this one.
            interrupt_where(&mut reader.connection, None).map_err(|error| self.error(error))?;
            done
        })
    }

    /// One that is open on the file that is there. How its folder was reached was looked at when it was opened.
    fn kept(&self) -> Result<Option<Reader>, DatabaseError> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
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

    /// A connection that can write, on a file that is made where there is none.
    pub(crate) fn writer(&self, stopped: &Stopped) -> Result<Writer, DatabaseError> {
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

    /// Does this again and again while somebody else has the lock, until the call is stopped: agents that share a database wait for
    /// one another.
    pub(crate) fn wait<T>(
        &self,
        stopped: &Stopped,
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

    /// Which file is there; none where none is.
    pub(crate) fn look(&self) -> Result<Option<(u64, u64)>, DatabaseError> {
        let folder = self.path.parent().unwrap_or(Path::new("/"));
        if folder.canonicalize().is_ok_and(|real| real != folder) {
            return Err(self.refused("a link leads to its folder"));
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
            return Err(self.refused("it is no file"));
        }
        if found.nlink() > 1 {
            return Err(
                self.refused("it has a further name, under which others may change it while it is open")
            );
        }
        if self.journal_names_another() {
            return Err(self.refused("its rollback journal names another file, which would be removed"));
        }
        Ok(Some((found.dev(), found.ino())))
    }

    /// Whether a rollback journal lies there that leads to a file elsewhere. Databases of this crate are in WAL mode and leave none.
    fn journal_names_another(&self) -> bool {
        let mut name = self.path.as_os_str().to_owned();
        name.push("-journal");
        let path = PathBuf::from(name);
        // An open journal carries no locks that closing it could release.
        let is_file = fs::symlink_metadata(&path).is_ok_and(|found| found.is_file() && found.len() >= 8);
        let end = |mut file: File| {
            let mut end = [0; 8];
            file.seek(SeekFrom::End(-8))?;
            file.read_exact(&mut end)?;
            Ok::<_, std::io::Error>(end)
        };
        is_file && File::open(&path).and_then(end).is_ok_and(|end| end == NAMES_ANOTHER)
    }

    /// Makes an empty file that its user alone can open, and the folder around it, both of the owner of the folder above.
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

/// SQLite reads a statement up to its first NUL byte: what stands behind it would be neither run nor refused.
pub(crate) fn whole(sql: &str) -> Result<(), DatabaseError> {
    if sql.contains('\0') {
        return Err(DatabaseError::Syntax("the statement holds a NUL byte".to_owned()));
    }
    Ok(())
}

/// Has a running statement end where the call was stopped; without a call, never.
pub(crate) fn interrupt_where(
    connection: &mut Connection,
    stopped: Option<&Stopped>,
) -> rusqlite::Result<()> {
    let looked_at = stopped.map(|stopped| {
        let stopped = stopped.clone();
        move || stopped()
    });
    connection.progress_handler(INSTRUCTIONS_BETWEEN_LOOKS, looked_at)
}

/// Opens what a stranger may have written: no function of the schema is trusted, no shadow table or schema can be written past its
/// rules, pages are checked as they are read, and no statement, value or expression grows beyond bounds.
pub(crate) fn defend(connection: &mut Connection) -> rusqlite::Result<Arc<Watch>> {
    for (setting, value) in [
        (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
        (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_FTS3_TOKENIZER, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_ATTACH_CREATE, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_ATTACH_WRITE, false),
        // A name in double quotes that is none is an error, not a text.
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
    Watch::over(connection)
}

/// Gives what was made to whom the folder above it belongs to, where this program is root: nobody else could use it then.
fn own_as_above(path: &Path) -> std::io::Result<()> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let above = fs::symlink_metadata(path.parent().unwrap_or(path))?;
    std::os::unix::fs::lchown(path, Some(above.uid()), Some(above.gid()))
}
