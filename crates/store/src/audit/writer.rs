//! The one thread of this process that extends the chain: it takes what waits in the queue, at most one
//! batch at a time, and commits it in one immediate transaction.
//!
//! Nothing is awaited to make a batch larger: while one batch is being committed the next one gathers, so
//! the more callers there are, the more rows share a commit and its flush.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Statement, ToSql, params_from_iter, types::ToSqlOutput};

use crate::audit::Durability;
use crate::audit::encoding::{COLUMNS, digest};
use crate::audit::head::{Flushed, HeadFile, Point};
use crate::audit::queue::{Batch, Entry, Next, Queue};
use crate::audit::receipt::Receipt;
use crate::audit::row::AuditRow;
use crate::database::Database;
use crate::error::StoreError;
use crate::hash::Hash;

/// The queue and, from the first row on, the thread that empties it.
pub(crate) struct Writer {
    database: Arc<Database>,
    head: PathBuf,
    queue: Arc<Queue>,
    thread: Mutex<Option<JoinHandle<Result<(), StoreError>>>>,
}

impl Writer {
    pub(crate) fn new(database: Arc<Database>, head: PathBuf) -> Self {
        Self { database, head, queue: Arc::default(), thread: Mutex::default() }
    }

    pub(crate) fn append(&self, row: AuditRow, durability: Durability) -> Receipt {
        match row.check().and_then(|()| self.start()) {
            Ok(()) => self.queue.push(row, durability),
            Err(error) => Receipt::ready(Err(error)),
        }
    }

    /// Writes what waits, flushes, and ends the thread. The second time, it does nothing.
    pub(crate) fn close(&self) -> Result<(), StoreError> {
        self.queue.close();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        thread.map_or(Ok(()), |thread| thread.join().unwrap_or(Err(StoreError::WriterStopped)))
    }

    #[cfg(test)]
    pub(crate) fn is_running(&self) -> bool {
        self.thread.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    fn start(&self) -> Result<(), StoreError> {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() && !self.queue.is_closed() {
            let (database, queue, head) =
                (Arc::clone(&self.database), Arc::clone(&self.queue), self.head.clone());
            let started = thread::Builder::new()
                .name("audit-writer".to_owned())
                .spawn(move || run(&database, &head, &queue));
            *thread = Some(started.map_err(|error| StoreError::from_io(&self.head, error))?);
        }
        Ok(())
    }
}

/// The life of the thread.
fn run(database: &Database, head: &Path, queue: &Queue) -> Result<(), StoreError> {
    // Whatever ends this thread, also a panic, nobody is left waiting.
    let _abandon = Abandon(queue);
    loop {
        let Next::Batch(batch) = queue.take(None) else { continue };
        if batch.entries.is_empty() {
            return Ok(());
        }
        let closing = batch.closing;
        // A connection is opened for the first batch, and again after a failure: the cause may be gone.
        let failure = match open(database, head) {
            Ok((connection, head)) => match serve(database, &connection, head.as_ref(), queue, batch) {
                Ok(result) => return result,
                Err(failure) => failure,
            },
            Err(error) => Failure { error, entries: batch.entries, closing },
        };
        queue.failed(failure.entries, &failure.error);
        if failure.closing {
            return match queue.abandon() {
                0 => Ok(()),
                rows => Err(StoreError::Unwritten { rows, source: Arc::new(failure.error) }),
            };
        }
    }
}

/// A batch that is not in the database.
struct Failure {
    error: StoreError,
    entries: Vec<Entry>,
    closing: bool,
}

fn open(database: &Database, head: &Path) -> Result<(Connection, Option<HeadFile>), StoreError> {
    Ok((database.connect()?, HeadFile::open(head)?))
}

/// Writes batch after batch until the queue ends (the inner result is that of the orderly end) or a batch
/// fails.
fn serve(
    database: &Database,
    connection: &Connection,
    head: Option<&HeadFile>,
    queue: &Queue,
    first: Batch,
) -> Result<Result<(), StoreError>, Failure> {
    let mut batch = first;
    let mut chain = match Chain::new(database, connection) {
        Ok(chain) => chain,
        Err(error) => return Err(Failure { error, entries: batch.entries, closing: batch.closing }),
    };
    let mut debt = Debt::default();
    while !batch.entries.is_empty() {
        let flushed = if batch.entries.iter().any(|entry| entry.flush) { Flushed::Yes } else { Flushed::No };
        let point = match chain.extend(&batch.entries, flushed) {
            Ok(point) => point,
            Err(error) => return Err(Failure { error, entries: batch.entries, closing: batch.closing }),
        };
        queue.succeeded();
        // The rows are in the database from here on. A head file that cannot be moved is told to those who
        // wait, but is no reason to write the rows again.
        let told = head.map_or(Ok(()), |head| {
            head.advance(point, flushed, |point| chain.holds(point))?;
            debt.add(flushed);
            if debt.is_due() { debt.pay(head) } else { Ok(()) }
        });
        for sender in batch.entries.into_iter().filter_map(|entry| entry.sender) {
            sender.send(told.clone());
        }
        batch = loop {
            match (queue.take(debt.quiet()), head) {
                (Next::Batch(batch), _) => break batch,
                // A failure stays on the books and is told with the next row.
                (Next::Quiet, Some(head)) => drop(debt.pay(head)),
                (Next::Quiet, None) => {}
            }
        };
    }
    Ok(head.map_or(Ok(()), |head| chain.finish(head)))
}

/// Flushed commits since the head file was last flushed itself.
///
/// Flushing it each time would halve the rate. Flushed late, it only lags behind the database after a power
/// loss, as it does after a kill.
#[derive(Default)]
struct Debt {
    commits: u32,
    failed: bool,
}

impl Debt {
    /// The commits after which the head file is flushed even if more rows wait.
    const MOST: u32 = 64;

    /// How long nothing must have come for it to be flushed before that.
    const QUIET: Duration = Duration::from_millis(20);

    fn add(&mut self, flushed: Flushed) {
        self.commits += u32::from(flushed == Flushed::Yes);
    }

    fn is_due(&self) -> bool {
        self.failed || self.commits >= Self::MOST
    }

    fn quiet(&self) -> Option<Duration> {
        // After a failure nothing is tried before the next row, so that a broken disk is not tried for ever.
        (self.commits > 0 && !self.failed).then_some(Self::QUIET)
    }

    fn pay(&mut self, head: &HeadFile) -> Result<(), StoreError> {
        let result = head.flush();
        self.failed = result.is_err();
        if result.is_ok() {
            self.commits = 0;
        }
        result
    }
}

struct Abandon<'q>(&'q Queue);

impl Drop for Abandon<'_> {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

/// The prepared statements that extend the chain, on one connection.
struct Chain<'c> {
    database: &'c Database,
    connection: &'c Connection,
    begin: Statement<'c>,
    commit: Statement<'c>,
    tail: Statement<'c>,
    insert: Statement<'c>,
    at: Statement<'c>,
    full: Flushed,
}

impl<'c> Chain<'c> {
    fn new(database: &'c Database, connection: &'c Connection) -> Result<Self, StoreError> {
        let prepare = |sql: &str| connection.prepare(sql).map_err(|error| database.error(error));
        let marks = vec!["?"; COLUMNS.len() + 2].join(", ");
        Ok(Self {
            database,
            connection,
            begin: prepare("BEGIN IMMEDIATE")?,
            commit: prepare("COMMIT")?,
            tail: prepare("SELECT sequence, hash FROM audit ORDER BY sequence DESC LIMIT 1")?,
            insert: prepare(&format!(
                "INSERT INTO audit ({}, previous, hash) VALUES ({marks})",
                COLUMNS.join(", ")
            ))?,
            at: prepare("SELECT hash FROM audit WHERE sequence = ?")?,
            full: Flushed::No,
        })
    }

    /// Adds the rows after the last one, whichever process wrote that, and commits.
    fn extend(&mut self, entries: &[Entry], flushed: Flushed) -> Result<Point, StoreError> {
        let point = self.transact(entries, flushed);
        if point.is_err() && !self.connection.is_autocommit() {
            // Where even this fails the connection is closed by the caller, which rolls back too.
            let _ = self.connection.execute_batch("ROLLBACK");
        }
        point.map_err(|error| self.database.error(error))
    }

    fn transact(&mut self, entries: &[Entry], flushed: Flushed) -> rusqlite::Result<Point> {
        if self.full != flushed {
            let level = if flushed == Flushed::Yes { "FULL" } else { "NORMAL" };
            self.connection.pragma_update(None, "synchronous", level)?;
            self.full = flushed;
        }
        self.begin.raw_execute()?;
        let mut point = self
            .tail
            .query_row([], |row| Ok(Point { rows: row.get(0)?, hash: hash(row, 1)? }))
            .optional()?
            .unwrap_or(Point::START);
        for entry in entries {
            let previous = point.hash;
            let sequence = point.rows + 1;
            let values = entry.row.values(sequence);
            point = Point { rows: sequence, hash: digest(&previous, values) };
            let values = values.map(ToSqlOutput::Borrowed);
            let hashes = [&previous.as_bytes()[..], &point.hash.as_bytes()[..]];
            let columns = values.iter().map(|value| value as &dyn ToSql);
            self.insert
                .execute(params_from_iter(columns.chain(hashes.iter().map(|hash| hash as &dyn ToSql))))?;
        }
        self.commit.raw_execute()?;
        Ok(point)
    }

    /// Whether the log has this row with this hash.
    fn holds(&mut self, point: Point) -> Result<bool, StoreError> {
        if point.rows == 0 {
            return Ok(point == Point::START);
        }
        let found = self.at.query_row([point.rows], |row| hash(row, 0)).optional();
        Ok(found.map_err(|error| self.database.error(error))? == Some(point.hash))
    }

    /// Makes every committed row outlive a power loss, as far as other processes do not hold it up, and
    /// says so in the head file.
    fn finish(&mut self, head: &HeadFile) -> Result<(), StoreError> {
        let Some(said) = head.read()? else { return Ok(()) };
        if said.committed.rows <= said.flushed.rows {
            return head.flush();
        }
        let complete = self
            .connection
            .query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| {
                let (busy, in_log, moved): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
                Ok(busy == 0 && in_log == moved)
            })
            .map_err(|error| self.database.error(error))?;
        if complete {
            head.advance(said.committed, Flushed::Yes, |point| self.holds(point))?;
        }
        head.flush()
    }
}

fn hash(row: &rusqlite::Row<'_>, index: usize) -> rusqlite::Result<Hash> {
    let value = row.get_ref(index)?;
    // A hash of another length is one that no row was hashed with: the chain shows the break there.
    Ok(value.as_blob().ok().and_then(Hash::from_slice).unwrap_or(Hash::GENESIS))
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::audit::row::Kind;

    #[test]
    fn a_flushed_commit_is_made_under_full_synchronisation_and_others_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let database = Database::open(folder.path(), || Ok(())).unwrap();
        let connection = database.connect().unwrap();
        let mut chain = Chain::new(&database, &connection).unwrap();
        let queue = Queue::default();
        let row = AuditRow::new(Kind::Call, Timestamp::UNIX_EPOCH, "1", "cli", "handfast", "file_read");
        drop(queue.push(row, Durability::Committed));
        let Next::Batch(batch) = queue.take(None) else { panic!("a row waits") };
        // The numbers of SQLite: 1 is NORMAL, which flushes no commit; 2 is FULL, which flushes each.
        for (flushed, expected) in [(Flushed::No, 1), (Flushed::Yes, 2), (Flushed::No, 1)] {
            chain.extend(&batch.entries, flushed).unwrap();
            let level: i64 = connection.query_row("PRAGMA synchronous", [], |row| row.get(0)).unwrap();
            assert_eq!(level, expected);
        }
        let mode: String = connection.query_row("PRAGMA journal_mode", [], |row| row.get(0)).unwrap();
        assert_eq!(mode, "wal");
    }
}
