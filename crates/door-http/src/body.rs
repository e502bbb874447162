//! Bodies of requests and responses, bounded in size and time.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use engine::Engine;
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::Instant;
use tool::ByteReservation;

use crate::write_timeout::WriteDeadline;

/// Total size of all request bodies in memory, in bytes: eight of the largest.
const MAX_BYTES: usize = 256 * 1024 * 1024;

/// Bytes per semaphore permit, so that the number of permits stays within the limit.
const UNIT: usize = 1024;

/// Bytes of a response that are handed out at a time. A small part makes sure that the response's
/// resources are released only when nearly all of it was sent.
const PART: usize = 64 * 1024;

/// Maximum time for a whole body, as a multiple of the patience.
const WHOLE: u32 = 10;

/// A too long body is read and discarded up to this multiple of the limit. Otherwise a client that
/// is still sending would see a broken connection instead of the response.
const READ_ON: u64 = 4;

/// Maximum number of events that wait for a client.
const MAX_EVENTS: usize = 64;

/// Budget for the bodies of requests.
#[derive(Clone)]
pub(crate) struct BodyBudget {
    bytes: Arc<Semaphore>,
    limit: usize,
    patience: Duration,
}

/// The whole body of a request, with its share of the budget.
pub struct ReadBody {
    /// Bytes of the body.
    pub bytes: Vec<u8>,
    place: Option<OwnedSemaphorePermit>,
}

/// Reason why a body was not read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum BodyError {
    /// The body is longer than the limit, in bytes.
    TooLong(usize),
    /// The budget is exhausted.
    NoRoom,
    /// The body did not arrive in time.
    TooSlow,
    /// The client disconnected, or sent an invalid body.
    Broken,
}

impl BodyBudget {
    pub(crate) fn new(limit: usize, patience: Duration) -> Self {
        Self { bytes: Arc::new(Semaphore::new(MAX_BYTES / UNIT)), limit, patience }
    }

    /// Reads a whole body.
    pub(crate) async fn read<B>(&self, mut body: B) -> Result<ReadBody, BodyError>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        let until = Instant::now() + self.patience * WHOLE;
        let announced = body.size_hint().lower();
        if announced > self.limit as u64 {
            if announced <= self.limit as u64 * READ_ON {
                while let Ok(Some(_)) = self.part(&mut body, until).await {}
            }
            return Err(BodyError::TooLong(self.limit));
        }
        let mut read = ReadBody { bytes: Vec::new(), place: None };
        self.make_room(&mut read.place, usize::try_from(announced).unwrap_or(self.limit))?;
        read.bytes.reserve_exact(usize::try_from(announced).unwrap_or_default());
        while let Some(part) = self.part(&mut body, until).await? {
            if read.bytes.len() + part.len() > self.limit {
                while let Ok(Some(_)) = self.part(&mut body, until).await {}
                return Err(BodyError::TooLong(self.limit));
            }
            self.make_room(&mut read.place, read.bytes.len() + part.len())?;
            read.bytes.extend_from_slice(&part);
        }
        Ok(read)
    }

    /// Returns the next part of the body; `None` at its end.
    async fn part<B>(&self, body: &mut B, until: Instant) -> Result<Option<Bytes>, BodyError>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        loop {
            let next = std::future::poll_fn(|context| Pin::new(&mut *body).poll_frame(context));
            let deadline = until.min(Instant::now() + self.patience);
            return match tokio::time::timeout_at(deadline, next).await {
                Err(_) => Err(BodyError::TooSlow),
                Ok(None) => Ok(None),
                Ok(Some(Err(_))) => Err(BodyError::Broken),
                Ok(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => Ok(Some(data)),
                    // Ignore trailers.
                    Err(_) => continue,
                },
            };
        }
    }

    fn make_room(&self, place: &mut Option<OwnedSemaphorePermit>, bytes: usize) -> Result<(), BodyError> {
        let there = place.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let missing = bytes.div_ceil(UNIT).saturating_sub(there);
        if missing == 0 {
            return Ok(());
        }
        let missing = u32::try_from(missing).map_err(|_| BodyError::NoRoom)?;
        let more = self.bytes.clone().try_acquire_many_owned(missing).map_err(|_| BodyError::NoRoom)?;
        match place {
            Some(place) => place.merge(more),
            None => *place = Some(more),
        }
        Ok(())
    }
}

/// Body of a response, subject to the pace of its connection.
pub struct Answer {
    content: Content,
    pace: WriteDeadline,
}

enum Content {
    /// A complete body.
    Whole {
        /// Bytes not yet sent.
        rest: Bytes,
        /// Resources that the body occupies until it was sent.
        _held: ByteReservation,
    },
    /// A stream of events.
    Events {
        /// Complete events.
        events: mpsc::Receiver<Event>,
        /// Engine that redacts secrets in the events.
        cover: Option<Arc<Engine>>,
        /// Resources of the event that is being sent.
        taken: ByteReservation,
        /// Dropped with the response, also if the client disconnects before its end.
        _guard: Box<dyn std::any::Any + Send + Sync>,
    },
}

/// An event, with the resources that it occupies until it was sent.
pub struct Event {
    text: Bytes,
    held: ByteReservation,
}

impl From<Bytes> for Event {
    fn from(text: Bytes) -> Self {
        Self { text, held: ByteReservation::default() }
    }
}

impl Event {
    /// Creates an event that occupies resources until it was sent.
    pub fn holding(text: Bytes, held: ByteReservation) -> Self {
        Self { text, held }
    }
}

impl Answer {
    pub(crate) fn whole(bytes: impl Into<Bytes>, held: ByteReservation) -> Self {
        Self { content: Content::Whole { rest: bytes.into(), _held: held }, pace: WriteDeadline::default() }
    }

    /// Creates a stream of events from a sender. The stream ends when the sender is dropped;
    /// `guard` is dropped with the response.
    pub(crate) fn events(guard: impl std::any::Any + Send + Sync) -> (mpsc::Sender<Event>, Self) {
        let (sender, events) = mpsc::channel(MAX_EVENTS);
        let content = Content::Events {
            events,
            cover: None,
            taken: ByteReservation::default(),
            _guard: Box::new(guard),
        };
        (sender, Self { content, pace: WriteDeadline::default() })
    }

    /// Redacts every secret, in a complete body and in later events.
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

    /// Sets the pace of the connection that carries the response.
    pub(crate) fn at(mut self, pace: WriteDeadline) -> Self {
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
                // The connection is ready for more, so the previous event was sent.
                pace.end();
                *taken = ByteReservation::default();
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

/// Redacts the secrets in an event, whose data is JSON on one line. Returns `None` if it contains none.
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

/// Formats a server-sent event. `data` must not contain line breaks, like JSON on one line.
pub fn event(name: &str, data: &[u8]) -> Bytes {
    let mut text = Vec::with_capacity(name.len() + data.len() + 16);
    for part in [b"event: ".as_slice(), name.as_bytes(), b"\ndata: ", data, b"\n\n"] {
        text.extend_from_slice(part);
    }
    text.into()
}

/// Formats an event with an id, from which the client can resume. An event without data only
/// announces its id.
pub fn event_of(id: &str, data: &[u8]) -> Bytes {
    let mut text = format!("id: {id}\n").into_bytes();
    text.extend_from_slice(&event("message", data));
    text.into()
}

/// Interval of the heartbeats on a stream.
pub const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(10);

/// A comment that keeps the stream alive.
pub const HEARTBEAT: Bytes = Bytes::from_static(b": \n\n");

/// Body of an incoming request.
pub(crate) type RequestBody = Incoming;

#[cfg(test)]
mod tests {
    use super::*;

    /// A body whose parts arrive at intervals.
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

    const TIMEOUT: Duration = Duration::from_secs(30);

    fn parts(count: usize, size: usize, each: Duration, announced: u64) -> Parts {
        Parts { left: vec![Bytes::from(vec![b'x'; size]); count], each, announced, wait: None }
    }

    async fn read(limit: usize, body: Parts) -> Result<usize, BodyError> {
        BodyBudget::new(limit, TIMEOUT).read(body).await.map(|read| read.bytes.len())
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_of_exactly_the_limit_is_read_and_one_byte_more_is_not() {
        let at_once = Duration::ZERO;
        assert_eq!(read(100, parts(10, 10, at_once, 0)).await, Ok(100));
        assert_eq!(read(100, parts(10, 10, at_once, 100)).await, Ok(100));
        assert_eq!(read(99, parts(10, 10, at_once, 0)).await, Err(BodyError::TooLong(99)));
        assert_eq!(read(99, parts(10, 10, at_once, 100)).await, Err(BodyError::TooLong(99)));
        assert_eq!(read(99, parts(10, 10, at_once, u64::MAX)).await, Err(BodyError::TooLong(99)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_stands_still_or_drips_is_given_up() {
        assert_eq!(read(100, parts(2, 1, TIMEOUT * 2, 0)).await, Err(BodyError::TooSlow));
        assert_eq!(read(100, parts(50, 1, TIMEOUT / 2, 0)).await, Err(BodyError::TooSlow));
        assert_eq!(read(100, parts(5, 1, TIMEOUT / 2, 0)).await, Ok(5));
    }

    #[tokio::test(start_paused = true)]
    async fn bodies_share_room_and_give_it_back() {
        let room = BodyBudget::new(MAX_BYTES, TIMEOUT);
        let full = room.read(parts(1, MAX_BYTES, Duration::ZERO, 0)).await.map_err(drop).unwrap();
        let refused = room.read(parts(1, 1, Duration::ZERO, 0)).await.map(|_| ());
        assert_eq!(refused, Err(BodyError::NoRoom));
        drop(full);
        assert!(room.read(parts(1, 1, Duration::ZERO, 0)).await.is_ok());
    }

    #[tokio::test]
    async fn an_answer_is_taken_in_parts_and_holds_its_place_until_the_end() {
        let token = Arc::new(());
        let mut answer = Answer::whole(vec![7; PART * 2 + 1], ByteReservation(Some(Box::new(token.clone()))));
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
        let event =
            Event::holding(Bytes::from_static(b"large"), ByteReservation(Some(Box::new(token.clone()))));
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
