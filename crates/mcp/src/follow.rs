//! Streams that a client can come back to: what is said to one request of a session over HTTP, and what belongs to none, each message
//! under an id (revisions up to 2025-11-25; the one after that has neither sessions nor ids).
//!
//! A connection that breaks ends nothing for a while, as these revisions ask for: the call goes on, and who comes back with the last
//! id that arrived hears on from there. Who does not come back has given the call up.
//! What belongs to no request is kept for as long as the session lasts, the newest of it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use tool::Held;

use crate::endpoint::{Answers, Saying};
use crate::outbox::Mail;

/// How long a client may stay away. Clients come back within seconds, after a failing network within a minute.
const AWAY: Duration = Duration::from_mins(1);

/// Messages of one stream that are kept; of more the oldest go. Four reports a second come in one minute.
const KEPT: usize = 240;

/// A larger message is kept for nobody who is away, and not once it was handed out, so that it occupies its room for no longer than
/// it takes to be sent. What is smaller gives its room back at once.
const LARGEST_KEPT: usize = 256 * 1024;

/// Streams of one session that somebody may come back to; of more the oldest go.
const MOST: usize = 256;

/// The streams of one session.
#[derive(Default)]
pub(crate) struct Streams(Mutex<Opened>);

#[derive(Default)]
struct Opened {
    last: u64,
    streams: VecDeque<Arc<Stream>>,
    /// The one of what belongs to no request.
    standing: Option<Arc<Stream>>,
}

/// What is said to one request, or to none.
struct Stream {
    number: u64,
    /// Whether it belongs to no request.
    stands: bool,
    log: Mutex<Log>,
    news: Notify,
}

#[derive(Default)]
struct Log {
    /// The number of the first message that is kept. The stream itself is number 0.
    first: u64,
    kept: VecDeque<Kept>,
    has_ended: bool,
    /// Counts those who have followed. The newest one does.
    followers: u64,
    /// Since when nobody does.
    left: Option<Instant>,
    /// Whether that was for so long that nobody may any more.
    is_forgotten: bool,
}

struct Kept {
    text: Option<Arc<Vec<u8>>>,
    is_answer: bool,
    held: Held,
}

/// Hears a stream, from some message on. While there is one its call goes on.
pub struct Follower {
    stream: Arc<Stream>,
    which: u64,
    next: u64,
}

/// One message to the client.
pub struct Event {
    /// What the client comes back with.
    pub id: String,
    /// The message as JSON, on one line.
    pub text: Arc<Vec<u8>>,
    /// Whether it is the answer, after which nothing comes.
    pub is_answer: bool,
    /// What it occupies until it was sent.
    pub held: Held,
}

impl Streams {
    /// A stream of what is said to a request, of which this was said already.
    pub(crate) fn open(&self, answers: Answers, said: Option<Saying>) -> Follower {
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

    /// A stream of what belongs to no request. There is no other one in this session any more.
    pub(crate) fn stand(&self, mail: Mail) -> Follower {
        let mut opened = self.lock();
        let stream = opened.next(true);
        opened.standing = Some(stream.clone());
        drop(opened);
        let follower = Follower::begins(stream.clone());
        tokio::spawn(async move { stream.hear_notices(mail).await });
        follower
    }

    /// Whether somebody hears what belongs to no request.
    pub(crate) fn is_heard(&self) -> bool {
        self.lock().standing.as_ref().is_some_and(|stream| stream.log().left.is_none())
    }

    fn lock(&self) -> MutexGuard<'_, Opened> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Goes on behind the message of this id; none where there is no such stream, or not all that follows is still there. Of what
    /// belongs to no request comes what is still there: it says what changed, and does not build on what it said before.
    pub(crate) fn resume(&self, id: &str) -> Option<Follower> {
        let (stream, last) = id.split_once('-')?;
        let (number, last): (u64, u64) = (stream.parse().ok()?, last.parse().ok()?);
        let opened = self.lock();
        let mut streams = opened.streams.iter().chain(&opened.standing);
        let stream = streams.find(|stream| stream.number == number && !stream.is_forgotten())?;
        Follower::comes_back(stream.clone(), last)
    }
}

impl Opened {
    fn next(&mut self, stands: bool) -> Arc<Stream> {
        self.last += 1;
        let log = Mutex::new(Log { first: 1, ..Log::default() });
        Arc::new(Stream { number: self.last, stands, log, news: Notify::new() })
    }
}

impl Log {
    /// Somebody follows from now on, and nobody else.
    fn follow(&mut self) -> u64 {
        self.followers += 1;
        self.left = None;
        self.followers
    }
}

impl Stream {
    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn say(&self, saying: Saying) {
        let mut log = self.log();
        let Saying { text, is_answer, held, .. } = saying;
        log.has_ended |= is_answer;
        let is_large = text.len() > LARGEST_KEPT;
        if is_large && log.left.is_some() {
            // Nobody takes it now, and its room is for answers that somebody takes.
            return;
        }
        let held = if is_large { held } else { Held::default() };
        log.kept.push_back(Kept { text: Some(Arc::new(text)), is_answer, held });
        if log.kept.len() > KEPT {
            log.kept.pop_front();
            log.first += 1;
        }
        drop(log);
        self.news.notify_waiters();
    }

    /// Whether nobody has followed for so long that nobody will.
    fn is_forgotten(&self) -> bool {
        let mut log = self.log();
        // Said once and for all: who comes back in this moment must not wait for what is being let go of.
        log.is_forgotten |= !self.stands && log.left.is_some_and(|left| left.elapsed() >= AWAY);
        log.is_forgotten
    }

    /// Keeps what is said until all was said and nobody comes back. With the answers the call ends.
    async fn hear(self: Arc<Self>, answers: Answers) {
        tokio::select! {
            () = self.forgotten() => {}
            () = self.take(answers) => self.forgotten().await,
        }
        self.log().kept.clear();
    }

    async fn take(&self, mut answers: Answers) {
        while let Some(said) = answers.next().await {
            let is_answer = said.is_answer;
            self.say(said);
            if is_answer {
                return;
            }
        }
        self.end();
    }

    /// Keeps what belongs to no request, until it goes elsewhere or the session has ended.
    async fn hear_notices(&self, mut mail: Mail) {
        while let Some(letter) = mail.next().await {
            self.say(letter.into());
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

    /// Follows behind the message of this number; none where the stream is forgotten, or what followed is not all there.
    fn comes_back(stream: Arc<Stream>, last: u64) -> Option<Self> {
        let mut log = stream.log();
        let next = log.first + log.kept.len() as u64;
        let is_there = (last >= log.first - 1 || stream.stands) && last < next;
        if log.is_forgotten || !is_there {
            return None;
        }
        let which = log.follow();
        drop(log);
        // Who followed before follows no more.
        stream.news.notify_waiters();
        Some(Self { stream, which, next: last + 1 })
    }

    /// What the client comes back with that has heard nothing yet.
    pub fn begin(&self) -> String {
        format!("{}-0", self.stream.number)
    }

    /// Whether no answer ends it, since it is of no request.
    pub fn stands(&self) -> bool {
        self.stream.stands
    }

    /// The next message; none behind the answer, where the session has ended, and where the client has come back elsewhere.
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
                // What was dropped before it was heard is skipped, and what is there keeps its own number.
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
        let stream = Opened::default().next(false);
        drop(Follower::begins(stream.clone()));
        tokio::time::advance(AWAY).await;
        // The call is being ended.
        assert!(stream.is_forgotten());
        assert!(Follower::comes_back(stream, 0).is_none());
        // The control: a moment earlier it goes on.
        let stream = Opened::default().next(false);
        drop(Follower::begins(stream.clone()));
        tokio::time::advance(AWAY.mul_f64(0.99)).await;
        assert!(!stream.is_forgotten());
        let _follower = Follower::comes_back(stream.clone(), 0).unwrap();
        tokio::time::advance(AWAY).await;
        assert!(!stream.is_forgotten());
    }
}
