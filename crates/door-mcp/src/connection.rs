//! Pending requests of one connection.
//!
//! rmcp sees each request under a number assigned here. So ids of any kind work, and two requests
//! with the same id both get a response. The number also identifies the resources of a response
//! when it is written.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, MutexGuard};
use rmcp::model::{ErrorData, SubscriptionFilter};
use serde_json::Value;
use tokio::sync::{Notify, oneshot};
use tool::{ByteReservation, Code, RawJson, Retry, Stop, StopReason, ToolError};

use crate::id::Id;
use crate::log::Severity;
use crate::notices::Notice;
use crate::outbox::{Message, Outbox};

/// Maximum number of pending requests. A further one is refused at once.
pub(crate) const MAX_REQUESTS: usize = 4096;

/// Maximum total size of the messages of pending requests, in bytes: eight of the largest.
const MAX_REQUEST_BYTES: usize = 256 * 1024 * 1024;

/// State shared by the reader, the handler and the writer of one connection.
#[derive(Default)]
pub(crate) struct Connection {
    state: Mutex<State>,
    settled: Notify,
    modern: AtomicBool,
}

#[derive(Default)]
struct State {
    last: i64,
    requests: HashMap<i64, Request>,
    /// The server's own requests that wait for the client's response.
    questions: HashMap<i64, oneshot::Sender<ClientResponse>>,
    bytes: usize,
    closed: bool,
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

struct Request {
    id: Id,
    /// Outbox for the response, and for messages before it.
    outbox: Outbox,
    bytes: usize,
    kind: Kind,
    cancelled: bool,
    stop: Option<Stop>,
    held: ByteReservation,
    structured: Option<RawJson>,
    instead: Option<Value>,
    /// Subscriptions of this request, until it is cancelled.
    listens: Option<SubscriptionFilter>,
}

/// A request that gets its response now.
pub(crate) struct Settled {
    /// The client's id of the request.
    pub(crate) id: Id,
    /// Outbox for the response.
    pub(crate) outbox: Outbox,
    /// Resources that the response occupies until it was sent.
    pub(crate) held: ByteReservation,
    /// Structured content of the response, if it is not part of the response itself.
    pub(crate) structured: Option<RawJson>,
    /// Complete response, if rmcp has no type for it.
    pub(crate) instead: Option<Value>,
}

/// Kind of a request, which decides whether the client may cancel it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The handshake, which cannot be cancelled.
    Handshake,
    /// Any other request.
    Other,
}

impl Connection {
    /// Registers a request and assigns a number to it.
    ///
    /// # Errors
    /// `EQUOTA` if too many requests are pending.
    pub(crate) fn admit(&self, id: &Id, bytes: usize, kind: Kind, outbox: &Outbox) -> Result<i64, ToolError> {
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
        state.last += 1;
        state.bytes += bytes;
        let number = state.last;
        let (held, structured) = (ByteReservation::default(), None);
        let (id, outbox) = (id.clone(), outbox.clone());
        let (stop, listens, instead) = (None, None, None);
        let request =
            Request { id, outbox, bytes, kind, cancelled: false, stop, held, structured, instead, listens };
        state.requests.insert(number, request);
        Ok(number)
    }

    /// Returns the outbox for messages about a request; `None` once the request is settled.
    pub(crate) fn outbox_of(&self, number: i64) -> Option<Outbox> {
        self.state().requests.get(&number).map(|request| request.outbox.clone())
    }

    /// Returns the client's id of a request; `None` once the request is settled.
    pub(crate) fn id_of(&self, number: i64) -> Option<Id> {
        self.state().requests.get(&number).map(|request| request.id.clone())
    }

    /// Registers the subscriptions of a request, until it is cancelled.
    pub(crate) fn listen(&self, number: i64, wanted: SubscriptionFilter) {
        if let Some(request) = self.state().requests.get_mut(&number) {
            request.listens = Some(wanted);
        }
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
            Notice::Tools | Notice::Prompts => true,
        };
        // A client that subscribes by a request is notified only through that request.
        if let Some(standing) = state.standing.as_ref().filter(|_| wanted && !self.modern()) {
            standing.post(Message::Raw(notice.message()));
        }
        let listening = state.requests.values().filter(|request| {
            !request.cancelled && request.listens.as_ref().is_some_and(|wanted| notice.is_in(wanted))
        });
        for request in listening {
            request.outbox.post(Message::of_a_subscription(notice.message(), request.id.clone()));
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

    /// Abandons a request for whose response no client waits: its call is stopped.
    pub(crate) fn abandon(&self, number: i64) {
        let stop = self.state().requests.get_mut(&number).and_then(|request| {
            request.cancelled = true;
            request.stop.take()
        });
        if let Some(stop) = stop {
            stop.request(StopReason::Cancelled);
        }
    }

    /// Assigns a number to a request of the server. Returns the number, and the receiver of the
    /// client's response.
    pub(crate) fn ask(&self) -> (i64, oneshot::Receiver<ClientResponse>) {
        let (sender, receiver) = oneshot::channel();
        let mut state = self.state();
        state.last += 1;
        let number = state.last;
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

    /// Ties a call to its request, so that it is stopped when the client cancels the request or
    /// disconnects.
    pub(crate) fn attach(&self, number: i64, stop: &Stop) {
        let mut state = self.state();
        let closed = state.closed;
        let wanted = match state.requests.get_mut(&number) {
            Some(request) => {
                request.stop = Some(stop.clone());
                !request.cancelled && !closed
            }
            None => false,
        };
        drop(state);
        if !wanted {
            stop.request(StopReason::Cancelled);
        }
    }

    /// Stores the resources that a response occupies until it was sent, and structured content that
    /// bypasses rmcp.
    pub(crate) fn hold(&self, number: i64, held: ByteReservation, structured: Option<RawJson>) {
        if let Some(request) = self.state().requests.get_mut(&number) {
            request.held = held;
            request.structured = structured;
        }
    }

    /// Replaces the response of rmcp, for responses that rmcp has no type for.
    pub(crate) fn answer_instead(&self, number: i64, answer: Value) {
        if let Some(request) = self.state().requests.get_mut(&number) {
            request.instead = Some(answer);
        }
    }

    /// Cancels a request on behalf of the client: its call is stopped, and it gets no response.
    pub(crate) fn cancel(&self, id: &Id) {
        let mut stops = Vec::new();
        for request in self.state().requests.values_mut() {
            if request.id == *id && request.kind == Kind::Other {
                request.cancelled = true;
                stops.extend(request.stop.take());
            }
        }
        for stop in stops {
            stop.request(StopReason::Cancelled);
        }
    }

    /// Ends a request. Returns the data for its response; `None` if it was cancelled or is unknown.
    pub(crate) fn settle(&self, number: i64) -> Option<Settled> {
        let request = {
            let mut state = self.state();
            let request = state.requests.remove(&number)?;
            state.bytes -= request.bytes;
            request
        };
        self.settled.notify_waiters();
        let Request { id, outbox, held, structured, instead, cancelled, .. } = request;
        (!cancelled).then_some(Settled { id, outbox, held, structured, instead })
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
            let stops = state.requests.values_mut().filter_map(|request| request.stop.take());
            stops.chain(outliving).collect()
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
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    fn id(value: &Value) -> Id {
        Id::read(serde_json::value::to_raw_value(value).unwrap()).unwrap().unwrap()
    }

    fn admit(connection: &Connection, name: &Value, bytes: usize, kind: Kind) -> Result<i64, ToolError> {
        connection.admit(&id(name), bytes, kind, &crate::outbox::outbox().0)
    }

    fn held(token: &Arc<()>) -> ByteReservation {
        ByteReservation(Some(Box::new(token.clone())))
    }

    #[test]
    fn what_an_answer_holds_is_given_out_with_it_and_given_back_without_it() {
        let connection = Connection::default();
        let token = Arc::new(());
        let answered = admit(&connection, &json!("a"), 1, Kind::Other).unwrap();
        let cancelled = admit(&connection, &json!("b"), 1, Kind::Other).unwrap();
        connection.hold(answered, held(&token), None);
        connection.hold(cancelled, held(&token), None);
        connection.hold(99, held(&token), None);
        assert_eq!(Arc::strong_count(&token), 3);
        connection.cancel(&id(&json!("b")));
        assert!(connection.settle(cancelled).is_none());
        assert_eq!(Arc::strong_count(&token), 2);
        let settled = connection.settle(answered).unwrap();
        assert_eq!((settled.id.shown(), Arc::strong_count(&token)), ("a", 2));
        drop(settled);
        assert_eq!(Arc::strong_count(&token), 1);
        assert!(connection.settle(answered).is_none());
    }

    #[test]
    fn requests_with_the_same_id_are_apart_and_cancelled_together() {
        let connection = Connection::default();
        let numbers = [1, 1].map(|id| admit(&connection, &json!(id), 1, Kind::Other).unwrap());
        assert_ne!(numbers[0], numbers[1]);
        let stops = [Stop::default(), Stop::default()];
        connection.attach(numbers[0], &stops[0]);
        connection.cancel(&id(&json!(1)));
        connection.attach(numbers[1], &stops[1]);
        assert!(stops.iter().all(|stop| stop.requested() == Some(StopReason::Cancelled)));
    }

    #[test]
    fn the_handshake_is_not_cancelled_and_neither_is_another_id() {
        let connection = Connection::default();
        let handshake = admit(&connection, &json!(1), 1, Kind::Handshake).unwrap();
        let other = admit(&connection, &json!("1"), 1, Kind::Other).unwrap();
        connection.cancel(&id(&json!(1)));
        assert!(connection.settle(handshake).is_some());
        assert!(connection.settle(other).is_some());
    }

    #[test]
    fn a_call_that_comes_after_the_end_is_stopped_at_once() {
        let connection = Connection::default();
        let number = admit(&connection, &json!(1), 1, Kind::Other).unwrap();
        connection.close();
        let stop = Stop::default();
        connection.attach(number, &stop);
        assert_eq!(stop.requested(), Some(StopReason::Cancelled));
    }

    #[test]
    fn what_waits_is_bounded_in_number_and_bytes() {
        let connection = Connection::default();
        for _ in 0..MAX_REQUESTS {
            admit(&connection, &json!(1), 1, Kind::Other).unwrap();
        }
        let error = admit(&connection, &json!(1), 1, Kind::Other).unwrap_err();
        assert_eq!(error.code, Code::Quota);
        connection.settle(1);
        admit(&connection, &json!(1), 1, Kind::Other).unwrap();

        let connection = Connection::default();
        let number = admit(&connection, &json!(1), MAX_REQUEST_BYTES, Kind::Other).unwrap();
        assert!(admit(&connection, &json!(1), 1, Kind::Other).is_err());
        connection.settle(number);
        assert!(admit(&connection, &json!(1), 1, Kind::Other).is_ok());
    }
}
