//! What requests bring and answers carry: bounded in bytes, and in time.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use engine::Engine;
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::Instant;
use tool::Held;

use crate::patient::Pace;

/// Bytes that the bodies of requests may have in all: eight of the largest.
const MOST_BYTES: usize = 256 * 1024 * 1024;

/// Semaphore permits count in this unit, so that their number fits.
const UNIT: usize = 1024;

/// As much of an answer as is handed out at a time, so that what it holds is given back when nearly all of it was taken.
const PART: usize = 64 * 1024;

/// How many times the patience a whole body may take.
const WHOLE: u32 = 10;

/// A body that is too long is read on, and forgotten, up to this many times the limit: a client that has not written everything
/// yet would see a broken connection in place of the answer.
const READ_ON: u64 = 4;

/// Events that may wait for a client to take them.
const MOST_EVENTS: usize = 64;

/// Where the bodies of requests find room.
#[derive(Clone)]
pub(crate) struct Room {
    bytes: Arc<Semaphore>,
    limit: usize,
    patience: Duration,
}

/// The whole body of a request, and its place.
pub(crate) struct Read {
    pub(crate) bytes: Vec<u8>,
    place: Option<OwnedSemaphorePermit>,
}

/// Why a body was not read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unread {
    /// It is longer than the limit, in bytes.
    TooLong(usize),
    /// There is no room for it now.
    NoRoom,
    /// It did not come in time.
    TooSlow,
    /// The client went away, or what it sent is no body.
    Broken,
}

impl Room {
    pub(crate) fn new(limit: usize, patience: Duration) -> Self {
        Self { bytes: Arc::new(Semaphore::new(MOST_BYTES / UNIT)), limit, patience }
    }

    /// Reads a body to its end.
    pub(crate) async fn read<B>(&self, mut body: B) -> Result<Read, Unread>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        let until = Instant::now() + self.patience * WHOLE;
        let announced = body.size_hint().lower();
        if announced > self.limit as u64 {
            if announced <= self.limit as u64 * READ_ON {
                while let Ok(Some(_)) = self.part(&mut body, until).await {}
            }
            return Err(Unread::TooLong(self.limit));
        }
        let mut read = Read { bytes: Vec::new(), place: None };
        self.make_room(&mut read.place, usize::try_from(announced).unwrap_or(self.limit))?;
        read.bytes.reserve_exact(usize::try_from(announced).unwrap_or_default());
        while let Some(part) = self.part(&mut body, until).await? {
            if read.bytes.len() + part.len() > self.limit {
                while let Ok(Some(_)) = self.part(&mut body, until).await {}
                return Err(Unread::TooLong(self.limit));
            }
            self.make_room(&mut read.place, read.bytes.len() + part.len())?;
            read.bytes.extend_from_slice(&part);
        }
        Ok(read)
    }

    /// The next part; none at the end.
    async fn part<B>(&self, body: &mut B, until: Instant) -> Result<Option<Bytes>, Unread>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        loop {
            let next = std::future::poll_fn(|context| Pin::new(&mut *body).poll_frame(context));
            let deadline = until.min(Instant::now() + self.patience);
            return match tokio::time::timeout_at(deadline, next).await {
                Err(_) => Err(Unread::TooSlow),
                Ok(None) => Ok(None),
                Ok(Some(Err(_))) => Err(Unread::Broken),
                Ok(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => Ok(Some(data)),
                    // Trailers say nothing here.
                    Err(_) => continue,
                },
            };
        }
    }

    fn make_room(&self, place: &mut Option<OwnedSemaphorePermit>, bytes: usize) -> Result<(), Unread> {
        let there = place.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let missing = bytes.div_ceil(UNIT).saturating_sub(there);
        if missing == 0 {
            return Ok(());
        }
        let missing = u32::try_from(missing).map_err(|_| Unread::NoRoom)?;
        let more = self.bytes.clone().try_acquire_many_owned(missing).map_err(|_| Unread::NoRoom)?;
        match place {
            Some(place) => place.merge(more),
            None => *place = Some(more),
        }
        Ok(())
    }
}

/// The body of an answer, at the pace of its connection.
pub(crate) struct Answer {
    content: Content,
    pace: Pace,
}

enum Content {
    /// All of it.
    Whole {
        /// What is still to be taken.
        rest: Bytes,
        /// What it occupies until it was taken.
        _held: Held,
    },
    /// Events as they come.
    Events {
        /// The events, whole.
        events: mpsc::Receiver<Event>,
        /// Covers the secrets in them.
        cover: Option<Arc<Engine>>,
        /// What the event occupies that the client takes now.
        taken: Held,
        /// Gone with the answer, also where the client is gone before its end.
        _guard: Box<dyn std::any::Any + Send + Sync>,
    },
}

/// An event, and what it occupies until the client has taken it.
pub(crate) struct Event {
    text: Bytes,
    held: Held,
}

impl From<Bytes> for Event {
    fn from(text: Bytes) -> Self {
        Self { text, held: Held::default() }
    }
}

impl Event {
    /// Makes an event that occupies something until the client has taken it.
    pub(crate) fn holding(text: Bytes, held: Held) -> Self {
        Self { text, held }
    }
}

impl Answer {
    pub(crate) fn whole(bytes: impl Into<Bytes>, held: Held) -> Self {
        Self { content: Content::Whole { rest: bytes.into(), _held: held }, pace: Pace::default() }
    }

    /// Events that are put into the sender, for as long as it lives. The guard is dropped with the answer.
    pub(crate) fn events(guard: impl std::any::Any + Send + Sync) -> (mpsc::Sender<Event>, Self) {
        let (sender, events) = mpsc::channel(MOST_EVENTS);
        let content =
            Content::Events { events, cover: None, taken: Held::default(), _guard: Box::new(guard) };
        (sender, Self { content, pace: Pace::default() })
    }

    /// Covers every secret, in what is there and in events that come.
    pub(crate) fn cover(&mut self, engine: &Arc<Engine>) {
        match &mut self.content {
            Content::Whole { rest, .. } => {
                if let Some(covered) = engine.cover_message(rest) {
                    *rest = Bytes::from(covered);
                }
            }
            Content::Events { cover, .. } => *cover = Some(engine.clone()),
        }
    }

    /// Gives the answer the pace of the connection that carries it.
    pub(crate) fn at(mut self, pace: Pace) -> Self {
        self.pace = pace;
        self
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.pace.end();
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Self { content, pace } = self.get_mut();
        match content {
            Content::Whole { rest, .. } if rest.is_empty() => Poll::Ready(None),
            Content::Whole { rest, .. } => {
                pace.begin();
                let part = rest.split_to(rest.len().min(PART));
                Poll::Ready(Some(Ok(Frame::data(part))))
            }
            Content::Events { events, cover, taken, .. } => {
                // The connection has room again: what came before was taken.
                pace.end();
                *taken = Held::default();
                events.poll_recv(context).map(|event| {
                    event.map(|Event { text, held }| {
                        pace.begin();
                        *taken = held;
                        let covered = cover.as_ref().and_then(|engine| covered_event(engine, &text));
                        Ok(Frame::data(covered.unwrap_or(text)))
                    })
                })
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.content, Content::Whole { rest, .. } if rest.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Whole { rest, .. } => SizeHint::with_exact(rest.len() as u64),
            Content::Events { .. } => SizeHint::default(),
        }
    }
}

/// Covers the secrets in the lines of an event, whose data is JSON on one line; none where it holds none.
fn covered_event(engine: &Engine, event: &[u8]) -> Option<Bytes> {
    engine.cover_message(event)?;
    let mut covered = Vec::with_capacity(event.len());
    for line in event.split_inclusive(|byte| *byte == b'\n') {
        let (line, end) = line.strip_suffix(b"\n").map_or((line, &b""[..]), |line| (line, b"\n"));
        let (name, value) = line.strip_prefix(b"data: ").map_or((&b""[..], line), |data| (b"data: ", data));
        covered.extend_from_slice(name);
        covered.extend_from_slice(engine.cover_message(value).as_deref().unwrap_or(value));
        covered.extend_from_slice(end);
    }
    Some(covered.into())
}

/// One server-sent event. The data has no line breaks, as JSON on one line.
pub(crate) fn event(name: &str, data: &[u8]) -> Bytes {
    let mut text = Vec::with_capacity(name.len() + data.len() + 16);
    for part in [b"event: ".as_slice(), name.as_bytes(), b"\ndata: ", data, b"\n\n"] {
        text.extend_from_slice(part);
    }
    text.into()
}

/// The same under an id, which the client comes back with. Without data it tells nothing but that.
pub(crate) fn event_of(id: &str, data: &[u8]) -> Bytes {
    let mut text = format!("id: {id}\n").into_bytes();
    text.extend_from_slice(&event("message", data));
    text.into()
}

/// What says that the stream lives, and nothing else.
pub(crate) const HEARTBEAT: Bytes = Bytes::from_static(b": \n\n");

/// The body of a request as it comes from the wire.
pub(crate) type Coming = Incoming;

#[cfg(test)]
mod tests {
    use super::*;

    /// A body whose parts come after a time each.
    struct Parts {
        left: Vec<Bytes>,
        each: Duration,
        announced: u64,
        wait: Option<Pin<Box<tokio::time::Sleep>>>,
    }

    impl Body for Parts {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            let each = self.each;
            let wait = self.wait.get_or_insert_with(|| Box::pin(tokio::time::sleep(each)));
            if wait.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            self.wait = None;
            Poll::Ready(self.left.pop().map(|part| Ok(Frame::data(part))))
        }

        fn size_hint(&self) -> SizeHint {
            let mut hint = SizeHint::new();
            hint.set_lower(self.announced);
            hint
        }
    }

    const PATIENCE: Duration = Duration::from_secs(30);

    fn parts(count: usize, size: usize, each: Duration, announced: u64) -> Parts {
        Parts { left: vec![Bytes::from(vec![b'x'; size]); count], each, announced, wait: None }
    }

    async fn read(limit: usize, body: Parts) -> Result<usize, Unread> {
        Room::new(limit, PATIENCE).read(body).await.map(|read| read.bytes.len())
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_of_exactly_the_limit_is_read_and_one_byte_more_is_not() {
        let at_once = Duration::ZERO;
        assert_eq!(read(100, parts(10, 10, at_once, 0)).await, Ok(100));
        assert_eq!(read(100, parts(10, 10, at_once, 100)).await, Ok(100));
        assert_eq!(read(99, parts(10, 10, at_once, 0)).await, Err(Unread::TooLong(99)));
        assert_eq!(read(99, parts(10, 10, at_once, 100)).await, Err(Unread::TooLong(99)));
        assert_eq!(read(99, parts(10, 10, at_once, u64::MAX)).await, Err(Unread::TooLong(99)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_stands_still_or_drips_is_given_up() {
        assert_eq!(read(100, parts(2, 1, PATIENCE * 2, 0)).await, Err(Unread::TooSlow));
        assert_eq!(read(100, parts(50, 1, PATIENCE / 2, 0)).await, Err(Unread::TooSlow));
        assert_eq!(read(100, parts(5, 1, PATIENCE / 2, 0)).await, Ok(5));
    }

    #[tokio::test(start_paused = true)]
    async fn bodies_share_room_and_give_it_back() {
        let room = Room::new(MOST_BYTES, PATIENCE);
        let full = room.read(parts(1, MOST_BYTES, Duration::ZERO, 0)).await.map_err(drop).unwrap();
        let refused = room.read(parts(1, 1, Duration::ZERO, 0)).await.map(|_| ());
        assert_eq!(refused, Err(Unread::NoRoom));
        drop(full);
        assert!(room.read(parts(1, 1, Duration::ZERO, 0)).await.is_ok());
    }

    #[tokio::test]
    async fn an_answer_is_taken_in_parts_and_holds_its_place_until_the_end() {
        let token = Arc::new(());
        let mut answer = Answer::whole(vec![7; PART * 2 + 1], Held(Some(Box::new(token.clone()))));
        let mut sizes = Vec::new();
        while let Some(frame) =
            std::future::poll_fn(|context| Pin::new(&mut answer).poll_frame(context)).await
        {
            sizes.push(frame.unwrap().into_data().unwrap().len());
            assert_eq!(Arc::strong_count(&token), 2);
        }
        assert_eq!(sizes, [PART, PART, 1]);
        drop(answer);
        assert_eq!(Arc::strong_count(&token), 1);
    }

    #[tokio::test]
    async fn an_event_holds_its_place_until_the_next_is_asked_for() {
        let token = Arc::new(());
        let (sender, mut answer) = Answer::events(());
        let event = Event::holding(Bytes::from_static(b"large"), Held(Some(Box::new(token.clone()))));
        sender.send(event).await.map_err(drop).unwrap();
        drop(sender);
        assert_eq!(Arc::strong_count(&token), 2, "nobody has taken it");
        let mut next =
            async || std::future::poll_fn(|context| Pin::new(&mut answer).poll_frame(context)).await;
        assert_eq!(next().await.unwrap().unwrap().into_data().unwrap(), "large");
        assert_eq!(Arc::strong_count(&token), 2, "the connection carries it");
        assert!(next().await.is_none());
        assert_eq!(Arc::strong_count(&token), 1);
    }
}
