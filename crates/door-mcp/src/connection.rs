//! Requests of one connection that wait for their responses, and the state that its requests share.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, MutexGuard};
use rmcp::model::{ErrorData, InitializeRequestParams, SubscriptionFilter};
use serde_json::Value;
use tokio::sync::{Notify, oneshot};
use tool::{Code, Retry, Stop, StopReason, ToolError};

use crate::id::Id;
use crate::log::{Severity, log_message};
use crate::notice::Notice;
use crate::outbox::{Message, Outbox};

/// Maximum number of pending requests. A further one is refused at once.
pub(crate) const MAX_REQUESTS: usize = 4096;

/// Maximum total size of the messages of pending requests, in bytes: eight of the largest.
const MAX_REQUEST_BYTES: usize = 256 * 1024 * 1024;

/// State shared by the reader and the handlers of one connection.
#[derive(Default)]
pub(crate) struct Connection {
    state: Mutex<State>,
    settled: Notify,
    modern: AtomicBool,
}

#[derive(Default)]
struct State {
    /// Pending requests. Several may have the same id.
    requests: Vec<Arc<PendingRequest>>,
    /// Total size of the messages of the pending requests, in bytes.
    bytes: usize,
    /// The server's own requests that wait for the client's response.
    questions: HashMap<i64, oneshot::Sender<ClientResponse>>,
    /// Number of the server's last own request.
    last_question: i64,
    closed: bool,
    /// Parameters of the client's last handshake.
    handshake: Option<Arc<InitializeRequestParams>>,
    /// Stop handles of calls that run as tasks.
    outliving: Vec<Stop>,
    /// Outbox for messages that belong to no request, once the client may receive them.
    standing: Option<Outbox>,
    /// Minimum severity of log messages for the client.
    log_level: Option<Severity>,
    /// URIs of the resources that the client subscribes to.
    watched: BTreeSet<String>,
}

/// Maximum number of resources that one client may subscribe to.
pub(crate) const MAX_WATCHED: usize = 1000;

/// Response of a client to a request of the server.
pub(crate) type ClientResponse = Result<Value, ErrorData>;

/// A request that waits for its response.
pub(crate) struct PendingRequest {
    /// The client's id of the request.
    pub(crate) id: Id,
    /// Outbox for the response, and for messages before it.
    pub(crate) outbox: Outbox,
    /// Requested when the client cancels the request or disconnects.
    pub(crate) stop: Stop,
    bytes: usize,
    kind: Kind,
    cancelled: AtomicBool,
    /// Subscriptions of this request.
    listens: OnceLock<SubscriptionFilter>,
}

/// Kind of a request, which decides whether the client may cancel it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The handshake, which cannot be cancelled.
    Handshake,
    /// Any other request.
    Other,
}

impl PendingRequest {
    /// Cancels the request on behalf of the client: its call is stopped, and it gets no response.
    pub(crate) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
        self.stop.request(StopReason::Cancelled);
    }

    fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Registers the subscriptions of this request, until it is cancelled or answered.
    pub(crate) fn listen(&self, wanted: SubscriptionFilter) {
        // A request listens once, so the cell was empty.
        let _ = self.listens.set(wanted);
    }
}

impl Connection {
    /// Registers a request.
    ///
    /// # Errors
    /// `EQUOTA` if too many requests are pending.
    pub(crate) fn admit(
        &self,
        id: &Id,
        bytes: usize,
        kind: Kind,
        outbox: &Outbox,
    ) -> Result<Arc<PendingRequest>, ToolError> {
        let mut state = self.state();
        let full = if state.requests.len() >= MAX_REQUESTS {
            Some(format!("{MAX_REQUESTS} requests are already waiting for a response"))
        } else if state.bytes + bytes > MAX_REQUEST_BYTES {
            Some(format!("the requests waiting for a response exceed {MAX_REQUEST_BYTES} bytes"))
        } else {
            None
        };
        if let Some(problem) = full {
            return Err(ToolError::new(Code::Quota, problem)
                .hint("wait for some responses, then send the request again")
                .retry(Retry::AfterMs(1000)));
        }
        let (stop, cancelled, listens) = (Stop::default(), AtomicBool::default(), OnceLock::new());
        if state.closed {
            stop.request(StopReason::Cancelled);
        }
        let (id, outbox) = (id.clone(), outbox.clone());
        let pending = Arc::new(PendingRequest { id, outbox, stop, bytes, kind, cancelled, listens });
        state.bytes += bytes;
        state.requests.push(pending.clone());
        Ok(pending)
    }

    /// Removes a request that has ended. Returns false if the client has cancelled it, and so gets
    /// no response.
    pub(crate) fn settle(&self, pending: &Arc<PendingRequest>) -> bool {
        let mut state = self.state();
        if let Some(place) = state.requests.iter().position(|other| Arc::ptr_eq(other, pending)) {
            state.requests.swap_remove(place);
            state.bytes -= pending.bytes;
        }
        drop(state);
        self.settled.notify_waiters();
        !pending.is_cancelled()
    }

    /// Records the client's handshake. A later one replaces it.
    pub(crate) fn shake_hands(&self, handshake: InitializeRequestParams) {
        self.state().handshake = Some(Arc::new(handshake));
    }

    /// Returns the parameters of the client's last handshake.
    pub(crate) fn handshake(&self) -> Option<Arc<InitializeRequestParams>> {
        self.state().handshake.clone()
    }

    /// Sets the outbox for messages that belong to no request. Replaces the previous one.
    pub(crate) fn stand_by(&self, outbox: Outbox) {
        self.state().standing = Some(outbox);
    }

    /// Sends a notice to the client, if it subscribes to it.
    pub(crate) fn tell(&self, notice: Notice<'_>) {
        let state = self.state();
        let wanted = match notice {
            Notice::Resource(uri) => state.watched.contains(uri),
            Notice::Tools | Notice::Prompts | Notice::Resources => true,
        };
        // A client that subscribes by a request is notified only through that request.
        if let Some(standing) = state.standing.as_ref().filter(|_| wanted && !self.modern()) {
            standing.post(Message::Raw(notice.message()));
        }
        let listening = state.requests.iter().filter(|request| {
            !request.is_cancelled() && request.listens.get().is_some_and(|wanted| notice.is_in(wanted))
        });
        for request in listening {
            request.outbox.post(Message::of_a_subscription(notice.message(), request.id.clone()));
        }
    }

    /// Sends a log message that belongs to no request, if the client has set a severity that includes it.
    pub(crate) fn log(&self, level: Severity, logger: &str, data: &Value) {
        let state = self.state();
        let wanted = state.log_level.is_some_and(|least| level >= least) && !self.modern();
        if let Some(standing) = state.standing.as_ref().filter(|_| wanted) {
            standing.post(Message::Raw(log_message(level, logger, data)));
        }
    }

    /// Subscribes the client to a resource. Returns false if the client has too many subscriptions.
    pub(crate) fn watch(&self, uri: String) -> bool {
        let watched = &mut self.state().watched;
        let room = watched.len() < MAX_WATCHED || watched.contains(&uri);
        if room {
            watched.insert(uri);
        }
        room
    }

    /// Cancels the client's subscription to a resource.
    pub(crate) fn unwatch(&self, uri: &str) {
        self.state().watched.remove(uri);
    }

    /// Returns the minimum severity of log messages; `None` until the client has set it.
    pub(crate) fn log_level(&self) -> Option<Severity> {
        self.state().log_level
    }

    pub(crate) fn set_log_level(&self, level: Severity) {
        self.state().log_level = Some(level);
    }

    /// Assigns a number to a request of the server. Returns the number, and the receiver of the
    /// client's response.
    pub(crate) fn ask(&self) -> (i64, oneshot::Receiver<ClientResponse>) {
        let (sender, receiver) = oneshot::channel();
        let mut state = self.state();
        state.last_question += 1;
        let number = state.last_question;
        state.questions.insert(number, sender);
        (number, receiver)
    }

    /// Delivers the client's response to a request of the server. A response without a request is ignored.
    pub(crate) fn answered(&self, id: &Id, said: ClientResponse) {
        let question = id.integer().and_then(|number| self.state().questions.remove(&number));
        if let Some(question) = question {
            // The task that asked may have given up.
            let _ = question.send(said);
        }
    }

    /// Lets a call continue after the response to its request, until the end of the connection.
    pub(crate) fn outlive(&self, stop: &Stop) {
        self.state().outliving.push(stop.clone());
    }

    /// Stops waiting for the response to a request of the server.
    pub(crate) fn take_back(&self, number: i64) {
        self.state().questions.remove(&number);
    }

    /// Returns true if no request is pending.
    pub(crate) fn is_idle(&self) -> bool {
        self.state().requests.is_empty()
    }

    /// Cancels the requests with this id on behalf of the client.
    pub(crate) fn cancel(&self, id: &Id) {
        let state = self.state();
        let named = state.requests.iter().filter(|request| request.id == *id && request.kind == Kind::Other);
        let named: Vec<_> = named.cloned().collect();
        // A stop runs the callbacks of its call, which may use this connection.
        drop(state);
        for request in named {
            request.cancel();
        }
    }

    /// Waits until no request is pending.
    pub(crate) async fn idle(&self) {
        loop {
            let settled = self.settled.notified();
            if self.state().requests.is_empty() {
                return;
            }
            settled.await;
        }
    }

    /// Closes the connection after the client has gone: every call is stopped, including later ones.
    pub(crate) fn close(&self) {
        let stops: Vec<Stop> = {
            let mut state = self.state();
            state.closed = true;
            state.standing = None;
            let outliving = std::mem::take(&mut state.outliving);
            state.requests.iter().map(|request| request.stop.clone()).chain(outliving).collect()
        };
        for stop in stops {
            stop.request(StopReason::Cancelled);
        }
    }

    /// Returns true if the client last used revision 2026-07-28.
    pub(crate) fn modern(&self) -> bool {
        self.modern.load(Ordering::Relaxed)
    }

    /// Records the revision that the client uses.
    pub(crate) fn speaks(&self, modern: bool) {
        self.modern.store(modern, Ordering::Relaxed);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn id(value: &Value) -> Id {
        Id::read(serde_json::value::to_raw_value(value).unwrap()).unwrap().unwrap()
    }

    fn admit(
        connection: &Connection,
        name: &Value,
        bytes: usize,
        kind: Kind,
    ) -> Result<Arc<PendingRequest>, ToolError> {
        connection.admit(&id(name), bytes, kind, &crate::outbox::outbox().0)
    }

    #[test]
    fn a_cancelled_request_gets_no_answer_and_another_gets_one() {
        let connection = Connection::default();
        let answered = admit(&connection, &json!("a"), 1, Kind::Other).unwrap();
        let cancelled = admit(&connection, &json!("b"), 1, Kind::Other).unwrap();
        connection.cancel(&id(&json!("b")));
        assert!(!connection.settle(&cancelled));
        assert!(!connection.is_idle());
        assert_eq!((answered.id.shown(), connection.settle(&answered)), ("a", true));
        assert!(connection.is_idle());
    }

    #[test]
    fn requests_with_the_same_id_are_apart_and_cancelled_together() {
        let connection = Connection::default();
        let [first, second, third] =
            [1, 1, 1].map(|id| admit(&connection, &json!(id), 1, Kind::Other).unwrap());
        assert!(connection.settle(&second));
        assert!(!connection.is_idle());
        connection.cancel(&id(&json!(1)));
        for pending in [&first, &third] {
            assert_eq!(pending.stop.requested(), Some(StopReason::Cancelled));
            assert!(!connection.settle(pending));
        }
        assert_eq!(second.stop.requested(), None);
        assert!(connection.is_idle());
    }

    #[test]
    fn the_handshake_is_not_cancelled_and_neither_is_another_id() {
        let connection = Connection::default();
        let handshake = admit(&connection, &json!(1), 1, Kind::Handshake).unwrap();
        let other = admit(&connection, &json!("1"), 1, Kind::Other).unwrap();
        connection.cancel(&id(&json!(1)));
        assert!(connection.settle(&handshake));
        assert!(connection.settle(&other));
    }

    #[test]
    fn a_call_that_comes_after_the_end_is_stopped_at_once() {
        let connection = Connection::default();
        let before = admit(&connection, &json!(1), 1, Kind::Other).unwrap();
        connection.close();
        let after = admit(&connection, &json!(2), 1, Kind::Other).unwrap();
        for pending in [before, after] {
            assert_eq!(pending.stop.requested(), Some(StopReason::Cancelled));
            assert!(connection.settle(&pending), "its end is answered");
        }
    }

    #[test]
    fn what_waits_is_bounded_in_number_and_bytes() {
        let connection = Connection::default();
        let first = admit(&connection, &json!(1), 1, Kind::Other).unwrap();
        for _ in 1..MAX_REQUESTS {
            admit(&connection, &json!(1), 1, Kind::Other).unwrap();
        }
        let error = admit(&connection, &json!(1), 1, Kind::Other).err().unwrap();
        assert_eq!(error.code, Code::Quota);
        connection.settle(&first);
        admit(&connection, &json!(1), 1, Kind::Other).unwrap();

        let connection = Connection::default();
        let pending = admit(&connection, &json!(1), MAX_REQUEST_BYTES, Kind::Other).unwrap();
        assert!(admit(&connection, &json!(1), 1, Kind::Other).is_err());
        connection.settle(&pending);
        assert!(admit(&connection, &json!(1), 1, Kind::Other).is_ok());
    }
}
