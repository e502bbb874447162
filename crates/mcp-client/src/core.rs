//! One connection: requests and their answers, and everything else that a server sends.
//!
//! The wire below it (`stdio.rs`, `streamable.rs`) carries messages and knows none of their meaning.

mod incoming;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio::sync::{oneshot, watch};
use tool::{BoxFuture, Timer};

use crate::bucket::Bucket;
use crate::error::{ClientError, CloseReason, invalid};
use crate::limits::Limits;
use crate::message::RpcError;
use crate::requests::{Listener, Notice, ProgressSink, Refusal, ServerRequests};
use crate::revision::Revision;
use crate::tasks::Tasks;

/// Number of withdrawn requests whose late answers are ignored.
const REMEMBERED: usize = 256;

/// Carrier of messages.
pub(crate) trait Wire: Send + Sync {
    /// Sends a request. May return as soon as the request is on its way; a wire whose answers come back on
    /// the same exchange returns when the answer was handed to the core.
    fn request<'a>(
        &'a self,
        core: &'a Arc<Core>,
        request: Outgoing,
    ) -> BoxFuture<'a, Result<(), ClientError>>;

    /// Sends a message that has no answer, and waits until it is sent.
    fn send<'a>(&'a self, core: &'a Arc<Core>, message: Bytes) -> BoxFuture<'a, Result<(), ClientError>>;

    /// Sends a message that has no answer, without waiting. It is dropped if too many are on their way.
    fn post(&self, core: &Arc<Core>, message: Bytes);

    /// Returns true if a request is withdrawn by a message, and not by the end of its exchange alone.
    fn cancels_by_message(&self, revision: Option<Revision>) -> bool;

    /// Tells the server that no further request follows, so that it ends by itself.
    fn finish<'a>(&'a self, core: &'a Arc<Core>) -> BoxFuture<'a, ()>;

    /// Ends the wire at once.
    fn end(&self);
}

/// Request on its way to the wire.
pub(crate) struct Outgoing {
    pub(crate) id: u64,
    pub(crate) method: String,
    /// Name or URI that the request is about, for a header.
    pub(crate) subject: Option<String>,
    /// Further headers over HTTP.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) message: Bytes,
}

/// Request of this client.
pub(crate) struct Request {
    pub(crate) method: &'static str,
    pub(crate) params: Map<String, Value>,
    /// Time for the answer; `None` for a stream that lasts.
    pub(crate) timeout: Option<Duration>,
    pub(crate) progress: Option<Arc<dyn ProgressSink>>,
    pub(crate) headers: Vec<(String, String)>,
    /// Answers to what the server asks for within the result; those of the connection if they are absent.
    pub(crate) requests: Option<Arc<dyn ServerRequests>>,
    /// True if the server is told when nobody waits any longer.
    pub(crate) is_cancellable: bool,
}

impl Request {
    pub(crate) fn new(method: &'static str, params: Map<String, Value>, timeout: Duration) -> Self {
        Self {
            method,
            params,
            timeout: Some(timeout),
            progress: None,
            headers: Vec::new(),
            requests: None,
            is_cancellable: true,
        }
    }
}

/// Connection to one server.
pub(crate) struct Core {
    pub(crate) limits: Limits,
    pub(crate) timer: Arc<dyn Timer>,
    pub(crate) requests: Arc<dyn ServerRequests>,
    pub(crate) tasks: Tasks,
    listener: Arc<dyn Listener>,
    wire: Box<dyn Wire>,
    next_id: AtomicU64,
    state: Mutex<State>,
    closed: watch::Sender<Option<CloseReason>>,
}

struct State {
    pending: BTreeMap<u64, Pending>,
    /// Requests that were withdrawn, the newest last.
    withdrawn: VecDeque<u64>,
    revision: Option<Revision>,
    /// `_meta` of every request in the stateless era.
    meta: Map<String, Value>,
    notifications: Bucket,
    stray_answers: u32,
    noise: u32,
    /// Requests of the server since the newest request of this client.
    server_requests: u32,
    handled_now: usize,
    last_used: Instant,
}

struct Pending {
    answer: oneshot::Sender<Result<Box<RawValue>, Failure>>,
    progress: Option<Arc<dyn ProgressSink>>,
    reached: Option<f64>,
    /// True for a stream that lasts, which is no call of anybody.
    is_background: bool,
}

/// Failure that an answer or the end of the connection brings.
enum Failure {
    Error(RpcError),
    Closed(CloseReason),
}

impl Core {
    pub(crate) fn new(
        limits: Limits,
        timer: Arc<dyn Timer>,
        requests: Arc<dyn ServerRequests>,
        listener: Arc<dyn Listener>,
        wire: Box<dyn Wire>,
    ) -> Result<Arc<Self>, ClientError> {
        let tasks = Tasks::new()
            .ok_or_else(|| CloseReason::Stream("a connection needs the runtime of tokio".to_owned()))?;
        let now = timer.now();
        let state = State {
            pending: BTreeMap::new(),
            withdrawn: VecDeque::new(),
            revision: None,
            meta: Map::new(),
            notifications: Bucket::new(limits.notifications, limits.notifications_per_second, now),
            stray_answers: 0,
            noise: 0,
            server_requests: 0,
            handled_now: 0,
            last_used: now,
        };
        Ok(Arc::new(Self {
            limits,
            timer,
            requests,
            tasks,
            listener,
            wire,
            next_id: AtomicU64::new(1),
            state: Mutex::new(state),
            closed: watch::Sender::new(None),
        }))
    }

    /// Sets the revision, and the `_meta` of every request from now on.
    pub(crate) fn speak(&self, revision: Option<Revision>, meta: Map<String, Value>) {
        let mut state = self.state.lock();
        state.revision = revision;
        state.meta = meta;
    }

    pub(crate) fn revision(&self) -> Option<Revision> {
        self.state.lock().revision
    }

    /// Returns the reason of the end, if the connection has ended.
    pub(crate) fn closed(&self) -> watch::Receiver<Option<CloseReason>> {
        self.closed.subscribe()
    }

    /// Returns the number of calls that run, and the moment at which the last one ended.
    pub(crate) fn usage(&self) -> (usize, Instant) {
        let state = self.state.lock();
        (state.pending.values().filter(|pending| !pending.is_background).count(), state.last_used)
    }

    /// Ends the connection. The first reason counts.
    pub(crate) fn close(&self, reason: &CloseReason) {
        let is_first = self.closed.send_if_modified(|closed| {
            let is_first = closed.is_none();
            if is_first {
                *closed = Some(reason.clone());
            }
            is_first
        });
        if !is_first {
            return;
        }
        let pending = std::mem::take(&mut self.state.lock().pending);
        for (_, pending) in pending {
            // The waiting side may be gone.
            let _ = pending.answer.send(Err(Failure::Closed(reason.clone())));
        }
        self.wire.end();
        self.tasks.end();
        self.listener.notice(Notice::Closed(reason.clone()));
    }

    /// Sends a request, and waits for its answer. Dropping the future withdraws the request.
    pub(crate) async fn request(self: &Arc<Self>, request: Request) -> Result<Box<RawValue>, ClientError> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let Request { method, mut params, timeout, progress, headers, is_cancellable, requests: _ } = request;
        let meta = self.state.lock().meta.clone();
        if !meta.is_empty() || progress.is_some() {
            let own = params.entry("_meta").or_insert_with(|| json!({}));
            if let Some(own) = own.as_object_mut() {
                own.extend(meta);
                if progress.is_some() {
                    own.insert("progressToken".to_owned(), json!(id));
                }
            }
        }
        let subject = ["name", "uri"].iter().find_map(|key| params.get(*key).and_then(Value::as_str));
        let subject = subject.map(ToOwned::to_owned);
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string();
        if message.len() > self.limits.request {
            let (length, limit) = (message.len(), self.limits.request);
            return Err(ClientError::RequestTooLong { method: method.to_owned(), length, limit });
        }
        let (answer, answered) = oneshot::channel();
        {
            let mut state = self.state.lock();
            // Read under the lock: a connection that closes takes the requests that are waiting under it.
            if let Some(reason) = &*self.closed.borrow() {
                return Err(reason.clone().into());
            }
            if timeout.is_some() {
                state.server_requests = 0;
                state.last_used = self.timer.now();
            }
            let is_background = timeout.is_none();
            state.pending.insert(id, Pending { answer, progress, reached: None, is_background });
        }
        let mut withdrawal =
            Withdrawal { core: self, id, method, is_cancellable, reason: "the caller withdrew it" };
        let outgoing =
            Outgoing { id, method: method.to_owned(), subject, headers, message: Bytes::from(message) };
        let work = async {
            if let Err(error) = self.wire.request(self, outgoing).await {
                // A refused request does not run at the server. A stream that broke off says nothing about that.
                if !matches!(error, ClientError::BrokenStream { .. }) {
                    self.state.lock().pending.remove(&id);
                }
                return Err(error);
            }
            match answered.await {
                Ok(Ok(result)) => Ok(result),
                Ok(Err(Failure::Closed(reason))) => Err(reason.into()),
                Ok(Err(Failure::Error(error))) => Err(error.into_refusal(method)),
                Err(_) => Err(invalid(method, "its exchange ended without an answer")),
            }
        };
        let Some(after) = timeout else { return work.await };
        tokio::select! {
            biased;
            done = work => done,
            () = self.timer.sleep(after) => {
                withdrawal.reason = "its deadline passed";
                drop(withdrawal);
                Err(ClientError::Timeout { method: method.to_owned(), after })
            }
        }
    }

    /// Lets the server end by itself within a time, and ends the connection then.
    pub(crate) async fn finish(self: &Arc<Self>, within: Duration) {
        let mut closed = self.closed();
        tokio::select! {
            biased;
            () = async {
                self.wire.finish(self).await;
                // The sender lives in this value.
                let _ = closed.wait_for(Option::is_some).await;
            } => {}
            () = self.timer.sleep(within) => {}
        }
        self.close(&CloseReason::ByCaller);
    }

    /// Sends a notification.
    pub(crate) async fn notify(self: &Arc<Self>, method: &str, params: Value) -> Result<(), ClientError> {
        self.wire.send(self, notification(method, &params)).await
    }
}

/// Withdrawal of a request that nobody waits for any longer.
struct Withdrawal<'a> {
    core: &'a Arc<Core>,
    id: u64,
    method: &'static str,
    is_cancellable: bool,
    reason: &'static str,
}

impl Drop for Withdrawal<'_> {
    fn drop(&mut self) {
        {
            let mut state = self.core.state.lock();
            if state.pending.remove(&self.id).is_none() {
                return;
            }
            state.last_used = self.core.timer.now();
            if state.withdrawn.len() >= REMEMBERED {
                state.withdrawn.pop_front();
            }
            state.withdrawn.push_back(self.id);
        }
        // The handshake cannot be withdrawn, and an older server would not know what to make of it.
        let is_handshake = matches!(self.method, "initialize" | "server/discover");
        if self.is_cancellable && !is_handshake && self.core.wire.cancels_by_message(self.core.revision()) {
            let params = json!({"requestId": self.id, "reason": self.reason});
            self.core.wire.post(self.core, notification("notifications/cancelled", &params));
        }
    }
}

fn notification(method: &str, params: &Value) -> Bytes {
    Bytes::from(json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string())
}

fn answer_message(id: &RawValue, answer: &Result<Value, Refusal>) -> Bytes {
    let rest = match answer {
        Ok(result) => format!(r#""result":{result}"#),
        Err(refusal) => format!(r#""error":{}"#, json!({"code": refusal.code, "message": refusal.message})),
    };
    Bytes::from(format!(r#"{{"jsonrpc":"2.0","id":{},{rest}}}"#, id.get()))
}
