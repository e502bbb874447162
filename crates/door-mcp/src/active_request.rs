//! One request in progress: its sender, and the messages that may precede its response.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{
    ErrorData, Extensions, JsonObject, RequestId, RequestMetaObject, ServerJsonRpcMessage, ServerRequest,
};
use rmcp::service::RequestContext;
use rmcp::task_manager::TaskContext;
use serde_json::{Value, json};
use tool::Stop;

use crate::client_info::ClientInfo;
use crate::connection::Connection;
use crate::decode::cancelled_notification;
use crate::id::{Id, ProgressToken};
use crate::log::Severity;
use crate::outbox::{Message, Outbox};

/// A request in progress.
pub(crate) struct ActiveRequest {
    /// Assigned number of the request.
    pub(crate) number: i64,
    /// Method of the request.
    pub(crate) method: &'static str,
    pub(crate) peer: ClientInfo,
    /// The client's progress token, if the client asks for progress.
    pub(crate) progress: Option<Id>,
    pub(crate) meta: RequestMetaObject,
    /// Fields of `_meta` with the parent span.
    pub(crate) traced: JsonObject,
    pub(crate) extensions: Extensions,
    /// Requested when the request is cancelled or the client disconnects.
    pub(crate) stop: Stop,
    pub(crate) line: ClientLine,
    /// Task that the call becomes if it takes long.
    pub(crate) task: TaskSlot,
}

/// A task, set once the call is one.
pub(crate) type TaskSlot = Arc<OnceLock<TaskContext>>;

/// The way to the client of one request.
#[derive(Clone)]
pub(crate) struct ClientLine {
    pub(crate) connection: Arc<Connection>,
    pub(crate) outbox: Outbox,
    /// Maximum wait for the answer to a question.
    pub(crate) patience: Duration,
}

impl ActiveRequest {
    /// Begins a turn.
    ///
    /// # Errors
    /// An internal error if the request was already settled.
    pub(crate) fn begin(
        context: RequestContext<RoleServer>,
        method: &'static str,
        connection: &Arc<Connection>,
        patience: Duration,
    ) -> Result<Self, ErrorData> {
        let number = match context.id {
            RequestId::Number(number) => number,
            RequestId::String(_) => {
                return Err(ErrorData::internal_error("a request has lost its number", None));
            }
        };
        let Some(outbox) = connection.outbox_of(number) else {
            return Err(ErrorData::internal_error("the client no longer waits for this request", None));
        };
        let stop = Stop::default();
        connection.attach(number, &stop);
        let peer = ClientInfo::of(&context);
        let line = ClientLine { connection: connection.clone(), outbox, patience };
        let RequestContext { meta, extensions, .. } = context;
        let named = |name: &&str| meta.0.0.get(*name).map(|value| ((*name).to_owned(), value.clone()));
        let traced = ["traceparent", "tracestate"].iter().filter_map(named).collect();
        Ok(Self {
            number,
            method,
            peer,
            progress: extensions.get::<ProgressToken>().map(|token| token.0.clone()),
            meta,
            traced,
            extensions,
            stop,
            line,
            task: TaskSlot::default(),
        })
    }

    /// Clones the turn without progress and log messages, for a call that outlives its request.
    pub(crate) fn silent(&self) -> Self {
        Self {
            number: self.number,
            method: self.method,
            peer: self.peer.clone(),
            progress: None,
            meta: RequestMetaObject::default(),
            traced: self.traced.clone(),
            extensions: self.extensions.clone(),
            stop: self.stop.clone(),
            line: self.line.clone(),
            task: self.task.clone(),
        }
    }

    /// Sends a log message to the client, if it asks for this severity. Up to revision 2025-11-25,
    /// the client sets the severity for the connection; from 2026-07-28 on, with each request.
    pub(crate) fn log(&self, level: Severity, logger: &str, data: &Value) {
        let wanted =
            if self.peer.modern { Severity::wanted(&self.meta) } else { self.line.connection.log_level() };
        if wanted.is_some_and(|least| level >= least) {
            let params = json!({"level": level.as_str(), "logger": logger, "data": data});
            let message = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": params});
            self.line.outbox.post(Message::Raw(message));
        }
    }
}

/// Reason why there is no response to a request of the server, in words for the caller.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ElicitError {
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
    /// Sends a request to the client, in the form of the revisions up to 2025-11-25, and waits for
    /// its response.
    ///
    /// # Errors
    /// The reason why there is no response.
    pub(crate) async fn ask(&self, request: ServerRequest) -> Result<ElicitAnswer, ElicitError> {
        let asked = tokio::time::Instant::now();
        let (number, said) = self.connection.ask();
        let message = ServerJsonRpcMessage::request(request, RequestId::Number(number));
        self.outbox.post(Message::Ours(Box::new(message)));
        let mut open = OpenQuestion { of: self, number: Some(number) };
        let said = tokio::select! {
            said = said => said,
            () = self.outbox.failed() => return Err(ElicitError::Gone),
            () = tokio::time::sleep(self.patience) => return Err(ElicitError::Late(self.patience)),
        };
        open.number = None;
        let said = said.map_err(|_| ElicitError::Gone)?;
        let said = said.map_err(|error| ElicitError::Refused(error.message.into_owned()))?;
        Ok(ElicitAnswer { said, after: asked.elapsed() })
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
