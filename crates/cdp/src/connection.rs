//! One connection: calls out, answers and events in.
//!
//! Two tasks carry it. The writer takes messages from a bounded queue, so a browser that does not
//! read makes callers wait and costs no memory. The reader never waits for anybody.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, oneshot, watch};

use crate::error::CdpError;
use crate::event::{Event, Subscribers, Subscription};
use crate::id::SessionId;
use crate::message::{Call, Incoming, id_in_head};
use crate::pending::{Outcome, PendingCalls};
use crate::pipe::{PipeReader, PipeWriter};
use crate::protocol::target::DetachedFromTarget;
use crate::protocol::{Command, EventKind};
use crate::surrogates;
use crate::transport::{IncomingMessage, MESSAGE_LIMIT, ReadMessages, WriteMessages};

/// Time limit of a call that names no other.
pub const CALL_DEADLINE: Duration = Duration::from_secs(30);
/// Number of calls that wait to be written. Callers beyond it wait.
const QUEUED_CALLS: usize = 64;

/// Connection to a browser. Clones share it; it ends with [`Connection::shut`], or when the browser
/// goes.
#[derive(Debug, Clone)]
pub struct Connection {
    shared: Arc<Shared>,
    outgoing: mpsc::Sender<Vec<u8>>,
}

#[derive(Debug)]
struct Shared {
    last_id: AtomicU64,
    state: Mutex<State>,
    /// Reason of the end, once the connection has ended.
    end: watch::Sender<Option<String>>,
}

#[derive(Debug, Default)]
struct State {
    calls: PendingCalls,
    subscribers: Subscribers,
    has_ended: bool,
}

impl Connection {
    /// Starts a connection over the two streams of `--remote-debugging-pipe`: `reader` is what the
    /// browser writes to its descriptor 4, `writer` leads to its descriptor 3.
    ///
    /// Called within a runtime of tokio, which carries the tasks.
    pub fn over_pipe(
        reader: impl AsyncRead + Unpin + Send + 'static,
        writer: impl AsyncWrite + Unpin + Send + 'static,
    ) -> Self {
        Self::start(PipeReader::new(reader), PipeWriter::new(writer))
    }

    /// Starts a connection over any transport, within a runtime of tokio.
    pub fn start(reader: impl ReadMessages, writer: impl WriteMessages) -> Self {
        let (outgoing, queue) = mpsc::channel(QUEUED_CALLS);
        let shared = Arc::new(Shared {
            last_id: AtomicU64::new(0),
            state: Mutex::new(State::default()),
            end: watch::Sender::new(None),
        });
        tokio::spawn(write_all(writer, queue, Arc::clone(&shared)));
        tokio::spawn(read_all(reader, Arc::clone(&shared)));
        Self { shared, outgoing }
    }

    /// Calls a method and waits for its answer, at most [`CALL_DEADLINE`].
    ///
    /// `session` is `None` for the browser itself. A call whose future is dropped may still take
    /// effect in the browser.
    ///
    /// # Errors
    /// [`CdpError`]: the browser refused or did not answer, the session or the connection ended, or
    /// the answer is not an `R`.
    pub async fn call<R: DeserializeOwned>(
        &self,
        session: Option<&SessionId>,
        method: &'static str,
        params: impl Serialize,
    ) -> Result<R, CdpError> {
        self.call_within(session, method, params, CALL_DEADLINE).await
    }

    /// Calls a method and waits for its answer, at most `limit`.
    ///
    /// # Errors
    /// Like [`Connection::call`].
    pub async fn call_within<R: DeserializeOwned>(
        &self,
        session: Option<&SessionId>,
        method: &'static str,
        params: impl Serialize,
        limit: Duration,
    ) -> Result<R, CdpError> {
        let id = self.shared.next_id();
        let message = encode(id, session, method, params)?;
        let exchange = self.exchange(id, session, message);
        let answer = match tokio::time::timeout(limit, exchange).await {
            Err(_) => return Err(CdpError::TimedOut { method, waited: limit }),
            Ok(None) => return Err(self.shared.closed_error()),
            Ok(Some(Outcome::Answer(answer))) => answer,
            Ok(Some(Outcome::Refused(refusal))) => {
                return Err(CdpError::Refused { method, code: refusal.code, message: refusal.text() });
            }
            Ok(Some(Outcome::TooLarge { bytes })) => {
                return Err(CdpError::TooLarge { method, bytes, limit: MESSAGE_LIMIT });
            }
            Ok(Some(Outcome::SessionEnded)) => {
                let session = session.cloned().unwrap_or_else(|| SessionId::from(""));
                return Err(CdpError::SessionEnded { session });
            }
        };
        serde_json::from_str(answer.get())
            .map_err(|error| CdpError::Answer { method, reason: error.to_string() })
    }

    /// Sends a message and waits for the outcome; `None` if the connection ends before.
    async fn exchange(&self, id: u64, session: Option<&SessionId>, message: Vec<u8>) -> Option<Outcome> {
        let place = self.outgoing.reserve().await.ok()?;
        let answer = self.shared.expect(id, session)?;
        // Removes the call if the caller stops waiting.
        let _forget = Forget { shared: &self.shared, id };
        place.send(message);
        answer.await.ok()
    }

    /// Runs a command.
    ///
    /// # Errors
    /// Like [`Connection::call`].
    pub async fn run<C: Command>(
        &self,
        session: Option<&SessionId>,
        command: C,
    ) -> Result<C::Answer, CdpError> {
        self.call(session, C::METHOD, command).await
    }

    /// Runs a command with a time limit of its own.
    ///
    /// # Errors
    /// Like [`Connection::call`].
    pub async fn run_within<C: Command>(
        &self,
        session: Option<&SessionId>,
        command: C,
        limit: Duration,
    ) -> Result<C::Answer, CdpError> {
        self.call_within(session, C::METHOD, command, limit).await
    }

    /// Sends a command whose answer does not matter. A full queue or a closed connection drops it.
    pub fn post<C: Command>(&self, session: Option<&SessionId>, command: C) {
        if let Ok(message) = encode(self.shared.next_id(), session, C::METHOD, command) {
            let _ = self.outgoing.try_send(message);
        }
    }

    /// Subscribes to the events of a session; `None` for the events of the browser itself.
    /// The subscription ends with the session.
    pub fn subscribe(&self, session: Option<&SessionId>) -> Subscription {
        let mut state = self.shared.state.lock();
        if state.has_ended { Subscribers::ended() } else { state.subscribers.add(session.cloned()) }
    }

    /// Waits for the end of the connection, and returns its reason.
    pub async fn closed(&self) -> String {
        let mut end = self.shared.end.subscribe();
        let reason = end.wait_for(Option::is_some).await.ok().and_then(|reason| reason.clone());
        reason.unwrap_or_else(|| ENDED.to_owned())
    }

    /// Returns true if the connection has ended.
    pub fn is_closed(&self) -> bool {
        self.shared.end.borrow().is_some()
    }

    /// Ends the connection and drops its streams. Every waiting call ends with an error.
    pub fn shut(&self) {
        self.shared.end("closed by this program");
    }
}

/// Reason of an end at which the stream gave no error.
const ENDED: &str = "end of stream";

impl Shared {
    fn next_id(&self) -> u64 {
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Registers a call; `None` if the connection has ended.
    fn expect(&self, id: u64, session: Option<&SessionId>) -> Option<oneshot::Receiver<Outcome>> {
        let mut state = self.state.lock();
        (!state.has_ended).then(|| state.calls.add(id, session.cloned()))
    }

    fn closed_error(&self) -> CdpError {
        let reason = self.end.borrow().clone();
        CdpError::Closed { reason: reason.unwrap_or_else(|| ENDED.to_owned()) }
    }

    /// Ends the connection. The first reason stays.
    fn end(&self, reason: &str) {
        self.end.send_if_modified(|end| {
            let is_first = end.is_none();
            if is_first {
                *end = Some(reason.to_owned());
            }
            is_first
        });
        let mut state = self.state.lock();
        state.has_ended = true;
        state.calls.clear();
        state.subscribers.end_all();
    }

    async fn ended(&self) {
        // The sender lives as long as `self`, so the wait cannot fail.
        let _ = self.end.subscribe().wait_for(Option::is_some).await;
    }

    fn take(&self, message: IncomingMessage) {
        match message {
            IncomingMessage::Whole(bytes) => self.take_whole(bytes),
            IncomingMessage::Missed => self.state.lock().subscribers.note_missed(),
            IncomingMessage::TooLarge { head, bytes } => {
                if let Some(id) = id_in_head(&head) {
                    self.state.lock().calls.end(id, Outcome::TooLarge { bytes });
                }
            }
        }
    }

    /// Takes an answer or an event. A message that is neither is ignored.
    fn take_whole(&self, mut bytes: Vec<u8>) {
        surrogates::repair(&mut bytes);
        let text = String::from_utf8_lossy(&bytes);
        let Ok(incoming) = serde_json::from_str::<Incoming<'_>>(&text) else { return };
        if let Some(id) = incoming.id {
            let outcome = match (incoming.error, incoming.result) {
                (Some(refusal), _) => Outcome::Refused(refusal),
                (None, Some(result)) => Outcome::Answer(result.to_owned()),
                (None, None) => Outcome::Answer(empty()),
            };
            self.state.lock().calls.end(id, outcome);
            return;
        }
        let Some(method) = incoming.method else { return };
        let detached = (method == DetachedFromTarget::METHOD)
            .then(|| {
                incoming.params.and_then(|raw| serde_json::from_str::<DetachedFromTarget>(raw.get()).ok())
            })
            .flatten();
        let mut state = self.state.lock();
        if state.subscribers.wants(incoming.session.as_ref()) {
            let params = incoming.params.map_or_else(empty, ToOwned::to_owned);
            state.subscribers.deliver(Event { session: incoming.session, method, params });
        }
        if let Some(detached) = detached {
            state.calls.end_session(&detached.session_id);
            state.subscribers.end(&detached.session_id);
        }
    }
}

/// Returns `null`, which stands for absent parameters.
fn empty() -> Box<RawValue> {
    RawValue::NULL.to_owned()
}

fn encode(
    id: u64,
    session: Option<&SessionId>,
    method: &'static str,
    params: impl Serialize,
) -> Result<Vec<u8>, CdpError> {
    let message = serde_json::to_vec(&Call { id, method, params, session })
        .map_err(|error| CdpError::Parameters { method, reason: error.to_string() })?;
    if message.len() > MESSAGE_LIMIT {
        return Err(CdpError::TooLarge { method, bytes: message.len(), limit: MESSAGE_LIMIT });
    }
    Ok(message)
}

/// Removes a call from the waiting ones when it is dropped.
struct Forget<'a> {
    shared: &'a Shared,
    id: u64,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        self.shared.state.lock().calls.remove(self.id);
    }
}

async fn write_all(mut writer: impl WriteMessages, mut queue: mpsc::Receiver<Vec<u8>>, shared: Arc<Shared>) {
    let writing = async {
        while let Some(message) = queue.recv().await {
            if let Err(error) = writer.write(message).await {
                return error.to_string();
            }
        }
        "no longer in use".to_owned()
    };
    tokio::select! {
        reason = writing => shared.end(&reason),
        () = shared.ended() => {}
    }
}

async fn read_all(mut reader: impl ReadMessages, shared: Arc<Shared>) {
    let reading = async {
        loop {
            match reader.next().await {
                Ok(Some(message)) => shared.take(message),
                Ok(None) => return ENDED.to_owned(),
                Err(error) => return error.to_string(),
            }
        }
    };
    tokio::select! {
        reason = reading => shared.end(&reason),
        () = shared.ended() => {}
    }
}

#[cfg(test)]
mod tests;
