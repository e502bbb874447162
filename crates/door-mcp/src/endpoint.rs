//! MCP without a connection: every message arrives independently, as over HTTP.
//!
//! Up to revision 2025-11-25, a client opens a session and names it with each message. From
//! revision 2026-07-28 on, each message is self-contained and repeats parts of its body in headers,
//! so that intermediaries need not read bodies. Both get the handler, the limits and the responses
//! of a connection.
//!
//! Of HTTP, this module knows only the four headers that the protocol specifies, and the status of
//! refusals.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use engine::Engine;
use parking_lot::{Mutex, MutexGuard};
use rmcp::model::{ClientRequest, ErrorCode, ErrorData, GetExtensions, JsonRpcMessage, RequestId};
use tokio::time::Instant;
use tool::{ByteReservation, SessionId};

use crate::calls::Calls;
use crate::decode::{Incoming, decode};
use crate::dispatch::{self, Dispatcher};
use crate::headers::{Headers, SingleHeader, agree, speaks_modern};
use crate::http_session::HttpSession;
use crate::id::Id;
use crate::origin::IndependentMessage;
use crate::outbox::{OutboxReceiver, QueuedMessage, failure, outbox};
use crate::resumable_stream::Follower;
use crate::{McpError, Options, notices};

/// Maximum number of open sessions. For one more, the session that was idle for longest is ended.
const MAX_SESSIONS: usize = 10_000;

/// Idle time after which a session is ended: a day, because few clients end their sessions.
const IDLE: Duration = Duration::from_hours(24);

/// Idle time after which a session releases its service, until its next use.
const REST: Duration = Duration::from_secs(10);

/// Minimum interval of the checks for idle sessions.
const SWEEP: Duration = Duration::from_mins(10);

/// An MCP endpoint for independent messages.
#[derive(Clone)]
pub struct Endpoint(Arc<Sessions<Engine>>);

/// Outcome of a message.
pub enum PostOutcome {
    /// The message was accepted and needs no response.
    Accepted,
    /// The message was refused.
    Refused(PostRefusal),
    /// The message is a request. Messages about it arrive over time; the last one is its response.
    Answers(Answers),
}

/// Refusal of a message.
#[derive(Debug)]
pub struct PostRefusal {
    /// HTTP status: 400 for an invalid message, 404 for an unknown session.
    pub status: u16,
    /// Error message, as JSON.
    pub text: Vec<u8>,
}

/// Messages about one request. If this is dropped before the response, the request's call is stopped.
pub struct Answers {
    mail: OutboxReceiver,
    live: Arc<HttpSession>,
    number: Option<i64>,
    modern: bool,
    /// Id of the session that the request has opened.
    pub opened: Option<String>,
    /// True if most likely no message follows soon.
    rests: bool,
}

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

impl Endpoint {
    /// Creates an endpoint for this engine. `options.session` is its name in the audit log; each
    /// session appends a number.
    ///
    /// # Errors
    /// [`McpError::Random`] if the operating system returns no random bytes.
    pub fn new(engine: Arc<Engine>, options: Options) -> Result<Self, McpError> {
        Ok(Self(Arc::new(Sessions::new(engine, options)?)))
    }

    /// Creates another endpoint for the same engine, with separate sessions.
    ///
    /// # Errors
    /// The errors of [`Endpoint::new`].
    pub fn for_session(&self, session: SessionId) -> Result<Self, McpError> {
        let options = Options { session, ..self.0.options.clone() };
        Ok(Self(Arc::new(Sessions::new(self.0.calls.clone(), options)?)))
    }

    /// Accepts one message.
    pub async fn post(&self, headers: &Headers<'_>, body: &[u8]) -> PostOutcome {
        self.0.post(headers, body).await
    }

    /// Follows the messages of a session that belong to no request. Replaces an earlier follower.
    /// The session stays open while it is followed.
    ///
    /// # Errors
    /// A refusal if there is no such session.
    pub fn hear(&self, session: SingleHeader<'_>) -> Result<Follower, PostRefusal> {
        self.0.hear(session)
    }

    /// Resumes an interrupted stream after the message with this id.
    ///
    /// # Errors
    /// A refusal if there is no such session, or the stream is no longer available.
    pub fn resume(&self, session: SingleHeader<'_>, id: &str) -> Result<Follower, PostRefusal> {
        self.0.resume(session, id)
    }

    /// Ends a session, with its calls and its remaining work. Returns true if it existed.
    pub async fn end(&self, session: &str) -> bool {
        self.0.end(session).await
    }

    /// Ends all sessions.
    pub async fn end_all(&self) {
        let all: Vec<String> = self.0.lock().open.keys().cloned().collect();
        for session in all {
            self.end(&session).await;
        }
        self.0.let_go(&self.0.alone).await;
    }

    /// Returns the number of open sessions.
    pub fn sessions(&self) -> usize {
        self.0.lock().open.len()
    }
}

/// All sessions, and the shared state for messages without a session.
pub(crate) struct Sessions<C> {
    calls: Arc<C>,
    options: Options,
    alone: Arc<HttpSession>,
    notices: Arc<notices::Notices>,
    state: Mutex<State>,
    opened: AtomicU64,
}

struct State {
    open: HashMap<String, Arc<HttpSession>>,
    swept: Instant,
    rested: Instant,
}

impl<C: Calls> Sessions<C> {
    pub(crate) fn new(calls: Arc<C>, options: Options) -> Result<Self, McpError> {
        // All clients share one token. Calls without a session belong to `options.session`.
        let options = Options { holder: Some(options.session.clone()), ..options };
        let notices = Arc::default();
        let alone = Arc::new(HttpSession::start(&calls, &options, options.session.clone(), &notices)?);
        let state = Mutex::new(State { open: HashMap::new(), swept: Instant::now(), rested: Instant::now() });
        Ok(Self { calls, options, alone, notices, state, opened: AtomicU64::new(0) })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A poisoned lock is usable, because the map is consistent at all times.
        self.state.lock()
    }

    pub(crate) async fn post(&self, headers: &Headers<'_>, body: &[u8]) -> PostOutcome {
        // Count the values before parsing: a parsed value takes many times the memory of its text.
        let too_many = dispatch::too_many_values(body);
        let mut incoming = if too_many.is_some() { Incoming::Ignored } else { decode(body) };
        if let Incoming::Request { request, .. } = &mut incoming {
            request.extensions_mut().insert(IndependentMessage(headers.carrier.cloned()));
        }
        let id = match &incoming {
            Incoming::Request { id, .. } => Some(id.clone()),
            Incoming::Fault { id, .. } => id.clone(),
            _ => None,
        };
        let id = id.as_ref();
        let modern = speaks_modern(headers, &incoming);
        let mut opened = None;
        let live = match headers.session {
            SingleHeader::Several => return refuse(400, id, &several_sessions()),
            SingleHeader::Is(session) => match self.lock().open.get(session) {
                Some(live) => live.clone(),
                None => return refuse(404, id, &no_session()),
            },
            SingleHeader::Absent if modern => self.alone.clone(),
            SingleHeader::Absent => match &incoming {
                Incoming::Request { request, .. } if is_initialize(request) => match self.open().await {
                    Ok((name, live)) => {
                        opened = Some(name);
                        live
                    }
                    Err(error) => return refused(500, id, &error.to_string()),
                },
                Incoming::Fault { error, .. } => return refuse(400, id, error),
                _ => return refuse(400, id, &missing_session()),
            },
        };
        if let Err(error) = agree(headers, &incoming, body) {
            if let Some(opened) = &opened {
                self.end(opened).await;
            }
            return refuse(400, id, &error);
        }
        live.touch();
        let is_alone = Arc::ptr_eq(&live, &self.alone);
        match &incoming {
            // Ids are not unique across clients, so one client could stop another's call. Without a
            // session, a client cancels by closing its stream.
            Incoming::Cancelled { .. } if is_alone => return PostOutcome::Accepted,
            Incoming::Response { .. } if is_alone => {
                return refused(400, id, "this answers no open request");
            }
            _ => {}
        }
        let (outbox, mail) = outbox();
        let desk =
            Dispatcher { connection: &live.connection, outbox: &outbox, limit: self.options.message_limit };
        let message = match too_many {
            Some(skim) => desk.too_many(&skim),
            None => desk.take(incoming, body),
        };
        drop(outbox);
        let number = match message {
            Some(JsonRpcMessage::Request(request)) => {
                let number = if let RequestId::Number(number) = &request.id { Some(*number) } else { None };
                live.take(JsonRpcMessage::Request(request));
                number
            }
            _ if mail.is_empty() => return PostOutcome::Accepted,
            _ => None,
        };
        let rests = opened.is_some();
        PostOutcome::Answers(Answers { mail, live, number, modern, opened, rests })
    }

    /// Opens a session, and ends idle ones if necessary.
    async fn open(&self) -> Result<(String, Arc<HttpSession>), McpError> {
        for ended in self.to_be_ended() {
            self.let_go(&ended).await;
        }
        let mut name = [0_u8; 16];
        getrandom::fill(&mut name).map_err(McpError::Random)?;
        let name: String = name.iter().map(|byte| format!("{byte:02x}")).collect();
        let number = self.opened.fetch_add(1, Ordering::Relaxed) + 1;
        let session = SessionId(format!("{}.{number}", self.options.session.0));
        let live = Arc::new(HttpSession::start(&self.calls, &self.options, session, &self.notices)?);
        self.lock().open.insert(name.clone(), live.clone());
        Ok((name, live))
    }

    /// Removes the sessions that were idle for too long, and the one that was idle for longest if
    /// there are too many.
    fn to_be_ended(&self) -> Vec<Arc<HttpSession>> {
        let mut state = self.lock();
        let mut ended = Vec::new();
        if state.rested.elapsed() >= REST {
            state.rested = Instant::now();
            state.open.values().filter(|live| live.used().elapsed() >= REST).for_each(|live| live.rest());
        }
        if state.swept.elapsed() >= SWEEP {
            state.swept = Instant::now();
            let idle = |live: &HttpSession| live.connection.is_idle() && !live.streams.is_heard();
            let old = |live: &HttpSession| idle(live) && live.used().elapsed() >= IDLE;
            ended.extend(state.open.extract_if(|_, live| old(live)).map(|(_, live)| live));
        }
        if state.open.len() >= MAX_SESSIONS {
            let idle = state.open.iter().filter(|(_, live)| live.connection.is_idle());
            let oldest = idle.min_by_key(|(_, live)| live.used()).map(|(name, _)| name.clone());
            ended.extend(oldest.and_then(|name| state.open.remove(&name)));
        }
        ended
    }

    fn live(&self, session: SingleHeader<'_>) -> Result<Arc<HttpSession>, PostRefusal> {
        let live = match session {
            SingleHeader::Is(session) => self.lock().open.get(session).cloned(),
            SingleHeader::Absent => return Err(refusal(400, None, &missing_session())),
            SingleHeader::Several => return Err(refusal(400, None, &several_sessions())),
        };
        live.ok_or_else(|| refusal(404, None, &no_session()))
    }

    pub(crate) fn resume(&self, session: SingleHeader<'_>, id: &str) -> Result<Follower, PostRefusal> {
        let live = self.live(session)?;
        live.touch();
        live.streams.resume(id).ok_or_else(|| refusal(400, None, &no_stream()))
    }

    pub(crate) fn hear(&self, session: SingleHeader<'_>) -> Result<Follower, PostRefusal> {
        let live = self.live(session)?;
        live.touch();
        let (outbox, mail) = outbox();
        live.connection.stand_by(outbox);
        Ok(live.streams.stand(mail))
    }

    pub(crate) async fn end(&self, session: &str) -> bool {
        let Some(live) = self.lock().open.remove(session) else { return false };
        self.let_go(&live).await;
        true
    }

    async fn let_go(&self, live: &HttpSession) {
        live.connection.close();
        self.calls.end_session(&live.session).await;
    }
}

fn is_initialize(request: &ClientRequest) -> bool {
    matches!(request, ClientRequest::InitializeRequest(_))
}

impl Answers {
    /// Returns the next message to the client; `None` after the response, and when the session has ended.
    pub async fn next(&mut self) -> Option<StreamMessage> {
        let letter = self.mail.next().await?;
        if letter.is_answer {
            self.number = None;
        }
        let status = match letter.code {
            Some(
                ErrorCode::PARSE_ERROR
                | ErrorCode::INVALID_REQUEST
                | ErrorCode::UNSUPPORTED_PROTOCOL_VERSION
                | ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY
                | ErrorCode::HEADER_MISMATCH,
            ) => 400,
            Some(ErrorCode::METHOD_NOT_FOUND) if self.modern => 404,
            _ => 200,
        };
        Some(StreamMessage { status, ..letter.into() })
    }
}

impl Answers {
    /// Converts to a stream that the client can resume, beginning with `said`.
    ///
    /// # Errors
    /// The arguments, if the message has no session.
    pub fn follow(self, said: Option<StreamMessage>) -> Result<Follower, Box<(Self, Option<StreamMessage>)>> {
        if self.modern {
            return Err(Box::new((self, said)));
        }
        let live = self.live.clone();
        Ok(live.streams.open(self, said))
    }
}

impl From<QueuedMessage> for StreamMessage {
    /// Converts a letter; its status is 200.
    fn from(letter: QueuedMessage) -> Self {
        Self { text: letter.text, is_answer: letter.is_answer, status: 200, held: letter.held }
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.live.connection.abandon(number);
        }
        self.live.touch();
        if self.rests {
            self.live.rest();
        }
    }
}

fn refused(status: u16, id: Option<&Id>, problem: &str) -> PostOutcome {
    refuse(status, id, &ErrorData::invalid_request(problem.to_owned(), None))
}

fn refuse(status: u16, id: Option<&Id>, error: &ErrorData) -> PostOutcome {
    PostOutcome::Refused(refusal(status, id, error))
}

fn refusal(status: u16, id: Option<&Id>, error: &ErrorData) -> PostRefusal {
    PostRefusal { status, text: failure(id, error) }
}

fn no_session() -> ErrorData {
    ErrorData::invalid_request("unknown session; begin with `initialize`", None)
}

fn no_stream() -> ErrorData {
    ErrorData::invalid_request("there is nothing to resume after this `Last-Event-ID`", None)
}

fn missing_session() -> ErrorData {
    ErrorData::invalid_request("`Mcp-Session-Id` is missing; begin with `initialize`", None)
}

fn several_sessions() -> ErrorData {
    ErrorData::invalid_request("`Mcp-Session-Id` occurs several times", None)
}
