//! Requests to the client's model from revision 2026-07-28 on, and the calls that wait for their answers.
//!
//! In these revisions a server asks only in its answer to a request, and the client repeats the request with
//! what was asked for. A call that needs the model is suspended meanwhile: it runs on without a request, and
//! the repeated request continues it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use rmcp::model::InputRequest;
use rmcp::task_manager::TaskContext;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, JoinHandle};
use tool::{BoxFuture, CallResult, CallerModel, SampleError, Stop, StopReason};

use crate::active_request::ActiveRequest;
use crate::asker::{CurrentTask, ElicitByRetry};
use crate::client_info::ClientInfo;
use crate::sampling::request_of;
use crate::signed_state::GOOD_FOR;

/// Maximum number of suspended calls of one connection; for a new one, the oldest is cancelled.
const MAX_SUSPENDED: usize = 32;

/// Maximum number of requests to the model that wait to be sent, for each call and for the connection.
const MAX_WAITING: usize = 64;

/// Number of the next request to a model within a task. Keys must be unique within a task.
static NEXT_KEY: AtomicU64 = AtomicU64::new(1);

/// Model that a client offers from revision 2026-07-28 on.
pub(crate) struct SampleByRetry {
    calls_tools: bool,
    /// Requests that the call itself sends. Closed when the call has ended.
    own: mpsc::Sender<Sample>,
    /// Requests that any call of the connection may send, for agents that outlive their call.
    shared: mpsc::Sender<Sample>,
    task: CurrentTask,
}

/// Request to a client's model.
pub(crate) struct Sample {
    pub(crate) request: InputRequest,
    pub(crate) answer: AnswerSender,
}

/// Way of a model's answer to the waiting call.
pub(crate) type AnswerSender = oneshot::Sender<Result<Value, SampleError>>;

impl CallerModel for SampleByRetry {
    fn calls_tools(&self) -> bool {
        self.calls_tools
    }

    fn sample(&self, params: Value) -> BoxFuture<'_, Result<Value, SampleError>> {
        Box::pin(async move {
            let request = request_of(&params)?;
            let has_ended = self.own.is_closed();
            if !has_ended && let Some(task) = self.task.get() {
                return ask_in(&task, request).await;
            }
            let (answer, answered) = oneshot::channel();
            let queue = if has_ended { &self.shared } else { &self.own };
            queue.try_send(Sample { request, answer }).map_err(|_| {
                SampleError::Failed("too many requests wait for the model of the client".to_owned())
            })?;
            let gone = || SampleError::Failed("the client did not continue the call".to_owned());
            answered.await.map_err(|_| gone())?
        })
    }
}

/// Asks the model by the task that the call has become.
async fn ask_in(task: &TaskContext, request: InputRequest) -> Result<Value, SampleError> {
    let key = format!("model-{}", NEXT_KEY.fetch_add(1, Ordering::Relaxed));
    let answer = task.request_input(key, request).await;
    answer.map_err(|_| SampleError::Failed("the task was cancelled".to_owned()))
}

/// Model that one call is offered, and the requests to it.
pub(crate) struct OfferedSamples {
    pub(crate) model: SampleByRetry,
    pub(crate) requests: mpsc::Receiver<Sample>,
}

/// Call in progress whose client offers a model. Dropping the value cancels the call.
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
    pub(crate) samples: mpsc::Receiver<Sample>,
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
    /// The call needs the model.
    Asks(Box<Sample>),
}

/// Suspended calls of one connection, and the requests to its model.
pub(crate) struct Samples {
    sender: mpsc::Sender<Sample>,
    shared: tokio::sync::Mutex<mpsc::Receiver<Sample>>,
    suspended: Arc<Mutex<Suspended>>,
}

#[derive(Default)]
struct Suspended {
    number: u64,
    calls: BTreeMap<u64, SuspendedCall>,
}

struct SuspendedCall {
    call: RunningCall,
    answer: AnswerSender,
    expiry: AbortHandle,
}

impl Default for Samples {
    fn default() -> Self {
        let (sender, shared) = mpsc::channel(MAX_WAITING);
        Self { sender, shared: tokio::sync::Mutex::new(shared), suspended: Arc::default() }
    }
}

impl Samples {
    /// Returns the model of a client, if the client offers one.
    pub(crate) fn offer(&self, peer: &ClientInfo, task: &CurrentTask) -> Option<OfferedSamples> {
        let sampling = peer.capabilities.sampling.as_ref().filter(|_| peer.modern)?;
        let (own, requests) = mpsc::channel(MAX_WAITING);
        let model = SampleByRetry {
            calls_tools: sampling.tools.is_some(),
            own,
            shared: self.sender.clone(),
            task: task.clone(),
        };
        Some(OfferedSamples { model, requests })
    }

    /// Waits for the end of the call, or for a request to the model that the call's request can carry.
    pub(crate) async fn next_step(&self, call: &mut RunningCall, turn: &ActiveRequest) -> Step {
        loop {
            let parts = &mut call.parts;
            let shared = async { self.shared.lock().await.recv().await };
            let sample = tokio::select! {
                biased;
                result = &mut parts.call => return Step::Ended(result.ok().map(Box::new)),
                Some(sample) = parts.samples.recv() => sample,
                Some(sample) = shared => sample,
            };
            if sample.answer.is_closed() {
                continue;
            }
            let Some(task) = turn.task.get().cloned() else { return Step::Asks(Box::new(sample)) };
            // The request has become a task meanwhile, which asks without ending.
            tokio::spawn(async move {
                let Sample { request, mut answer } = sample;
                tokio::select! {
                    // The agent may have stopped waiting.
                    said = ask_in(&task, request) => drop(answer.send(said)),
                    () = answer.closed() => {}
                }
            });
        }
    }

    /// Suspends a call until the client sends the answer of its model. Returns the call's number.
    pub(crate) fn suspend(&self, call: RunningCall, answer: AnswerSender) -> u64 {
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
        suspended.calls.insert(number, SuspendedCall { call, answer, expiry });
        let oldest = if suspended.calls.len() > MAX_SUSPENDED { suspended.calls.pop_first() } else { None };
        // The end of a call runs callbacks, which may use this connection.
        drop(suspended);
        drop(oldest);
        number
    }

    /// Takes a suspended call, and hands the model's answer on. Returns `None` if no call with this number
    /// waits, or the call has another tool or other arguments.
    pub(crate) fn resume(
        &self,
        number: u64,
        tool: &str,
        arguments: &Value,
        answer: Value,
    ) -> Option<RunningCall> {
        let mut suspended = self.suspended.lock();
        let call = &suspended.calls.get(&number)?.call;
        if call.tool != tool || call.arguments != *arguments {
            return None;
        }
        let taken = suspended.calls.remove(&number)?;
        drop(suspended);
        taken.expiry.abort();
        // An agent that has stopped meanwhile waits for no answer.
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
