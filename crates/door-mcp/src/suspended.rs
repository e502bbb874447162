//! Calls that wait for an answer of their client, from revision 2026-07-28 on.
//!
//! In these revisions a server asks only in its answer to a request, and the client repeats the request with
//! what was asked for. A call that needs the client's model or a form is suspended meanwhile: it runs on without
//! a request, and the repeated request continues it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use rmcp::model::InputResponses;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinHandle};
use tool::{CallResult, Stop, StopReason};

use crate::active_request::ActiveRequest;
use crate::asker::{CurrentTask, ElicitByRetry};
use crate::by_retry::{AnswerSender, ClientRequest, MAX_WAITING, RequestKind, ask_in, offered};
use crate::client_info::ClientInfo;
use crate::sampling::OfferedByClient;
use crate::signed_state::GOOD_FOR;

/// Maximum number of suspended calls of one connection; for a new one, the oldest is cancelled.
const MAX_SUSPENDED: usize = 32;

/// Call in progress that may ask its client. Dropping the value cancels the call.
pub(crate) struct RunningCall {
    parts: RunningParts,
    /// Number of the newest request. Only this one may cancel the call.
    attached: Arc<AtomicU64>,
}

/// Parts of a [`RunningCall`].
pub(crate) struct RunningParts {
    pub(crate) tool: String,
    pub(crate) arguments: Value,
    pub(crate) call: JoinHandle<CallResult>,
    pub(crate) requests: mpsc::Receiver<ClientRequest>,
    pub(crate) asker: Arc<ElicitByRetry>,
    pub(crate) task: CurrentTask,
    pub(crate) stop: Stop,
}

impl RunningCall {
    pub(crate) fn new(parts: RunningParts) -> Self {
        Self { parts, attached: Arc::default() }
    }

    /// Lets a request cancel the call, in place of the request before.
    pub(crate) fn attach(&self, turn: &ActiveRequest) {
        self.parts.task.replace(turn);
        let own = self.detach();
        let (attached, stop) = (self.attached.clone(), self.parts.stop.clone());
        turn.pending.stop.on_request(move |reason| {
            if attached.load(Ordering::SeqCst) == own {
                stop.request(reason);
            }
        });
    }

    /// Lets no request cancel the call. Returns the number of the next one.
    fn detach(&self) -> u64 {
        self.attached.fetch_add(1, Ordering::SeqCst) + 1
    }
}

impl std::ops::Deref for RunningCall {
    type Target = RunningParts;

    fn deref(&self) -> &RunningParts {
        &self.parts
    }
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        // A call that has ended takes no notice.
        self.parts.stop.request(StopReason::Cancelled);
    }
}

/// Next step of a running call.
pub(crate) enum Step {
    /// The call has ended; without a result, it panicked.
    Ended(Option<Box<CallResult>>),
    /// The call needs an answer of its client.
    Asks(Box<ClientRequest>),
}

/// Suspended calls of one connection, and the requests to its client.
pub(crate) struct SuspendedCalls {
    sender: mpsc::Sender<ClientRequest>,
    shared: tokio::sync::Mutex<mpsc::Receiver<ClientRequest>>,
    suspended: Arc<Mutex<Suspended>>,
}

#[derive(Default)]
struct Suspended {
    number: u64,
    calls: BTreeMap<u64, SuspendedCall>,
}

struct SuspendedCall {
    call: RunningCall,
    kind: RequestKind,
    answer: AnswerSender,
    expiry: AbortHandle,
}

impl Default for SuspendedCalls {
    fn default() -> Self {
        let (sender, shared) = mpsc::channel(MAX_WAITING);
        Self { sender, shared: tokio::sync::Mutex::new(shared), suspended: Arc::default() }
    }
}

impl SuspendedCalls {
    /// Returns what a client offers to one call, and the requests to the client; see [`offered`].
    pub(crate) fn offer(
        &self,
        peer: &ClientInfo,
        may_show_forms: bool,
        task: &CurrentTask,
    ) -> Option<(OfferedByClient, mpsc::Receiver<ClientRequest>)> {
        offered(peer, may_show_forms, task, &self.sender)
    }

    /// Waits for the end of the call, or for a request to the client that the call's request can carry.
    pub(crate) async fn next_step(&self, call: &mut RunningCall, turn: &ActiveRequest) -> Step {
        loop {
            let parts = &mut call.parts;
            let shared = async { self.shared.lock().await.recv().await };
            let asked = tokio::select! {
                biased;
                result = &mut parts.call => return Step::Ended(result.ok().map(Box::new)),
                Some(asked) = parts.requests.recv() => asked,
                Some(asked) = shared => asked,
            };
            if asked.answer.is_closed() {
                continue;
            }
            let Some(task) = turn.task.get().cloned() else { return Step::Asks(Box::new(asked)) };
            // The request has become a task meanwhile, which asks without ending.
            tokio::spawn(async move {
                let ClientRequest { kind, request, mut answer } = asked;
                tokio::select! {
                    // The asking side may have stopped waiting.
                    said = ask_in(&task, kind, request) => drop(answer.send(said)),
                    () = answer.closed() => {}
                }
            });
        }
    }

    /// Suspends a call until the client sends the answer. Returns the call's number.
    pub(crate) fn suspend(&self, call: RunningCall, kind: RequestKind, answer: AnswerSender) -> u64 {
        call.detach();
        let mut suspended = self.suspended.lock();
        suspended.number += 1;
        let number = suspended.number;
        let late = Arc::downgrade(&self.suspended);
        let time = tokio::time::sleep(GOOD_FOR);
        let expiry = tokio::spawn(async move {
            time.await;
            let expired = late.upgrade().and_then(|suspended| suspended.lock().calls.remove(&number));
            drop(expired);
        });
        let expiry = expiry.abort_handle();
        suspended.calls.insert(number, SuspendedCall { call, kind, answer, expiry });
        let oldest = if suspended.calls.len() > MAX_SUSPENDED { suspended.calls.pop_first() } else { None };
        // The end of a call runs callbacks, which may use this connection.
        drop(suspended);
        drop(oldest);
        number
    }

    /// Takes a suspended call, and hands the client's answer on. Returns `None` if no call with this number waits
    /// for an answer of this kind, or the call has another tool or other arguments.
    pub(crate) fn resume(
        &self,
        number: u64,
        tool: &str,
        arguments: &Value,
        answers: &InputResponses,
    ) -> Option<RunningCall> {
        let mut suspended = self.suspended.lock();
        let SuspendedCall { call, kind, .. } = suspended.calls.get(&number)?;
        let answer = answers.get(kind.key())?.clone();
        if call.tool != tool || call.arguments != *arguments {
            return None;
        }
        let taken = suspended.calls.remove(&number)?;
        drop(suspended);
        taken.expiry.abort();
        // The asking side may have stopped waiting.
        let _ = taken.answer.send(Ok(answer));
        Some(taken.call)
    }

    /// Cancels all suspended calls.
    pub(crate) fn end(&self) {
        let ended = std::mem::take(&mut self.suspended.lock().calls);
        for call in ended.values() {
            call.expiry.abort();
        }
    }
}
