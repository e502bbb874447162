//! A scripted server, a clock that a test turns, and a sink that notes everything.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::Bytes;
use llm::{
    Body, ChatRequest, Delta, HttpRequest, HttpResponse, Limits, Message, Model, ModelError, ModelInfo,
    Provider, RemoteModel, Response, Sink, Transport, TransportError, WireFormat, known,
};
use parking_lot::Mutex;
use serde_json::Value;
use tool::{BoxFuture, Stop, StopReason, Timer};

use crate::schema::{Shape, hold};

/// Piece of a scripted body.
#[derive(Clone)]
pub(crate) enum Piece {
    /// Bytes.
    Bytes(Bytes),
    /// Bytes that repeat without end.
    Endless(Bytes),
    /// The connection breaks.
    Break,
    /// A moment in which nothing is there.
    Moment,
    /// Silence without end.
    Silence,
    /// The caller stops, and nothing comes any more.
    StopOf(Stop),
}

/// Scripted response.
#[derive(Clone)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) pieces: Vec<Piece>,
}

impl Reply {
    /// Creates a response with these bytes.
    pub(crate) fn bytes(bytes: impl Into<Bytes>) -> Self {
        Self::pieces(vec![Piece::Bytes(bytes.into())])
    }

    /// Creates a response whose body comes in pieces.
    pub(crate) fn pieces(pieces: Vec<Piece>) -> Self {
        Self { status: 200, headers: Vec::new(), pieces }
    }

    /// Creates the response of a failure that has the published shape.
    pub(crate) fn failure(wire: WireFormat, status: u16, error: &Value) -> Self {
        hold(wire, Shape::Error, [error]);
        Self { status, ..Self::bytes(error.to_string()) }
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }
}

/// Returns a stream of events, each of which has the published shape.
pub(crate) fn stream(wire: WireFormat, events: &[Value]) -> Vec<u8> {
    hold(wire, Shape::Event, events);
    unchecked(wire, events)
}

/// Returns a stream of events of any shape.
pub(crate) fn unchecked(wire: WireFormat, events: &[Value]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for event in events {
        let text = match wire {
            WireFormat::Ollama => format!("{event}\n"),
            WireFormat::Anthropic => {
                format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default())
            }
            WireFormat::OpenAi | WireFormat::OpenAiCompatible => format!("data: {event}\n\n"),
            WireFormat::Gemini => format!("data: {event}\r\n\r\n"),
        };
        bytes.extend_from_slice(text.as_bytes());
    }
    if matches!(wire, WireFormat::OpenAi | WireFormat::OpenAiCompatible) {
        bytes.extend_from_slice(b"data: [DONE]\n\n");
    }
    bytes
}

/// Outcome of a request, by the script.
enum Scripted {
    Reply(Reply),
    Unreachable,
    Silence,
}

/// Server that plays its script, and fails the test if a request does not have the published shape.
pub(crate) struct Server {
    wire: WireFormat,
    replies: Mutex<VecDeque<Scripted>>,
    requests: Mutex<Vec<HttpRequest>>,
    /// Number of bodies that were dropped before their end.
    cut: Arc<AtomicUsize>,
}

impl Server {
    pub(crate) fn new(wire: WireFormat, replies: Vec<Reply>) -> Arc<Self> {
        let replies = Mutex::new(replies.into_iter().map(Scripted::Reply).collect());
        Arc::new(Self { wire, replies, requests: Mutex::default(), cut: Arc::default() })
    }

    /// Adds a failure of the connection to the script.
    pub(crate) fn then_unreachable(&self) {
        self.replies.lock().push_back(Scripted::Unreachable);
    }

    /// Adds a response that never comes to the script.
    pub(crate) fn then_silent(&self) {
        self.replies.lock().push_back(Scripted::Silence);
    }

    /// Returns the bodies of the requests so far.
    pub(crate) fn bodies(&self) -> Vec<Value> {
        self.requests.lock().iter().map(|request| serde_json::from_slice(&request.body).unwrap()).collect()
    }

    /// Returns the only request.
    pub(crate) fn request(&self) -> HttpRequest {
        let requests = self.requests.lock();
        assert_eq!(requests.len(), 1);
        requests[0].clone()
    }

    pub(crate) fn cut(&self) -> usize {
        self.cut.load(Ordering::SeqCst)
    }

    /// Returns a model on this server.
    pub(crate) fn model(self: &Arc<Self>, name: &str) -> RemoteModel {
        self.with(known(self.wire, name), Limits::default(), Clock::jumping())
    }

    pub(crate) fn with(self: &Arc<Self>, info: ModelInfo, limits: Limits, clock: Arc<Clock>) -> RemoteModel {
        let base = self.wire.usual_base().unwrap_or("http://127.0.0.1:8000/v1/").to_owned();
        let provider = Provider { base, wire: self.wire, transport: self.clone(), timer: clock, limits };
        RemoteModel::new(Arc::new(provider), info)
    }
}

impl Transport for Server {
    fn send(&self, request: HttpRequest) -> BoxFuture<'_, Result<HttpResponse, TransportError>> {
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        hold(self.wire, Shape::Request, [&body]);
        self.requests.lock().push(request);
        let reply =
            self.replies.lock().pop_front().unwrap_or_else(|| panic!("the script has no more replies"));
        let cut = self.cut.clone();
        Box::pin(async move {
            let Reply { status, headers, pieces } = match reply {
                Scripted::Reply(reply) => reply,
                Scripted::Unreachable => return Err(TransportError { message: "no route to host".into() }),
                Scripted::Silence => std::future::pending().await,
            };
            let body = Box::new(Play { pieces: pieces.into(), is_over: false, cut });
            Ok(HttpResponse { status, headers, body })
        })
    }
}

struct Play {
    pieces: VecDeque<Piece>,
    is_over: bool,
    cut: Arc<AtomicUsize>,
}

impl Body for Play {
    fn piece(&mut self) -> BoxFuture<'_, Result<Option<Bytes>, TransportError>> {
        Box::pin(std::future::poll_fn(|context| match self.pieces.front().cloned() {
            Some(Piece::Bytes(bytes)) => {
                self.pieces.pop_front();
                Poll::Ready(Ok(Some(bytes)))
            }
            Some(Piece::Endless(bytes)) => Poll::Ready(Ok(Some(bytes))),
            Some(Piece::Break) => Poll::Ready(Err(TransportError { message: "connection reset".into() })),
            Some(Piece::Moment) => {
                self.pieces.pop_front();
                context.waker().wake_by_ref();
                Poll::Pending
            }
            Some(Piece::Silence) => Poll::Pending,
            Some(Piece::StopOf(stop)) => {
                stop.request(StopReason::Cancelled);
                Poll::Pending
            }
            None => {
                self.is_over = true;
                Poll::Ready(Ok(None))
            }
        }))
    }
}

impl Drop for Play {
    fn drop(&mut self) {
        if !self.is_over {
            self.cut.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// Clock that jumps to whatever is waited for, or that stands still.
pub(crate) struct Clock {
    begin: Instant,
    now: Arc<Mutex<Instant>>,
    stands: bool,
}

impl Clock {
    pub(crate) fn jumping() -> Arc<Self> {
        Self::new(false)
    }

    pub(crate) fn standing() -> Arc<Self> {
        Self::new(true)
    }

    fn new(stands: bool) -> Arc<Self> {
        let begin = Instant::now();
        Arc::new(Self { begin, now: Arc::new(Mutex::new(begin)), stands })
    }

    /// Returns the time since the begin.
    pub(crate) fn elapsed(&self) -> Duration {
        self.now.lock().duration_since(self.begin)
    }
}

impl Timer for Clock {
    fn now(&self) -> Instant {
        *self.now.lock()
    }

    fn sleep_until(&self, moment: Instant) -> BoxFuture<'static, ()> {
        if self.stands {
            return Box::pin(std::future::pending());
        }
        let now = self.now.clone();
        Box::pin(std::future::poll_fn(move |_| {
            let mut now = now.lock();
            *now = moment.max(*now);
            Poll::Ready(())
        }))
    }
}

/// Sink that notes everything in lines.
#[derive(Default)]
pub(crate) struct Notes(pub(crate) Vec<String>);

impl Sink for Notes {
    fn take(&mut self, delta: Delta<'_>) {
        self.0.push(match delta {
            Delta::Text(text) => format!("text {text}"),
            Delta::Thinking(text) => format!("thinking {text}"),
            Delta::CallStarted { index, name } => format!("call {index} {name}"),
            Delta::CallArguments { index, text } => format!("arguments {index} {text}"),
            Delta::Discarded => "discarded".to_owned(),
        });
    }
}

/// Runs a future to its end.
pub(crate) fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

/// Asks a model, and returns the answer with everything that the sink got.
pub(crate) fn ask(model: &dyn Model, request: &ChatRequest) -> (Result<Response, ModelError>, Vec<String>) {
    let mut notes = Notes::default();
    let response = run(model.chat(request, &mut notes, &Stop::default()));
    (response, notes.0)
}

/// Returns the answer of a server with this script to a short question.
pub(crate) fn answer(wire: WireFormat, name: &str, reply: Reply) -> Result<Response, ModelError> {
    ask(&Server::new(wire, vec![reply]).model(name), &question()).0
}

pub(crate) fn question() -> ChatRequest {
    ChatRequest { messages: vec![Message::user("What is in it?")], ..ChatRequest::default() }
}
