//! Model and forms of a client from revision 2026-07-28 on: a server asks only in its answer to a request, and
//! the client repeats the request with what was asked for.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rmcp::model::InputRequest;
use rmcp::task_manager::TaskContext;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tool::{BoxFuture, CallerForms, CallerModel, SampleError};

use crate::asker::CurrentTask;
use crate::client_info::ClientInfo;
use crate::sampling::{FORM_METHOD, MODEL_METHOD, OfferedByClient, request_of};

/// Maximum number of requests that wait to be sent, for each call and for the connection.
pub(crate) const MAX_WAITING: usize = 64;

/// Number of the next request to a client within a task. Keys must be unique within a task.
static NEXT_KEY: AtomicU64 = AtomicU64::new(1);

/// Kind of a request to a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestKind {
    /// Request to the client's model.
    Model,
    /// Form of a server behind this one. Approvals have their own way.
    Form,
}

impl RequestKind {
    /// All kinds.
    pub(crate) const ALL: [Self; 2] = [Self::Model, Self::Form];

    /// Returns the key of the request, and of its answer.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Form => "form",
        }
    }
}

/// Request to a client.
pub(crate) struct ClientRequest {
    pub(crate) kind: RequestKind,
    pub(crate) request: InputRequest,
    pub(crate) answer: AnswerSender,
}

/// Way of a client's answer to the waiting call.
pub(crate) type AnswerSender = oneshot::Sender<Result<Value, SampleError>>;

/// Way of the requests of one call to the client.
#[derive(Clone)]
struct RequestsByRetry {
    /// Requests that the call itself sends. Closed when the call has ended.
    own: mpsc::Sender<ClientRequest>,
    /// Requests that any call of the connection may send, for agents that outlive their call.
    shared: mpsc::Sender<ClientRequest>,
    task: CurrentTask,
}

impl RequestsByRetry {
    async fn ask(&self, kind: RequestKind, request: InputRequest) -> Result<Value, SampleError> {
        let has_ended = self.own.is_closed();
        if !has_ended && let Some(task) = self.task.get() {
            return ask_in(&task, kind, request).await;
        }
        let (answer, answered) = oneshot::channel();
        let queue = if has_ended { &self.shared } else { &self.own };
        queue
            .try_send(ClientRequest { kind, request, answer })
            .map_err(|_| SampleError::Failed("too many requests wait for the client".to_owned()))?;
        let gone = || SampleError::Failed("the client did not continue the call".to_owned());
        answered.await.map_err(|_| gone())?
    }
}

/// Asks the client by the task that the call has become.
pub(crate) async fn ask_in(
    task: &TaskContext,
    kind: RequestKind,
    request: InputRequest,
) -> Result<Value, SampleError> {
    let key = format!("{}-{}", kind.key(), NEXT_KEY.fetch_add(1, Ordering::Relaxed));
    let answer = task.request_input(key, request).await;
    answer.map_err(|_| SampleError::Failed("the task was cancelled".to_owned()))
}

/// Model that a client offers.
struct ModelByRetry {
    calls_tools: bool,
    requests: RequestsByRetry,
}

impl CallerModel for ModelByRetry {
    fn calls_tools(&self) -> bool {
        self.calls_tools
    }

    fn sample(&self, params: Value) -> BoxFuture<'_, Result<Value, SampleError>> {
        Box::pin(async move {
            let request = request_of(MODEL_METHOD, &params)?;
            self.requests.ask(RequestKind::Model, request).await
        })
    }
}

/// Forms that a client shows for servers behind this one.
struct FormsByRetry(RequestsByRetry);

impl CallerForms for FormsByRetry {
    fn show(&self, form: Value) -> BoxFuture<'_, Result<Value, SampleError>> {
        Box::pin(async move {
            let request = request_of(FORM_METHOD, &form)?;
            self.0.ask(RequestKind::Form, request).await
        })
    }
}

/// Returns the model and the forms of a client, and the requests to them. `None` if the client has neither, or
/// takes requests of a server at any time. `shared` takes the requests of what outlives the call.
pub(crate) fn offered(
    peer: &ClientInfo,
    may_show_forms: bool,
    task: &CurrentTask,
    shared: &mpsc::Sender<ClientRequest>,
) -> Option<(OfferedByClient, mpsc::Receiver<ClientRequest>)> {
    let sampling = peer.capabilities.sampling.as_ref();
    let shows_forms = may_show_forms && peer.shows_forms();
    if !peer.modern || sampling.is_none() && !shows_forms {
        return None;
    }
    let (own, waiting) = mpsc::channel(MAX_WAITING);
    let requests = RequestsByRetry { own, shared: shared.clone(), task: task.clone() };
    let model = sampling.map(|sampling| {
        let calls_tools = sampling.tools.is_some();
        Arc::new(ModelByRetry { calls_tools, requests: requests.clone() }) as Arc<dyn CallerModel>
    });
    let forms = shows_forms.then(|| Arc::new(FormsByRetry(requests)) as Arc<dyn CallerForms>);
    Some((OfferedByClient { model, forms }, waiting))
}
