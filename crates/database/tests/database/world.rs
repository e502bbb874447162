//! A database in a temporary folder, with a store of its changes.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use database::{
    Bounds, Change, DEFAULT_NAME, Database, DatabaseError, Databases, Keep, KeepError, Page, PieceHash,
    ReadPieces, StopCheck, Value, WriteOutcome,
};
use parking_lot::Mutex;

pub(crate) const ALL: Bounds = Bounds { skip: 0, rows: 100_000, bytes: 64 << 20 };

pub(crate) struct World {
    _folder: tempfile::TempDir,
    pub(crate) spool: tempfile::TempDir,
    databases: Databases,
    pub(crate) kept: Kept,
}

/// A store of changes in memory, with committed ones in order.
#[derive(Default)]
pub(crate) struct Kept {
    waiting: Mutex<Option<Change>>,
    pub(crate) happened: Mutex<Vec<Change>>,
    /// Stored pieces of whole databases.
    pub(crate) pieces: Arc<Mutex<BTreeMap<PieceHash, Vec<u8>>>>,
    /// Hashes of the last change's pieces.
    pub(crate) hashes: Mutex<Vec<PieceHash>>,
    pub(crate) refuses: AtomicBool,
}

impl Keep for Kept {
    fn keep(&self, _database: &Path, change: &Change) -> Result<(), KeepError> {
        if self.refuses.load(Ordering::SeqCst) {
            return Err("the disk is full".into());
        }
        let mut hashes = Vec::new();
        for piece in change.pieces()? {
            let mut bytes = Vec::new();
            piece.read()?.read_to_end(&mut bytes)?;
            let mut pieces = self.pieces.lock();
            // Give each piece a unique hash.
            let mut hash = [0; 32];
            hash[..8].copy_from_slice(&(pieces.len() as u64).to_be_bytes());
            pieces.insert(hash, bytes);
            hashes.push(hash);
        }
        let all = self.pieces.clone();
        let read: ReadPieces = Arc::new(move |wanted, to| {
            let pieces = all.lock();
            wanted.iter().try_for_each(|hash| Ok(to.write_all(pieces.get(hash).ok_or("it is gone")?)?))
        });
        let kept = Change::decode(&change.encode(&hashes)?, &read)?;
        *self.hashes.lock() = hashes;
        assert_eq!(kept.lines(false), change.lines(false));
        *self.waiting.lock() = Some(kept);
        Ok(())
    }

    fn happened(&self) {
        let change = self.waiting.lock().take().unwrap();
        self.happened.lock().push(change);
    }

    fn forget(&self) {
        assert!(self.waiting.lock().take().is_some());
    }
}

impl Kept {
    pub(crate) fn last(&self) -> Change {
        self.happened.lock().last().unwrap().clone()
    }
}

pub(crate) fn never() -> StopCheck {
    Arc::new(|| false)
}

impl World {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let workspace = folder.path().canonicalize().unwrap();
        let spool = tempfile::tempdir().unwrap();
        let databases = Databases::new(&workspace, &BTreeMap::new(), &spool.path().join("spool"));
        Self { _folder: folder, spool, databases, kept: Kept::default() }
    }

    pub(crate) fn with(statements: &[&str]) -> Self {
        let world = Self::new();
        for sql in statements {
            world.write(sql).unwrap();
        }
        world
    }

    pub(crate) fn database(&self) -> &Database {
        self.databases.named(DEFAULT_NAME).unwrap()
    }

    pub(crate) fn write(&self, sql: &str) -> Result<WriteOutcome, DatabaseError> {
        self.write_with(sql, &[])
    }

    pub(crate) fn write_with(&self, sql: &str, parameters: &[Value]) -> Result<WriteOutcome, DatabaseError> {
        let planned = self.database().plan(sql)?;
        self.database().write((sql, parameters), &planned, ALL, &self.kept, &never())
    }

    pub(crate) fn query(&self, sql: &str) -> Result<Page, DatabaseError> {
        self.database().query(sql, &[], ALL, &never())
    }

    pub(crate) fn rows(&self, sql: &str) -> Vec<Vec<Value>> {
        self.query(sql).unwrap().rows
    }

    pub(crate) fn planned(&self, sql: &str) -> String {
        self.database().plan(sql).unwrap().lines().join("; ")
    }

    pub(crate) fn undo(&self, changes: &[Change], force: bool) -> Result<u64, DatabaseError> {
        let checked = self.database().undo(changes, force, None, &never());
        let done = self.database().undo(changes, force, Some(&self.kept), &never());
        assert_eq!(checked.is_ok(), done.is_ok(), "{checked:?} {done:?}");
        done.map(|undone| undone.rows)
    }

    /// Returns the number of temporary copies in the spool folder.
    pub(crate) fn spooled(&self) -> usize {
        std::fs::read_dir(self.spool.path().join("spool")).unwrap().count()
    }

    /// Returns the schema and all rows as text.
    pub(crate) fn dump(&self) -> String {
        let mut all = format!("{:?}\n", self.rows("SELECT type, name, sql FROM sqlite_schema ORDER BY 1, 2"));
        for table in self.database().describe(None).unwrap().iter().filter(|table| table.kind != "view") {
            let sql = format!("SELECT * FROM \"{}\"", table.name);
            all.push_str(&format!("{} {:?}\n", table.name, self.rows(&sql)));
        }
        all
    }
}

pub(crate) fn integer(number: i64) -> Value {
    Value::Integer(number)
}

pub(crate) const NOTES: &[&str] = &[
    "CREATE TABLE notes (id INTEGER PRIMARY KEY, title TEXT UNIQUE, body TEXT)",
    "INSERT INTO notes VALUES (1, 'a', 'one'), (2, 'b', 'two'), (3, 'c', NULL)",
];
