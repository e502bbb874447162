//! Dispatch of messages for all transports: requests go to the handler, all others are answered here.

use std::sync::Arc;

use rmcp::model::{ErrorCode, ErrorData, ServerResult};
use tool::{ByteReservation, MAX_JSON_VALUES, Presentation, ToolError, holds_too_many_values};

use crate::active_request::Arrival;
use crate::connection::{Connection, Kind, PendingRequest};
use crate::decode::{Incoming, Request, UnusableCall, decode, unusable_call};
use crate::envelope_scan::EnvelopeScan;
use crate::handler::Handler;
use crate::id::Id;
use crate::outbox::{Message, Outbox};
use crate::present;
use crate::server_backend::Reply;

/// Advice for a message beyond a limit.
const SEND_LESS: &str = "send less in one call, for example a large file in parts";

/// Advice for a message that is not valid JSON, by a word in the error.
const SEND_JSON: [(&str, &str); 4] = [
    ("surrogate", "send both halves of each \\u surrogate pair"),
    ("hex escape", "send both halves of each \\u surrogate pair"),
    ("UTF-8", "send JSON in UTF-8"),
    ("recursion limit", "nest values at most 127 deep"),
];

/// Advice for any other message that is not valid JSON.
const SEND_STRICT_JSON: &str =
    "send JSON as in RFC 8259, without NaN, Infinity, comments and trailing commas";

/// Returns a skim of a message that contains more values than are parsed; `None` for other messages.
pub(crate) fn too_many_values(line: &[u8]) -> Option<EnvelopeScan> {
    if !holds_too_many_values(line) {
        return None;
    }
    let mut skim = EnvelopeScan::default();
    skim.feed(line);
    Some(skim)
}

/// Builds the error for a message beyond a limit.
fn beyond(problem: String) -> ErrorData {
    ErrorData::new(ErrorCode::INVALID_REQUEST, problem, None)
}

/// A request whose handler runs. If the handler panics, the drop answers the request with an error.
struct RunningRequest {
    connection: Arc<Connection>,
    pending: Arc<PendingRequest>,
    is_answered: bool,
}

impl RunningRequest {
    fn answer(mut self, outcome: Result<Reply<ServerResult>, ErrorData>) {
        self.is_answered = true;
        let id = self.pending.id.clone();
        let (message, held) = match outcome {
            Ok(Reply { result, structured, held }) => {
                (Message::Answer { id, result: Box::new(result), structured }, held)
            }
            Err(error) => (Message::Failure { id: Some(id), error }, ByteReservation::default()),
        };
        if self.connection.settle(&self.pending) {
            self.pending.outbox.put(message, held);
        }
    }
}

impl Drop for RunningRequest {
    fn drop(&mut self) {
        if !self.is_answered && self.connection.settle(&self.pending) {
            let error = ErrorData::internal_error("the request failed", None);
            self.pending.outbox.post(Message::Failure { id: Some(self.pending.id.clone()), error });
        }
    }
}

/// Accepts messages of one connection.
pub(crate) struct Dispatcher<'a> {
    pub(crate) handler: &'a Handler,
    /// Outbox for responses to incoming messages.
    pub(crate) outbox: &'a Outbox,
    pub(crate) limit: usize,
    pub(crate) arrival: Arrival,
}

impl Dispatcher<'_> {
    /// Accepts a message on one line.
    pub(crate) fn accept(&self, line: &[u8]) {
        if line.iter().all(u8::is_ascii_whitespace) {
            return;
        }
        match too_many_values(line) {
            Some(skim) => self.too_many(&skim),
            None => self.take(decode(line), line),
        };
    }

    /// Accepts a message that was decoded from this line. Returns its request, if a handler runs.
    pub(crate) fn take(&self, incoming: Incoming, line: &[u8]) -> Option<Arc<PendingRequest>> {
        match incoming {
            Incoming::Request { id, request } => return self.admit(&id, *request, line.len()),
            Incoming::Cancelled { id } => self.handler.connection.cancel(&id),
            Incoming::Response { id, said } => {
                if let Some(id) = id {
                    self.handler.connection.answered(&id, said);
                }
            }
            Incoming::Ignored => {}
            Incoming::Fault { error, .. } if error.code == ErrorCode::PARSE_ERROR => {
                return self.unparsed(line, error);
            }
            Incoming::Fault { id, error } => self.outbox.post(Message::Failure { id, error }),
        }
        None
    }

    fn admit(&self, id: &Id, request: Request, bytes: usize) -> Option<Arc<PendingRequest>> {
        let connection = &self.handler.connection;
        if let Some(modern) = request.is_modern() {
            connection.speaks(modern);
        }
        let kind = if request.is_handshake() { Kind::Handshake } else { Kind::Other };
        match connection.admit(id, bytes, kind, self.outbox) {
            Ok(pending) => {
                self.run(request, pending.clone());
                return Some(pending);
            }
            Err(error) if request.is_call() => {
                // Too many requests are pending for this call to pass through the engine.
                self.answer_call(id.clone(), &error);
            }
            Err(error) => {
                self.outbox.post(Message::Failure { id: Some(id.clone()), error: beyond(error.message) });
            }
        }
        None
    }

    /// Runs the handler of a request, and sends its answer.
    fn run(&self, request: Request, pending: Arc<PendingRequest>) {
        let (handler, arrival) = (self.handler.clone(), self.arrival.clone());
        let connection = handler.connection.clone();
        let running = RunningRequest { connection, pending, is_answered: false };
        tokio::spawn(async move {
            let outcome = handler.handle(request, arrival, &running.pending).await;
            running.answer(outcome);
        });
    }

    /// Answers a message with too many values.
    pub(crate) fn too_many(&self, skim: &EnvelopeScan) -> Option<Arc<PendingRequest>> {
        let problem = format!("the message has more than {MAX_JSON_VALUES} JSON values");
        self.unread(skim, beyond(problem), SEND_LESS)
    }

    /// Answers a message that exceeds the limit.
    pub(crate) fn too_long(&self, skim: &EnvelopeScan) {
        self.unread(skim, beyond(format!("the message is longer than {} bytes", self.limit)), SEND_LESS);
    }

    /// Answers a line that is not valid JSON. A request that is invalid only because of a bad text
    /// in it (half of a surrogate pair, a byte that is not UTF-8) is answered under its own id.
    /// Otherwise its sender would wait forever.
    fn unparsed(&self, line: &[u8], error: ErrorData) -> Option<Arc<PendingRequest>> {
        let mut skim = EnvelopeScan::default();
        skim.feed(line);
        // A message without a method is a response, whose id was assigned by the server.
        if skim.is_whole() && skim.method().is_some() {
            let found = SEND_JSON.iter().find(|(problem, _)| error.message.contains(problem));
            let hint = found.map_or(SEND_STRICT_JSON, |(_, hint)| hint);
            return self.unread(&skim, error, hint);
        }
        self.outbox.post(Message::Failure { id: None, error });
        None
    }

    /// Answers a message that was not parsed. A tool call fails as a call, so that the model sees
    /// the reason and the audit log records the call.
    fn unread(
        &self,
        skim: &EnvelopeScan,
        error: ErrorData,
        hint: &'static str,
    ) -> Option<Arc<PendingRequest>> {
        match (skim.id(), skim.method()) {
            (Some(id), Some("tools/call")) => {
                let tool = skim.tool().unwrap_or_default();
                let unusable = UnusableCall { problem: error.message.into_owned(), hint: Some(hint) };
                let call = unusable_call(tool, self.handler.connection.modern(), unusable);
                self.admit(id, call, 0)
            }
            (id, _) => {
                self.outbox.post(Message::Failure { id: id.cloned(), error });
                None
            }
        }
    }

    fn answer_call(&self, id: Id, error: &ToolError) {
        let mut result = ServerResult::CallToolResult(present::refusal(error, Presentation::Record, &[]));
        if !self.handler.connection.modern() {
            result.strip_result_type_for_legacy_peer();
        }
        self.outbox.post(Message::Answer { id, result: Box::new(result), structured: None });
    }
}
