//! Streams over HTTP that a client can resume: the messages about one request of a session, and the
//! messages that belong to no request. Each message has an id. Only the revisions up to 2025-11-25
//! have these streams; the next one has neither sessions nor ids.
//!
//! As these revisions require, a broken connection has no effect for a while. The call continues,
//! and a client that returns with the id of its last message receives the following ones. A client
//! that stays away cancels the call. Messages that belong to no request are stored for the life of
//! the session, up to a limit that drops the oldest.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::time::Instant;
use tool::ByteReservation;

use crate::outbox::{OutboxReceiver, QueuedMessage};

/// Maximum absence of a client. Clients return within seconds, or within a minute after a network failure.
const AWAY: Duration = Duration::from_mins(1);

/// Maximum number of stored messages per stream; beyond it, the oldest are dropped. Four reports
/// per second for one minute fit.
const KEPT: usize = 240;

/// Size above which a message is not stored for an absent client, nor after its delivery, in bytes.
/// So it occupies its reservation only until it was sent. Smaller messages release their
/// reservation at once.
const LARGEST_KEPT: usize = 256 * 1024;

/// Maximum number of resumable streams per session; beyond it, the oldest are dropped.
const MOST: usize = 256;

/// One message to the client.
pub struct StreamMessage {
    /// Message as JSON, on one line.
    pub text: Vec<u8>,
    /// True for the response, which is the last message.
    pub is_answer: bool,
    /// HTTP status for the message, if it is the first one.
    pub status: u16,
    /// Resources that the message occupies until it was sent.
    pub held: ByteReservation,
}

impl From<QueuedMessage> for StreamMessage {
    /// Converts a queued message; its status is 200.
    fn from(message: QueuedMessage) -> Self {
        Self { text: message.text, is_answer: message.is_answer, status: 200, held: message.held }
    }
}

/// Source of the messages of a stream.
pub(crate) trait Messages: Send + 'static {
    /// Returns the next message; `None` after the last one.
    fn next(&mut self) -> impl Future<Output = Option<StreamMessage>> + Send;
}

impl Messages for OutboxReceiver {
    async fn next(&mut self) -> Option<StreamMessage> {
        OutboxReceiver::next(self).await.map(StreamMessage::from)
    }
}

/// The streams of one session.
#[derive(Default)]
pub(crate) struct Streams(Mutex<StreamTable>);

#[derive(Default)]
struct StreamTable {
    last: u64,
    streams: VecDeque<Arc<Stream>>,
    /// Stream of the messages that belong to no request.
    standing: Option<Arc<Stream>>,
}

/// Stream of messages about one request, or about none.
struct Stream {
    number: u64,
    /// True if its messages belong to no request.
    stands: bool,
    log: Mutex<Log>,
    news: Notify,
}

#[derive(Default)]
struct Log {
    /// Number of the first stored message. Number 0 is the stream itself.
    first: u64,
    kept: VecDeque<RetainedMessage>,
    has_ended: bool,
    /// Total number of followers so far. Only the newest is active.
    followers: u64,
    /// Time since when there is no follower.
    left: Option<Instant>,
    /// True if the client was absent for too long to return.
    is_forgotten: bool,
}

struct RetainedMessage {
    text: Option<Arc<Vec<u8>>>,
    is_answer: bool,
    held: ByteReservation,
}

/// A reader of a stream, from some message on. A call continues while its stream has a follower.
pub struct Follower {
    stream: Arc<Stream>,
    which: u64,
    next: u64,
}

/// One message to the client.
pub struct Event {
    /// Id from which the client resumes.
    pub id: String,
    /// Message as JSON, on one line.
    pub text: Arc<Vec<u8>>,
    /// True for the response, which is the last message.
    pub is_answer: bool,
    /// Resources that the message occupies until it was sent.
    pub held: ByteReservation,
}

impl Streams {
    /// Opens a stream for the messages about a request, beginning with `said`.
    pub(crate) fn open(&self, answers: impl Messages, said: Option<StreamMessage>) -> Follower {
        let mut opened = self.lock();
        opened.streams.retain(|stream| !stream.is_forgotten());
        if opened.streams.len() >= MOST {
            opened.streams.pop_front();
        }
        let stream = opened.next(false);
        opened.streams.push_back(stream.clone());
        drop(opened);
        if let Some(said) = said {
            stream.say(said);
        }
        let follower = Follower::begins(stream.clone());
        tokio::spawn(stream.hear(answers));
        follower
    }

    /// Opens the stream of messages that belong to no request. Replaces an earlier one of this session.
    pub(crate) fn stand(&self, mail: OutboxReceiver) -> Follower {
        let mut opened = self.lock();
        let stream = opened.next(true);
        opened.standing = Some(stream.clone());
        drop(opened);
        let follower = Follower::begins(stream.clone());
        tokio::spawn(async move { stream.take(mail).await });
        follower
    }

    /// Returns true if a client follows the messages that belong to no request.
    pub(crate) fn is_heard(&self) -> bool {
        self.lock().standing.as_ref().is_some_and(|stream| stream.log().left.is_none())
    }

    fn lock(&self) -> MutexGuard<'_, StreamTable> {
        self.0.lock()
    }

    /// Resumes after the message with this id. Returns `None` if there is no such stream, or a
    /// later message was dropped. The stream of messages that belong to no request resumes even
    /// then, because its messages do not build on each other.
    pub(crate) fn resume(&self, id: &str) -> Option<Follower> {
        let (stream, last) = id.split_once('-')?;
        let (number, last): (u64, u64) = (stream.parse().ok()?, last.parse().ok()?);
        let opened = self.lock();
        let mut streams = opened.streams.iter().chain(&opened.standing);
        let stream = streams.find(|stream| stream.number == number && !stream.is_forgotten())?;
        Follower::comes_back(stream.clone(), last)
    }
}

impl StreamTable {
    fn next(&mut self, stands: bool) -> Arc<Stream> {
        self.last += 1;
        let log = Mutex::new(Log { first: 1, ..Log::default() });
        Arc::new(Stream { number: self.last, stands, log, news: Notify::new() })
    }
}

impl Log {
    /// Registers a new follower, which replaces the previous one.
    fn follow(&mut self) -> u64 {
        self.followers += 1;
        self.left = None;
        self.followers
    }
}

impl Stream {
    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock()
    }

    fn say(&self, saying: StreamMessage) {
        let mut log = self.log();
        let StreamMessage { text, is_answer, held, .. } = saying;
        log.has_ended |= is_answer;
        let is_large = text.len() > LARGEST_KEPT;
        if is_large && log.left.is_some() {
            // No client takes the message now; its reservation is for responses to clients that are
            // present.
            return;
        }
        let held = if is_large { held } else { ByteReservation::default() };
        log.kept.push_back(RetainedMessage { text: Some(Arc::new(text)), is_answer, held });
        if log.kept.len() > KEPT {
            log.kept.pop_front();
            log.first += 1;
        }
        drop(log);
        self.news.notify_waiters();
    }

    /// Returns true if the stream had no follower for too long to be resumed.
    fn is_forgotten(&self) -> bool {
        let mut log = self.log();
        // The flag never resets: a client that returns at this moment must not wait for a stream
        // that is being dropped.
        log.is_forgotten |= !self.stands && log.left.is_some_and(|left| left.elapsed() >= AWAY);
        log.is_forgotten
    }

    /// Stores messages until the response was stored and the client does not return. Dropping
    /// `answers` ends the call.
    async fn hear(self: Arc<Self>, answers: impl Messages) {
        tokio::select! {
            () = self.forgotten() => {}
            () = self.take(answers) => self.forgotten().await,
        }
        self.log().kept.clear();
    }

    /// Stores messages up to the response, or until their source ends.
    async fn take(&self, mut messages: impl Messages) {
        while let Some(said) = messages.next().await {
            let is_answer = said.is_answer;
            self.say(said);
            if is_answer {
                return;
            }
        }
        self.end();
    }

    fn end(&self) {
        self.log().has_ended = true;
        self.news.notify_waiters();
    }

    async fn forgotten(&self) {
        loop {
            let news = self.news.notified();
            tokio::pin!(news);
            news.as_mut().enable();
            if self.is_forgotten() {
                return;
            }
            let left = self.log().left;
            match left {
                Some(left) => tokio::select! {
                    () = tokio::time::sleep_until(left + AWAY) => {}
                    () = news => {}
                },
                None => news.await,
            }
        }
    }
}

impl Follower {
    fn begins(stream: Arc<Stream>) -> Self {
        let which = stream.log().follow();
        Self { stream, which, next: 1 }
    }

    /// Follows after the message with this number; `None` if the stream was dropped, or a later
    /// message is missing.
    fn comes_back(stream: Arc<Stream>, last: u64) -> Option<Self> {
        let mut log = stream.log();
        let next = log.first + log.kept.len() as u64;
        let is_there = (last >= log.first - 1 || stream.stands) && last < next;
        if log.is_forgotten || !is_there {
            return None;
        }
        let which = log.follow();
        drop(log);
        // The previous follower ends.
        stream.news.notify_waiters();
        Some(Self { stream, which, next: last + 1 })
    }

    /// Returns the id from which a client resumes that has received no message yet.
    pub fn begin(&self) -> String {
        format!("{}-0", self.stream.number)
    }

    /// Returns true if the stream belongs to no request, so that no response ends it.
    pub fn stands(&self) -> bool {
        self.stream.stands
    }

    /// Returns the next message; `None` after the response, when the session has ended, and when
    /// the client has resumed elsewhere.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            let news = self.stream.news.notified();
            tokio::pin!(news);
            news.as_mut().enable();
            {
                let mut log = self.stream.log();
                if log.followers != self.which {
                    return None;
                }
                // Skip messages that were dropped before delivery; the others keep their numbers.
                self.next = self.next.max(log.first);
                let index = usize::try_from(self.next - log.first).unwrap_or(usize::MAX);
                let has_ended = log.has_ended;
                if let Some(kept) = log.kept.get_mut(index) {
                    let text = kept.text.clone()?;
                    if text.len() > LARGEST_KEPT {
                        kept.text = None;
                    }
                    let held = std::mem::take(&mut kept.held);
                    let id = format!("{}-{}", self.stream.number, self.next);
                    self.next += 1;
                    return Some(Event { id, text, is_answer: kept.is_answer, held });
                }
                if has_ended {
                    return None;
                }
            }
            news.await;
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let mut log = self.stream.log();
        if log.followers == self.which {
            log.left = Some(Instant::now());
        }
        drop(log);
        self.stream.news.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_comes_back_as_the_stream_is_let_go_of_is_told_so_and_waits_for_nothing() {
        let stream = StreamTable::default().next(false);
        drop(Follower::begins(stream.clone()));
        tokio::time::advance(AWAY).await;
        // The call is being ended.
        assert!(stream.is_forgotten());
        assert!(Follower::comes_back(stream, 0).is_none());
        // Control: a moment earlier, the stream can be resumed.
        let stream = StreamTable::default().next(false);
        drop(Follower::begins(stream.clone()));
        tokio::time::advance(AWAY.mul_f64(0.99)).await;
        assert!(!stream.is_forgotten());
        let _follower = Follower::comes_back(stream.clone(), 0).unwrap();
        tokio::time::advance(AWAY).await;
        assert!(!stream.is_forgotten());
    }
}
