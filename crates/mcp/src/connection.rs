//! The requests of one connection that have no answer yet.
//!
//! rmcp sees each request under a number of ours.
//! So an id of any kind works, two requests with the same id both get their answer, and what an answer occupies can be found when
//! it is written.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rmcp::model::{ErrorData, SubscriptionFilter};
use serde_json::Value;
use tokio::sync::{Notify, oneshot};
use tool::{Code, Held, Retry, Stop, StopReason, ToolError, Written};

use crate::id::Id;
use crate::log::Severity;
use crate::notices::Notice;
use crate::outbox::{Message, Outbox};

/// Requests that may wait for their answer at a time; the next one is refused at once.
pub(crate) const MOST_REQUESTS: usize = 4096;

/// Bytes that the messages of waiting requests may have had in all: eight of the largest.
const MOST_REQUEST_BYTES: usize = 256 * 1024 * 1024;

/// What is shared between the reading, the handling and the writing of one connection.
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
    /// Requests of ours that wait for the client's answer.
    questions: HashMap<i64, oneshot::Sender<Said>>,
    bytes: usize,
    closed: bool,
    /// What ends the calls that are tasks.
    outliving: Vec<Stop>,
    /// Where goes what belongs to no request, once the client may hear it.
    standing: Option<Outbox>,
    /// The least that the client wants to hear of.
    log_level: Option<Severity>,
    /// The resources that the client wants to hear of.
    watched: BTreeSet<String>,
}

/// Resources that one client may watch at a time.
pub(crate) const MOST_WATCHED: usize = 1000;

/// What a client answers to a request of ours.
pub(crate) type Said = Result<Value, ErrorData>;

struct Request {
    id: Id,
    /// Where its answer goes, and what is said on the way to it.
    outbox: Outbox,
    bytes: usize,
    kind: Kind,
    cancelled: bool,
    stop: Option<Stop>,
    held: Held,
    structured: Option<Written>,
    instead: Option<Value>,
    /// What it wants to be told until it is given up.
    listens: Option<SubscriptionFilter>,
}

/// A request that gets its answer now.
pub(crate) struct Settled {
    /// The client's name for it.
    pub(crate) id: Id,
    /// Where its answer goes.
    pub(crate) outbox: Outbox,
    /// What the answer occupies until it was sent.
    pub(crate) held: Held,
    /// The answer's structured content, where it does not stand in the answer itself.
    pub(crate) structured: Option<Written>,
    /// The whole answer, where rmcp has no words for it.
    pub(crate) instead: Option<Value>,
}

/// Whether a client may give a request up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The handshake, which cannot be cancelled.
    Handshake,
    /// Any other request.
    Other,
}

impl Connection {
    /// Notes a request and gives it our number.
    ///
    /// # Errors
    /// `EQUOTA` where too many wait already.
    pub(crate) fn admit(&self, id: &Id, bytes: usize, kind: Kind, outbox: &Outbox) -> Result<i64, ToolError> {
        let mut state = self.state();
        let full = if state.requests.len() >= MOST_REQUESTS {
            Some(format!("{MOST_REQUESTS} requests wait for their answer already"))
        } else if state.bytes + bytes > MOST_REQUEST_BYTES {
            Some(format!("the requests that wait for their answer hold more than {MOST_REQUEST_BYTES} bytes"))
        } else {
            None
        };
        if let Some(problem) = full {
            return Err(ToolError::new(Code::Quota, problem)
                .hint("wait for some answers, then send the request again")
                .retry(Retry::AfterMs(1000)));
        }
        state.last += 1;
        state.bytes += bytes;
        let number = state.last;
        let (held, structured) = (Held::default(), None);
        let (id, outbox) = (id.clone(), outbox.clone());
        let (stop, listens, instead) = (None, None, None);
        let request =
            Request { id, outbox, bytes, kind, cancelled: false, stop, held, structured, instead, listens };
        state.requests.insert(number, request);
        Ok(number)
    }

    /// Where what is said about a request goes; none once it is settled.
    pub(crate) fn outbox_of(&self, number: i64) -> Option<Outbox> {
        self.state().requests.get(&number).map(|request| request.outbox.clone())
    }

    /// Returns the client's name for a request; none once the request is settled.
    pub(crate) fn id_of(&self, number: i64) -> Option<Id> {
        self.state().requests.get(&number).map(|request| request.id.clone())
    }

    /// A request wants to be told of these until it is given up.
    pub(crate) fn listen(&self, number: i64, wanted: SubscriptionFilter) {
        if let Some(request) = self.state().requests.get_mut(&number) {
            request.listens = Some(wanted);
        }
    }

    /// Where goes from now on what belongs to no request. What had that place before has it no more.
    pub(crate) fn stand_by(&self, outbox: Outbox) {
        self.state().standing = Some(outbox);
    }

    /// Tells the client, where it wants to know.
    pub(crate) fn tell(&self, notice: Notice<'_>) {
        let state = self.state();
        let wanted = match notice {
            Notice::Resource(uri) => state.watched.contains(uri),
            Notice::Tools | Notice::Prompts => true,
        };
        // Who listens by a request hears by it alone.
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

    /// The client wants to hear when this resource is another. Says whether there was room to note it.
    pub(crate) fn watch(&self, uri: String) -> bool {
        let watched = &mut self.state().watched;
        let room = watched.len() < MOST_WATCHED || watched.contains(&uri);
        if room {
            watched.insert(uri);
        }
        room
    }

    /// The client does not want to hear of it any more.
    pub(crate) fn unwatch(&self, uri: &str) {
        self.state().watched.remove(uri);
    }

    /// The least that the client wants to hear of; none before it has said so.
    pub(crate) fn log_level(&self) -> Option<Severity> {
        self.state().log_level
    }

    pub(crate) fn set_log_level(&self, level: Severity) {
        self.state().log_level = Some(level);
    }

    /// Nobody waits for this request any more: its call is stopped.
    pub(crate) fn abandon(&self, number: i64) {
        let stop = self.state().requests.get_mut(&number).and_then(|request| {
            request.cancelled = true;
            request.stop.take()
        });
        if let Some(stop) = stop {
            stop.request(StopReason::Cancelled);
        }
    }

    /// Gives a number to a request of ours, and where its answer will be.
    pub(crate) fn ask(&self) -> (i64, oneshot::Receiver<Said>) {
        let (sender, receiver) = oneshot::channel();
        let mut state = self.state();
        state.last += 1;
        let number = state.last;
        state.questions.insert(number, sender);
        (number, receiver)
    }

    /// The client has answered a request of ours; an answer to none is nothing.
    pub(crate) fn answered(&self, id: &Id, said: Said) {
        let question = id.integer().and_then(|number| self.state().questions.remove(&number));
        if let Some(question) = question {
            // Whoever asked may have given up.
            let _ = question.send(said);
        }
    }

    /// A call runs on when its request has its answer, and ends with the connection.
    pub(crate) fn outlive(&self, stop: &Stop) {
        self.state().outliving.push(stop.clone());
    }

    /// Waits no longer for the answer to a request of ours.
    pub(crate) fn take_back(&self, number: i64) {
        self.state().questions.remove(&number);
    }

    /// Whether any request has no answer yet.
    pub(crate) fn is_idle(&self) -> bool {
        self.state().requests.is_empty()
    }

    /// Ties a call to its request, so that it ends when the client gives up or goes away.
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

    /// Keeps what an answer occupies until it was sent, and what of it does not go through rmcp.
    pub(crate) fn hold(&self, number: i64, held: Held, structured: Option<Written>) {
        if let Some(request) = self.state().requests.get_mut(&number) {
            request.held = held;
            request.structured = structured;
        }
    }

    /// Answers with this, whatever rmcp is told: for what it has no words for.
    pub(crate) fn answer_instead(&self, number: i64, answer: Value) {
        if let Some(request) = self.state().requests.get_mut(&number) {
            request.instead = Some(answer);
        }
    }

    /// The client gives a request up: its call is stopped, and it gets no answer.
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

    /// Ends a request: whom to answer and what the answer holds, or none where nobody waits for it any more.
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

    /// Waits until every request is settled.
    pub(crate) async fn idle(&self) {
        loop {
            let settled = self.settled.notified();
            if self.state().requests.is_empty() {
                return;
            }
            settled.await;
        }
    }

    /// The client is gone: every call is stopped, and so is each that comes later.
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

    /// Whether the client last spoke the revision of 2026-07-28.
    pub(crate) fn modern(&self) -> bool {
        self.modern.load(Ordering::Relaxed)
    }

    /// Notes which revision the client speaks.
    pub(crate) fn speaks(&self, modern: bool) {
        self.modern.store(modern, Ordering::Relaxed);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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

    fn held(token: &Arc<()>) -> Held {
        Held(Some(Box::new(token.clone())))
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
        for _ in 0..MOST_REQUESTS {
            admit(&connection, &json!(1), 1, Kind::Other).unwrap();
        }
        let error = admit(&connection, &json!(1), 1, Kind::Other).unwrap_err();
        assert_eq!(error.code, Code::Quota);
        connection.settle(1);
        admit(&connection, &json!(1), 1, Kind::Other).unwrap();

        let connection = Connection::default();
        let number = admit(&connection, &json!(1), MOST_REQUEST_BYTES, Kind::Other).unwrap();
        assert!(admit(&connection, &json!(1), 1, Kind::Other).is_err());
        connection.settle(number);
        assert!(admit(&connection, &json!(1), 1, Kind::Other).is_ok());
    }
}
