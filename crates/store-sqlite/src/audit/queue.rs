//! Queue of rows for the writer thread: a bounded queue between any number of callers and one
//! thread.
//!
//! The receipts enforce the bound. Up to [`ROOM`] rows, a row written behind is answered at once.
//! Above `ROOM`, or after a failed write, its receipt waits for the commit like any other. Callers
//! that wait for their receipts therefore never have more than `ROOM` rows here, plus one each. For
//! other callers, [`LIMIT`] refuses further rows.
//!
//! A row with a waiting caller wakes the thread at once. Other rows wake the thread only if it is
//! idle. Right after a batch, they gather for [`GATHER`]. A wakeup per row would take longer than
//! many a read, and its commits would run concurrently with the next reads.

use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::VecDeque;
use std::time::{Duration, Instant};
use store_api::{AuditRow, Durability, Receipt, Sender, StoreError};

/// Queued rows, and bytes of their texts, below which rows written behind are answered at once.
const ROOM: Size = Size { rows: 1_024, bytes: 8 * 1024 * 1024 };

/// Queued rows, and bytes of their texts, at which a further row is refused.
const LIMIT: Size = Size { rows: 16_384, bytes: 64 * 1024 * 1024 };

/// Maximum number of rows of one commit, measured: larger commits gain nothing and hold the write
/// lock longer.
const BATCH: usize = 256;

/// Time for which rows without a waiting caller gather after a batch: about twenty of the quickest
/// calls.
const GATHER: Duration = Duration::from_millis(1);

/// Number of rows that callers write themselves before one is left to the thread. The thread's
/// commit then runs the WAL checkpoint if the WAL has grown long. A row changes about four pages,
/// and a checkpoint is due at a thousand.
const CLAIMS: usize = 64;

/// Maximum number of queued rows that a caller writes together with its own.
const ALONG: usize = 32;

#[derive(Clone, Copy, Default)]
struct Size {
    rows: usize,
    bytes: usize,
}

impl Size {
    fn reaches(self, bound: Self) -> bool {
        self.rows >= bound.rows || self.bytes >= bound.bytes
    }
}

/// A queued row.
pub(crate) struct Entry {
    pub(crate) row: AuditRow,
    pub(crate) flush: bool,
    bytes: usize,
    /// Sender of the commit's result; `None` for a row that was answered when it was queued.
    pub(crate) sender: Option<Sender>,
}

#[derive(Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    arrived: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Entry>,
    bytes: usize,
    /// True if the last write failed; rows written behind then wait for the result of the next one.
    failing: bool,
    /// Number of rows at the front whose write failed: they wait for the next row or for the end.
    stale: usize,
    closed: bool,
    /// True if the rows must be taken at once: a caller waits for one of them, or they fill a batch.
    hurry: bool,
    /// True if the thread will wake up soon enough for rows without a waiting caller.
    gathering: bool,
    /// True while the thread writes its last batch.
    writing: bool,
    /// True while a caller writes its own row.
    claimed: bool,
    /// Number of rows that callers have written since the thread's last batch.
    claims: usize,
    /// True if a caller has ever written a row.
    ever_claimed: bool,
}

impl State {
    fn size(&self) -> Size {
        Size { rows: self.waiting.len(), bytes: self.bytes }
    }

    /// Takes up to `count` rows from the front.
    fn drain(&mut self, count: usize) -> Vec<Entry> {
        let count = self.waiting.len().min(count);
        let entries: Vec<Entry> = self.waiting.drain(..count).collect();
        self.bytes -= entries.iter().map(|entry| entry.bytes).sum::<usize>();
        self.stale = self.stale.saturating_sub(count);
        self.hurry = !self.waiting.is_empty();
        entries
    }

    fn put_back(&mut self, entry: Entry) {
        self.bytes += entry.bytes;
        self.waiting.push_front(entry);
    }
}

/// Next step of the writer thread.
pub(crate) enum Next {
    /// Rows to write; an empty batch means the end.
    Batch(Batch),
    /// A quiet period: no row arrived for the given time.
    Quiet,
}

/// Rows to be written in one transaction.
pub(crate) struct Batch {
    pub(crate) entries: Vec<Entry>,
    /// True if no further rows will follow those in the queue.
    pub(crate) closing: bool,
}

impl Queue {
    /// Adds a row for the writer thread.
    pub(crate) fn push(&self, row: AuditRow, durability: Durability) -> Receipt {
        let bytes = row.text_bytes();
        let mut state = self.lock();
        if state.closed {
            return Receipt::ready(Err(StoreError::Closed));
        }
        if state.size().reaches(LIMIT) {
            return Receipt::ready(Err(StoreError::QueueFull { rows: state.waiting.len() }));
        }
        let answered = durability == Durability::Behind && !state.failing && !state.size().reaches(ROOM);
        let (receipt, sender) = if answered {
            (Receipt::ready(Ok(())), None)
        } else {
            let (receipt, sender) = Receipt::pending();
            (receipt, Some(sender))
        };
        state.bytes += bytes;
        state.waiting.push_back(Entry { row, flush: durability == Durability::Flushed, bytes, sender });
        state.hurry |= !answered || state.waiting.len() >= BATCH;
        if state.hurry || !state.gathering {
            self.arrived.notify_one();
        }
        receipt
    }

    /// Allows a caller to write its row itself, after the few queued rows and before all later ones.
    /// Returns `None` while others write or wait, and when the thread's turn has come.
    pub(crate) fn claim(&self) -> Option<Claim<'_>> {
        let mut state = self.lock();
        let others = state.writing || state.claimed || state.hurry || state.waiting.len() > ALONG;
        if others || state.closed || state.failing || state.claims >= CLAIMS {
            return None;
        }
        let before = state.drain(ALONG);
        state.claimed = true;
        state.claims += before.len() + 1;
        state.ever_claimed = true;
        Some(Claim { queue: self, before })
    }

    /// Returns true if a caller has ever written a row itself.
    pub(crate) fn was_claimed(&self) -> bool {
        self.lock().ever_claimed
    }

    /// Blocks until there are new rows to write, until the end, or until no row came for `quiet`.
    /// The call means that the previous batch is written.
    pub(crate) fn take(&self, quiet: Option<Duration>) -> Next {
        let mut state = self.lock();
        if state.writing {
            state = self.gather(state);
        }
        while state.claimed || (!state.closed && state.waiting.len() <= state.stale) {
            let Some(quiet) = quiet else {
                self.arrived.wait(&mut state);
                continue;
            };
            let timeout = self.arrived.wait_for(&mut state, quiet);
            if timeout.timed_out() && !state.claimed && !state.closed && state.waiting.len() <= state.stale {
                return Next::Quiet;
            }
        }
        let entries = state.drain(BATCH);
        state.writing = true;
        state.claims = 0;
        Next::Batch(Batch { entries, closing: state.closed })
    }

    /// Lets rows gather until a caller waits for one.
    fn gather<'q>(&'q self, mut state: MutexGuard<'q, State>) -> MutexGuard<'q, State> {
        state.writing = false;
        state.gathering = true;
        let until = Instant::now() + GATHER;
        while !state.hurry && !state.closed {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            self.arrived.wait_for(&mut state, left);
        }
        state.gathering = false;
        state
    }

    /// Records that the batch was written.
    pub(crate) fn succeeded(&self) {
        self.lock().failing = false;
    }

    /// Records that the batch was not written: waiting callers get the error. The other rows stay at
    /// the front, to be retried with the next row and at the end.
    pub(crate) fn failed(&self, entries: Vec<Entry>, error: &StoreError) {
        let mut state = self.lock();
        state.failing = true;
        let mut kept = 0;
        for mut entry in entries.into_iter().rev() {
            if let Some(sender) = entry.sender.take() {
                sender.send(Err(error.clone()));
            } else {
                state.put_back(entry);
                kept += 1;
            }
        }
        // Rows still behind the kept ones were never tried; they are taken with the next batch at
        // once.
        state.stale = if state.waiting.len() == kept { kept } else { 0 };
    }

    /// Refuses further rows; the writer thread ends after it has taken the queued ones.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.arrived.notify_all();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Refuses further rows and answers the queued ones, because the writer thread is gone. Returns
    /// the number of lost rows whose callers were already answered.
    pub(crate) fn abandon(&self) -> usize {
        let mut state = self.lock();
        state.closed = true;
        let unanswered = state.waiting.iter().filter(|entry| entry.sender.is_none()).count();
        state.waiting.clear();
        state.bytes = 0;
        unanswered
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

/// Right of a caller to write its own row. While this value lives, no other thread writes.
pub(crate) struct Claim<'q> {
    queue: &'q Queue,
    /// Queued rows to be written before the caller's own; on drop, unwritten ones return to the
    /// queue.
    before: Vec<Entry>,
}

impl Claim<'_> {
    /// Returns the rows to write, in order, with the caller's own as the last.
    pub(crate) fn rows<'r>(&'r self, own: &'r AuditRow) -> impl Iterator<Item = &'r AuditRow> {
        self.before.iter().map(|entry| &entry.row).chain([own])
    }

    /// Records that the rows are in the database.
    pub(crate) fn written(&mut self) {
        self.before.clear();
    }

    /// Passes the row to the thread, to be written first after the rows that were queued before.
    pub(crate) fn hand_over(self, row: AuditRow, durability: Durability) -> Receipt {
        let (receipt, sender) = Receipt::pending();
        let bytes = row.text_bytes();
        let entry = Entry { row, flush: durability == Durability::Flushed, bytes, sender: Some(sender) };
        let mut state = self.queue.lock();
        state.put_back(entry);
        state.hurry = true;
        receipt
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut state = self.queue.lock();
        state.claimed = false;
        for entry in self.before.drain(..).rev() {
            state.put_back(entry);
        }
        if state.closed || !state.waiting.is_empty() {
            self.queue.arrived.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use store_api::Kind;

    use super::*;

    fn row(call: &str) -> AuditRow {
        AuditRow::new(Kind::Call, Timestamp::UNIX_EPOCH, call, "cli", "handfast", "file_read")
    }

    fn take(queue: &Queue) -> Batch {
        match queue.take(None) {
            Next::Batch(batch) => batch,
            Next::Quiet => panic!("no time was given"),
        }
    }

    #[test]
    fn quiet_is_told_only_when_nothing_waits() {
        let queue = Queue::default();
        assert!(matches!(queue.take(Some(Duration::ZERO)), Next::Quiet));
        drop(queue.push(row("1"), Durability::Behind));
        assert!(matches!(queue.take(Some(Duration::ZERO)), Next::Batch(batch) if batch.entries.len() == 1));
        queue.close();
        assert!(matches!(queue.take(Some(Duration::ZERO)), Next::Batch(batch) if batch.entries.is_empty()));
    }

    #[test]
    fn a_row_written_behind_is_answered_at_once_while_there_is_room() {
        let queue = Queue::default();
        assert!(queue.push(row("1"), Durability::Behind).is_answered());
        assert!(!queue.push(row("2"), Durability::Committed).is_answered());
    }

    #[test]
    fn without_room_a_row_written_behind_waits_for_its_commit() {
        let queue = Queue::default();
        for _ in 0..ROOM.rows {
            assert!(queue.push(row("1"), Durability::Behind).is_answered());
        }
        assert!(!queue.push(row("2"), Durability::Behind).is_answered());
    }

    #[test]
    fn room_is_also_counted_in_bytes() {
        let queue = Queue::default();
        let large = "x".repeat(ROOM.bytes);
        assert!(queue.push(row(&large), Durability::Behind).is_answered());
        assert!(!queue.push(row("2"), Durability::Behind).is_answered());
    }

    #[test]
    fn above_the_limit_a_row_is_refused() {
        let queue = Queue::default();
        for _ in 0..LIMIT.rows {
            drop(queue.push(row("1"), Durability::Committed));
        }
        let refused = queue.push(row("2"), Durability::Committed).wait();
        assert!(matches!(refused, Err(StoreError::QueueFull { rows }) if rows == LIMIT.rows));
    }

    #[test]
    fn after_a_failure_answered_rows_stay_first_and_the_others_are_told() {
        let queue = Queue::default();
        drop(queue.push(row("1"), Durability::Behind));
        let told = queue.push(row("2"), Durability::Committed);
        drop(queue.push(row("3"), Durability::Behind));
        let batch = take(&queue);
        queue.failed(batch.entries, &StoreError::Closed);
        assert!(matches!(told.wait(), Err(StoreError::Closed)));

        let next = queue.push(row("4"), Durability::Behind);
        assert!(!next.is_answered(), "a row after a failure is told the result of the next attempt");
        assert_eq!(calls(take(&queue).entries), ["1", "3", "4"]);
    }

    fn calls(entries: Vec<Entry>) -> Vec<String> {
        entries.into_iter().map(|entry| entry.row.call).collect()
    }

    #[test]
    fn rows_that_nobody_waits_for_gather_after_a_batch() {
        let queue = Queue::default();
        drop(queue.push(row("1"), Durability::Behind));
        assert_eq!(calls(take(&queue).entries), ["1"]);
        drop(queue.push(row("2"), Durability::Behind));
        let began = Instant::now();
        assert_eq!(calls(take(&queue).entries), ["2"]);
        assert!(began.elapsed() >= GATHER);
    }

    #[test]
    fn nothing_gathers_while_somebody_waits_or_there_is_a_batch_or_at_the_end() {
        let waits = |queue: &Queue| !matches!(queue.lock(), state if state.hurry || state.closed);
        let queue = Queue::default();
        drop(queue.push(row("1"), Durability::Behind));
        assert!(waits(&queue));
        let told = queue.push(row("2"), Durability::Committed);
        assert!(!waits(&queue));
        assert_eq!(calls(take(&queue).entries), ["1", "2"]);
        drop(told);
        for _ in 1..BATCH {
            drop(queue.push(row("3"), Durability::Behind));
        }
        assert!(waits(&queue));
        drop(queue.push(row("3"), Durability::Behind));
        assert!(!waits(&queue));
        assert_eq!(take(&queue).entries.len(), BATCH);
        assert!(waits(&queue));
        queue.close();
        assert!(!waits(&queue));
    }

    #[test]
    fn a_claim_writes_what_gathered_before_it_or_leaves_it_in_its_place() {
        let queue = Queue::default();
        drop(queue.push(row("1"), Durability::Behind));
        drop(queue.push(row("2"), Durability::Behind));
        let claim = queue.claim().unwrap();
        let own = row("3");
        let written: Vec<&str> = claim.rows(&own).map(|row| row.call.as_str()).collect();
        assert_eq!(written, ["1", "2", "3"]);
        assert!(queue.claim().is_none(), "one writes at a time");
        drop(queue.push(row("4"), Durability::Behind));
        let receipt = claim.hand_over(own, Durability::Committed);
        assert!(!receipt.is_answered());
        assert!(queue.claim().is_none(), "a row that somebody waits for is the thread's");
        assert_eq!(calls(take(&queue).entries), ["1", "2", "3", "4"]);
        queue.lock().writing = false;

        drop(queue.push(row("5"), Durability::Behind));
        queue.claim().unwrap().written();
        assert!(queue.lock().waiting.is_empty());
        assert_eq!(queue.lock().bytes, 0);
    }

    #[test]
    fn a_closed_queue_hands_out_what_waits_and_takes_no_more() {
        let queue = Queue::default();
        drop(queue.push(row("1"), Durability::Behind));
        queue.close();
        assert!(matches!(queue.push(row("2"), Durability::Behind).wait(), Err(StoreError::Closed)));
        let batch = take(&queue);
        assert!(batch.closing);
        assert_eq!(batch.entries.len(), 1);
        assert!(take(&queue).entries.is_empty());
    }
}
