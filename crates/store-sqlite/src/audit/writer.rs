//! Writer of the chain: one thread takes the queued rows, at most one batch at a time, and commits
//! each batch in one immediate transaction.
//!
//! Rows with a waiting caller are never delayed to make a batch larger. While one batch is being
//! committed the next one gathers, so with more callers, more rows share a commit and its flush.
//! Rows without a waiting caller gather a moment longer ([`queue`](crate::audit::queue)).
//!
//! If no other thread writes, a caller that waits for a commit without a flush makes the commit
//! itself. The commit takes a third of the time that waking two threads adds. The caller never waits
//! for another process, and leaves everything that does not succeed at once to the thread.

use parking_lot::Mutex;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use store_api::{AuditRow, Durability, Receipt, StoreError};

use crate::audit::chain::Chain;
use crate::audit::head::{CommitDurability, HeadFile};
use crate::audit::queue::{Batch, Claim, Entry, Next, Queue};
use crate::database::Database;

/// The queue and, from the first row on, the thread that empties it.
pub(crate) struct Writer {
    database: Arc<Database>,
    head: PathBuf,
    queue: Arc<Queue>,
    thread: Mutex<Option<JoinHandle<Result<(), StoreError>>>>,
    /// Connection and file for rows that callers write themselves, opened by the first one.
    direct: Mutex<Option<Direct>>,
}

/// The connection and the head file for rows that callers write themselves.
struct Direct {
    chain: Chain,
    head: Option<HeadFile>,
}

impl Writer {
    pub(crate) fn new(database: Arc<Database>, head: PathBuf) -> Self {
        let (queue, thread, direct) = (Arc::default(), Mutex::default(), Mutex::default());
        Self { database, head, queue, thread, direct }
    }

    pub(crate) fn append(&self, row: AuditRow, durability: Durability) -> Receipt {
        if let Err(error) = row.check().and_then(|()| self.start()) {
            return Receipt::ready(Err(error));
        }
        let turn = (durability == Durability::Committed).then(|| self.queue.claim()).flatten();
        let Some(mut turn) = turn else { return self.queue.push(row, durability) };
        match self.write(&mut turn, &row) {
            Some(told) => Receipt::ready(told),
            None => turn.hand_over(row, durability),
        }
    }

    /// Writes a row and the queued rows before it on this thread. Returns `None` if that did not
    /// succeed at once, and no row is in the database. A head file that cannot be moved is an error,
    /// although the rows are in the database.
    fn write(&self, claim: &mut Claim<'_>, row: &AuditRow) -> Option<Result<(), StoreError>> {
        let mut kept = self.direct.lock();
        // A failed connection is not kept: it may be the cause.
        let mut direct = match kept.take() {
            Some(direct) => direct,
            None => {
                let chain = Chain::open_without_waiting(&self.database).ok()?;
                Direct { chain, head: HeadFile::open(&self.head).ok()? }
            }
        };
        let turn = direct.head.as_ref().map(HeadFile::try_turn).transpose().ok()?;
        let point = direct.chain.extend(claim.rows(row), CommitDurability::No).ok()?;
        claim.written();
        let told = turn.map_or(Ok(()), |turn| {
            turn.advance(point, CommitDurability::No, |point| direct.chain.holds(point))
        });
        *kept = Some(direct);
        Some(told)
    }

    /// Writes the queued rows, flushes, and ends the thread. A second call does nothing.
    pub(crate) fn close(&self) -> Result<(), StoreError> {
        self.queue.close();
        let thread = self.thread.lock().take();
        let ended = thread.map_or(Ok(()), |thread| thread.join().unwrap_or(Err(StoreError::WriterStopped)));
        *self.direct.lock() = None;
        ended
    }

    #[cfg(test)]
    pub(crate) fn is_running(&self) -> bool {
        self.thread.lock().is_some()
    }

    fn start(&self) -> Result<(), StoreError> {
        let mut thread = self.thread.lock();
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

/// Runs the writer thread.
fn run(database: &Arc<Database>, head: &Path, queue: &Queue) -> Result<(), StoreError> {
    // However this thread ends, even by a panic, no caller is left waiting.
    let _abandon = Abandon(queue);
    loop {
        let Next::Batch(batch) = queue.take(None) else { continue };
        if batch.entries.is_empty() && !queue.was_claimed() {
            return Ok(());
        }
        let closing = batch.closing;
        // Open a connection for the first batch, and again after a failure: the cause may be gone.
        let failure = match open(database, head) {
            Ok((mut chain, head)) => match serve(&mut chain, head.as_ref(), queue, batch) {
                Ok(result) => return result,
                Err(failure) => failure,
            },
            Err(error) if batch.entries.is_empty() => return Err(error),
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

fn open(database: &Arc<Database>, head: &Path) -> Result<(Chain, Option<HeadFile>), StoreError> {
    Ok((Chain::open(database)?, HeadFile::open(head)?))
}

/// Writes batch after batch until the queue ends (the inner result is that of the orderly end) or a
/// batch fails.
fn serve(
    chain: &mut Chain,
    head: Option<&HeadFile>,
    queue: &Queue,
    first: Batch,
) -> Result<Result<(), StoreError>, Failure> {
    let mut batch = first;
    let mut debt = Debt::default();
    while !batch.entries.is_empty() {
        let flushed = if batch.entries.iter().any(|entry| entry.flush) {
            CommitDurability::Yes
        } else {
            CommitDurability::No
        };
        let point = match chain.extend(batch.entries.iter().map(|entry| &entry.row), flushed) {
            Ok(point) => point,
            Err(error) => return Err(Failure { error, entries: batch.entries, closing: batch.closing }),
        };
        queue.succeeded();
        // The rows are in the database from here on. If the head file cannot be moved, the waiting
        // callers get the error, but the rows are not written again.
        let told = head.map_or(Ok(()), |head| {
            head.turn()?.advance(point, flushed, |point| chain.holds(point))?;
            debt.add(flushed);
            if debt.is_due() { debt.pay(head) } else { Ok(()) }
        });
        for sender in batch.entries.into_iter().filter_map(|entry| entry.sender) {
            sender.send(told.clone());
        }
        batch = loop {
            match (queue.take(debt.quiet()), head) {
                (Next::Batch(batch), _) => break batch,
                // A failure is remembered, and reported with the next row.
                (Next::Quiet, Some(head)) => drop(debt.pay(head)),
                (Next::Quiet, None) => {}
            }
        };
    }
    Ok(head.map_or(Ok(()), |head| chain.finish(head)))
}

/// Number of flushed commits since the head file itself was flushed.
///
/// A flush of the file with every commit would halve the rate. A late flush only means that the file
/// may lag behind the database after a power loss, as it does after a kill.
#[derive(Default)]
struct Debt {
    commits: u32,
    failed: bool,
}

impl Debt {
    /// Number of commits after which the head file is flushed even if more rows wait.
    const MOST: u32 = 64;

    /// Time without new rows after which the head file is flushed earlier.
    const QUIET: Duration = Duration::from_millis(20);

    fn add(&mut self, flushed: CommitDurability) {
        self.commits += u32::from(flushed == CommitDurability::Yes);
    }

    fn is_due(&self) -> bool {
        self.failed || self.commits >= Self::MOST
    }

    fn quiet(&self) -> Option<Duration> {
        // After a failure, the next attempt comes with the next row, so that a broken disk is not
        // retried forever.
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
