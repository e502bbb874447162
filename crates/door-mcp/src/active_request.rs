//! One request in progress: its sender, and the messages that may precede its response.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use engine::Parent;
use rmcp::model::{JsonObject, RequestId, ServerJsonRpcMessage, ServerRequest};
use rmcp::task_manager::TaskContext;
use serde_json::{Value, json};

use crate::client_info::ClientInfo;
use crate::connection::{Connection, PendingRequest};
use crate::decode::{UnusableCall, cancelled_notification};
use crate::id::Id;
use crate::log::Severity;
use crate::outbox::{Message, Outbox};

/// A request in progress.
pub struct ActiveRequest {
    /// Place of the request in its connection.
    pub(crate) pending: Arc<PendingRequest>,
    /// Method of the request.
    pub(crate) method: &'static str,
    /// Client of the request.
    pub peer: ClientInfo,
    /// The client's progress token, if the client asks for progress.
    pub(crate) progress: Option<Id>,
    /// Minimum severity of log messages that the request asks for.
    pub(crate) least_severity: Option<Severity>,
    /// Fields of `_meta` with the parent span.
    pub(crate) traced: JsonObject,
    /// Reason why the call cannot be made.
    pub(crate) unusable: Option<UnusableCall>,
    pub(crate) arrival: Arrival,
    pub(crate) line: ClientLine,
    /// Task that the call becomes if it takes long.
    pub(crate) task: TaskSlot,
}

/// A task, set once the call is one.
pub(crate) type TaskSlot = Arc<OnceLock<TaskContext>>;

/// Way in which a message arrived.
#[derive(Debug, Clone)]
pub(crate) enum Arrival {
    /// A line of a stream.
    Line,
    /// A message of its own over HTTP, with the parent span of its HTTP request.
    Independent(Option<Parent>),
}

/// The way to the client of one request.
#[derive(Clone)]
pub(crate) struct ClientLine {
    pub(crate) connection: Arc<Connection>,
    pub(crate) outbox: Outbox,
    /// Maximum wait for the answer to a question.
    pub(crate) patience: Duration,
}

impl ActiveRequest {
    /// Clones the request without progress and log messages, for a call that outlives it.
    pub(crate) fn silent(&self) -> Self {
        Self {
            pending: self.pending.clone(),
            method: self.method,
            peer: self.peer.clone(),
            progress: None,
            least_severity: None,
            traced: self.traced.clone(),
            unusable: self.unusable.clone(),
            arrival: self.arrival.clone(),
            line: self.line.clone(),
            task: self.task.clone(),
        }
    }

    /// Sends a log message to the client, if it asks for this severity. Up to revision 2025-11-25,
    /// the client sets the severity for the connection; from 2026-07-28 on, with each request.
    pub fn log(&self, level: Severity, logger: &str, data: &Value) {
        let wanted = if self.peer.modern { self.least_severity } else { self.line.connection.log_level() };
        if wanted.is_some_and(|least| level >= least) {
            let params = json!({"level": level.as_str(), "logger": logger, "data": data});
            let message = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": params});
            self.line.outbox.post(Message::Raw(message));
        }
    }

    /// Reports progress to the client, if it asks for progress.
    pub fn report(&self, progress: u64, total: u64) {
        if let Some(token) = self.progress.clone() {
            let params = json!({"progress": progress, "total": total});
            self.line.outbox.post(Message::of_progress(&params, token));
        }
    }

    /// Sends a request to the client, in the form of the revisions up to 2025-11-25, and returns
    /// its result.
    ///
    /// # Errors
    /// The reason why there is no result.
    pub async fn ask(&self, request: ServerRequest) -> Result<Value, ElicitError> {
        self.line.ask(request).await.map(|answer| answer.said)
    }
}

/// Reason why there is no response to a request of the server, in words for the caller.
#[derive(Debug, thiserror::Error)]
pub enum ElicitError {
    /// The client disconnected.
    #[error("the client is gone")]
    Gone,
    /// The response did not arrive in time.
    #[error("the client did not answer within {} seconds", .0.as_secs())]
    Late(Duration),
    /// The client responded with an error.
    #[error("the client did not answer the question: {0}")]
    Refused(String),
}

/// A client's response to a request of the server.
pub(crate) struct ElicitAnswer {
    pub(crate) said: Value,
    /// Time between request and response.
    pub(crate) after: Duration,
}

impl ClientLine {
    /// Asks the client something that its user answers; see [`ClientLine::ask_for`].
    ///
    /// # Errors
    /// The reason why there is no response.
    pub(crate) async fn ask(&self, request: ServerRequest) -> Result<ElicitAnswer, ElicitError> {
        self.ask_for(request, Some(self.patience)).await
    }

    /// Sends a request to the client, in the form of the revisions up to 2025-11-25, and waits for
    /// its response, for at most `patience`.
    ///
    /// # Errors
    /// The reason why there is no response.
    pub(crate) async fn ask_for(
        &self,
        request: ServerRequest,
        patience: Option<Duration>,
    ) -> Result<ElicitAnswer, ElicitError> {
        let asked = tokio::time::Instant::now();
        let (number, said) = self.connection.ask();
        let message = ServerJsonRpcMessage::request(request, RequestId::Number(number));
        self.outbox.post(Message::Request(Box::new(message)));
        let mut open = OpenQuestion { of: self, number: Some(number) };
        let said = tokio::select! {
            said = said => said,
            () = self.outbox.failed() => return Err(ElicitError::Gone),
            late = late(patience) => return Err(ElicitError::Late(late)),
        };
        open.number = None;
        let said = said.map_err(|_| ElicitError::Gone)?;
        let said = said.map_err(|error| ElicitError::Refused(error.message.into_owned()))?;
        Ok(ElicitAnswer { said, after: asked.elapsed() })
    }
}

/// Waits until the patience has ended, and returns its length. Without one, it waits for ever.
async fn late(patience: Option<Duration>) -> Duration {
    match patience {
        Some(patience) => {
            tokio::time::sleep(patience).await;
            patience
        }
        None => std::future::pending().await,
    }
}

/// Cancels an unanswered question on drop: the call was cancelled, or the question timed out.
struct OpenQuestion<'a> {
    of: &'a ClientLine,
    number: Option<i64>,
}

impl Drop for OpenQuestion<'_> {
    fn drop(&mut self) {
        if let Some(number) = self.number.take() {
            self.of.connection.take_back(number);
            let taken_back = cancelled_notification(number, "the question is no longer open");
            self.of.outbox.post(Message::Raw(taken_back));
        }
    }
}
