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
use rmcp::model::ErrorData;
use tokio::time::Instant;
use tool::SessionId;

use crate::active_request::Arrival;
use crate::answers::{Answers, PostOutcome, PostRefusal};
use crate::decode::{Incoming, decode};
use crate::dispatch::{self, Dispatcher};
use crate::engine_server::EngineServer;
use crate::headers::{Headers, SingleHeader, agree, speaks_modern};
use crate::http_session::HttpSession;
use crate::id::Id;
use crate::notices::Notices;
use crate::options::{McpError, Options};
use crate::outbox::{failure, outbox};
use crate::resumable_stream::Follower;
use crate::server_backend::ServerBackend;

/// Maximum number of open sessions. For one more, the session that was idle for longest is ended.
const MAX_SESSIONS: usize = 10_000;

/// Idle time after which a session is ended: a day, because few clients end their sessions.
const IDLE: Duration = Duration::from_hours(24);

/// Minimum interval of the checks for idle sessions.
const SWEEP: Duration = Duration::from_mins(10);

/// An MCP endpoint for independent messages.
#[derive(Clone)]
pub struct Endpoint(Arc<Sessions>);

/// Function that makes the content of each new session.
pub(crate) type MakeBackend =
    dyn Fn(Arc<Options>, &Arc<Notices>) -> Result<Arc<dyn ServerBackend>, McpError> + Send + Sync;

impl Endpoint {
    /// Creates an endpoint for this engine. `options.session` is its name in the audit log; each
    /// session appends a number.
    ///
    /// # Errors
    /// [`McpError::Random`] if the operating system returns no random bytes.
    pub fn new(engine: &Arc<Engine>, options: Options) -> Result<Self, McpError> {
        let served = engine.clone();
        let endpoint = Self::with(options, move |options, notices| {
            Ok(Arc::new(EngineServer::new(served.clone(), options, notices.clone())?))
        })?;
        endpoint.0.notices.follow(engine.as_ref());
        Ok(endpoint)
    }

    /// Creates an endpoint with any content. `make` is called for each session, with the options of
    /// the session and the notices of this endpoint.
    ///
    /// # Errors
    /// The errors of `make`, and those of [`Endpoint::new`].
    pub fn with(
        options: Options,
        make: impl Fn(Arc<Options>, &Arc<Notices>) -> Result<Arc<dyn ServerBackend>, McpError>
        + Send
        + Sync
        + 'static,
    ) -> Result<Self, McpError> {
        Ok(Self(Arc::new(Sessions::new(Arc::new(make), options)?)))
    }

    /// Creates another endpoint with the same content, with separate sessions.
    ///
    /// # Errors
    /// The errors of [`Endpoint::new`].
    pub fn for_session(&self, session: SessionId) -> Result<Self, McpError> {
        let options = Options { session, ..self.0.options.clone() };
        Ok(Self(Arc::new(Sessions::new(self.0.make.clone(), options)?)))
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
        self.0.alone.end().await;
    }

    /// Returns the number of open sessions.
    pub fn sessions(&self) -> usize {
        self.0.lock().open.len()
    }
}

/// All sessions, and the shared state for messages without a session.
pub(crate) struct Sessions {
    make: Arc<MakeBackend>,
    options: Options,
    alone: Arc<HttpSession>,
    notices: Arc<Notices>,
    state: Mutex<State>,
    opened: AtomicU64,
}

struct State {
    open: HashMap<String, Arc<HttpSession>>,
    swept: Instant,
}

impl Sessions {
    pub(crate) fn new(make: Arc<MakeBackend>, options: Options) -> Result<Self, McpError> {
        // All clients share one token. Calls without a session belong to `options.session`.
        let options = Options { holder: Some(options.session.clone()), ..options };
        let notices = Arc::<Notices>::default();
        let alone = new_session(make.as_ref(), options.clone(), &notices)?;
        let state = Mutex::new(State { open: HashMap::new(), swept: Instant::now() });
        Ok(Self { make, options, alone, notices, state, opened: AtomicU64::new(0) })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A poisoned lock is usable, because the map is consistent at all times.
        self.state.lock()
    }

    pub(crate) async fn post(&self, headers: &Headers<'_>, body: &[u8]) -> PostOutcome {
        // Count the values before parsing: a parsed value takes many times the memory of its text.
        let too_many = dispatch::too_many_values(body);
        let incoming = if too_many.is_some() { Incoming::Ignored } else { decode(body) };
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
                Incoming::Request { request, .. } if request.is_handshake() => match self.open().await {
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
        let dispatcher = Dispatcher {
            handler: &live.handler,
            outbox: &outbox,
            limit: self.options.message_limit,
            arrival: Arrival::Independent(headers.carrier.cloned()),
        };
        let pending = match too_many {
            Some(skim) => dispatcher.too_many(&skim),
            None => dispatcher.take(incoming, body),
        };
        drop(outbox);
        if pending.is_none() && mail.is_empty() {
            return PostOutcome::Accepted;
        }
        PostOutcome::Answers(Answers::new(mail, live, pending.as_ref(), modern, opened))
    }

    /// Opens a session, and ends idle ones if necessary.
    async fn open(&self) -> Result<(String, Arc<HttpSession>), McpError> {
        for ended in self.to_be_ended() {
            ended.end().await;
        }
        let mut name = [0_u8; 16];
        getrandom::fill(&mut name).map_err(McpError::Random)?;
        let name: String = name.iter().map(|byte| format!("{byte:02x}")).collect();
        let number = self.opened.fetch_add(1, Ordering::Relaxed) + 1;
        let session = SessionId(format!("{}.{number}", self.options.session.0));
        let live =
            new_session(self.make.as_ref(), Options { session, ..self.options.clone() }, &self.notices)?;
        self.lock().open.insert(name.clone(), live.clone());
        Ok((name, live))
    }

    /// Removes the sessions that were idle for too long, and the one that was idle for longest if
    /// there are too many.
    fn to_be_ended(&self) -> Vec<Arc<HttpSession>> {
        let mut state = self.lock();
        let mut ended = Vec::new();
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
        live.end().await;
        true
    }
}

fn new_session(
    make: &MakeBackend,
    options: Options,
    notices: &Arc<Notices>,
) -> Result<Arc<HttpSession>, McpError> {
    let options = Arc::new(options);
    let backend = make(options.clone(), notices)?;
    Ok(Arc::new(HttpSession::new(backend, &options, notices)?))
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
