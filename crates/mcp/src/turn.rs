//! One request that is being answered: who sent it, and what may be said on the way to its answer.

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

use crate::connection::Connection;
use crate::decode::cancelled_notification;
use crate::id::{Id, ProgressToken};
use crate::log::Severity;
use crate::outbox::{Message, Outbox};
use crate::past_tasks::Task;
use crate::peer::Peer;

/// One request on the way to its answer.
pub(crate) struct Turn {
    /// What it is called here.
    pub(crate) number: i64,
    /// What it asks for.
    pub(crate) method: &'static str,
    pub(crate) peer: Peer,
    /// The client's name for the progress of the request, where the client wants to hear of it.
    pub(crate) progress: Option<Id>,
    pub(crate) meta: RequestMetaObject,
    /// What of that names the span that it is a part of.
    pub(crate) traced: JsonObject,
    pub(crate) extensions: Extensions,
    /// Ends with the request: the client gave it up, or is gone.
    pub(crate) stop: Stop,
    pub(crate) line: Line,
    /// The task that its call is, as the revision of 2025-11-25 has them.
    pub(crate) task: Option<Arc<Task>>,
    /// The task that its call becomes where it takes long, as the revision of 2026-07-28 has them.
    pub(crate) later: Later,
}

/// A task of that revision, once the call is one.
pub(crate) type Later = Arc<OnceLock<TaskContext>>;

/// The way to the client of one request.
#[derive(Clone)]
pub(crate) struct Line {
    pub(crate) connection: Arc<Connection>,
    pub(crate) outbox: Outbox,
    /// How long a question waits for its answer.
    pub(crate) patience: Duration,
}

impl Turn {
    /// # Errors
    /// Where the request has gone meanwhile.
    pub(crate) fn begin(
        context: RequestContext<RoleServer>,
        method: &'static str,
        connection: &Arc<Connection>,
        patience: Duration,
    ) -> Result<Self, ErrorData> {
        let number = match context.id {
            RequestId::Number(number) => number,
            RequestId::String(_) => return Err(ErrorData::internal_error("a request lost its number", None)),
        };
        let Some(outbox) = connection.outbox_of(number) else {
            return Err(ErrorData::internal_error("nobody waits for this request any more", None));
        };
        let stop = Stop::default();
        connection.attach(number, &stop);
        let peer = Peer::of(&context);
        let line = Line { connection: connection.clone(), outbox, patience };
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
            task: None,
            later: Later::default(),
        })
    }

    /// The same request without a word on the way to its answer, for a call that outlives it.
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
            later: self.later.clone(),
        }
    }

    /// Tells the client, if it wants to hear of what is this serious: up to 2025-11-25 it says so for the connection, from
    /// 2026-07-28 on with each request.
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

/// Why there is no answer to a request of ours, in words for whoever asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unsaid {
    /// the client is gone
    #[error("the client is gone")]
    Gone,
    /// nobody answered in time
    #[error("nobody answered within {} seconds", .0.as_secs())]
    Late(Duration),
    /// the client did not answer the question
    #[error("the client did not answer the question: {0}")]
    Refused(String),
}

/// A client's answer to a request of ours.
pub(crate) struct Heard {
    pub(crate) said: Value,
    /// How long it took.
    pub(crate) after: Duration,
}

impl Line {
    /// Sends the client a request of ours, as the revisions up to 2025-11-25 have them, and waits for its answer.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) async fn ask(&self, request: ServerRequest) -> Result<Heard, Unsaid> {
        let asked = tokio::time::Instant::now();
        let (number, said) = self.connection.ask();
        let message = ServerJsonRpcMessage::request(request, RequestId::Number(number));
        self.outbox.post(Message::Ours(Box::new(message)));
        let mut open = OpenQuestion { of: self, number: Some(number) };
        let said = tokio::select! {
            said = said => said,
            () = self.outbox.failed() => return Err(Unsaid::Gone),
            () = tokio::time::sleep(self.patience) => return Err(Unsaid::Late(self.patience)),
        };
        open.number = None;
        let said = said.map_err(|_| Unsaid::Gone)?;
        let said = said.map_err(|error| Unsaid::Refused(error.message.into_owned()))?;
        Ok(Heard { said, after: asked.elapsed() })
    }
}

/// Takes the question back when it is dropped unanswered: the call was cancelled, or nobody answered in time.
struct OpenQuestion<'a> {
    of: &'a Line,
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
