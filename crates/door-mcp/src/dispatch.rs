//! Dispatch of messages for all transports: messages for rmcp are passed on, all others are answered here.

use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, CustomRequest, ErrorCode, ErrorData, JsonRpcMessage, RequestId,
    ServerJsonRpcMessage, ServerResult,
};
use tokio::sync::oneshot;
use tool::{ByteReservation, Presentation, ToolError};

use crate::connection::{Connection, Kind, Settled};
use crate::decode::{Incoming, UnusableCall, decode, is_modern, unusable_call};
use crate::envelope_scan::EnvelopeScan;
use crate::id::Id;
use crate::notices::SUBSCRIPTION;
use crate::outbox::{Message, Outbox};
use crate::present;

/// Maximum number of JSON values in one message. Each takes up to a hundred bytes once parsed, and
/// as little as two before.
const MAX_VALUES: usize = 1_000_000;

/// Size below which messages are not counted, in bytes: they cannot contain [`MAX_VALUES`].
const UNCOUNTED: usize = 2 * MAX_VALUES;

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

/// Routes an item of rmcp: a response to the outbox of its request, anything else to `others`.
/// Returns a receiver for the completed write; `None` if the request was cancelled.
pub(crate) fn outgoing(
    connection: &Connection,
    others: &Outbox,
    item: ServerJsonRpcMessage,
) -> Option<oneshot::Receiver<()>> {
    let settled = |id: &RequestId| match id {
        RequestId::Number(number) => connection.settle(*number),
        RequestId::String(_) => None,
    };
    match item {
        JsonRpcMessage::Response(response) => {
            let Settled { id, outbox, held, structured } = settled(&response.id)?;
            Some(outbox.put(Message::Answer { id, result: Box::new(response.result), structured }, held))
        }
        JsonRpcMessage::Error(failure) => match &failure.id {
            Some(id) => {
                let Settled { id, outbox, held, .. } = settled(id)?;
                Some(outbox.put(Message::Failure { id: Some(id), error: failure.error }, held))
            }
            None => {
                let message = Message::Failure { id: None, error: failure.error };
                Some(others.put(message, ByteReservation::default()))
            }
        },
        ours => match of_a_subscription(connection, &ours) {
            Some((message, outbox)) => Some(outbox.put(message, ByteReservation::default())),
            None => Some(others.put(Message::Ours(Box::new(ours)), ByteReservation::default())),
        },
    }
}

/// Returns a notification that belongs to a subscription, with the client's id of the subscribing
/// request, and the outbox of that request.
fn of_a_subscription(connection: &Connection, ours: &ServerJsonRpcMessage) -> Option<(Message, Outbox)> {
    let JsonRpcMessage::Notification(_) = ours else { return None };
    let message = serde_json::to_value(ours).ok()?;
    let number = message.get("params")?.get("_meta")?.get(SUBSCRIPTION)?.as_i64()?;
    let message = Message::of_a_subscription(message, connection.id_of(number)?);
    Some((message, connection.outbox_of(number)?))
}

/// Returns true if JSON text contains more values than this crate parses. Each takes up to a
/// hundred bytes once parsed, and as little as two before.
pub fn holds_too_many_values(text: &[u8]) -> bool {
    too_many_values(text).is_some()
}

/// Returns a skim of a message that contains more values than are parsed; `None` for other messages.
pub(crate) fn too_many_values(line: &[u8]) -> Option<EnvelopeScan> {
    if line.len() <= UNCOUNTED {
        return None;
    }
    let mut skim = EnvelopeScan::default();
    skim.feed(line);
    (skim.values() > MAX_VALUES).then_some(skim)
}

/// Builds the error for a message beyond a limit.
fn beyond(problem: String) -> ErrorData {
    ErrorData::new(ErrorCode::INVALID_REQUEST, problem, None)
}

/// Accepts messages, and answers those that bypass rmcp.
pub(crate) struct Dispatcher<'a> {
    pub(crate) connection: &'a Connection,
    /// Outbox for responses to incoming messages.
    pub(crate) outbox: &'a Outbox,
    pub(crate) limit: usize,
}

impl Dispatcher<'_> {
    pub(crate) fn accept(&self, line: &[u8]) -> Option<ClientJsonRpcMessage> {
        if line.iter().all(u8::is_ascii_whitespace) {
            return None;
        }
        if let Some(skim) = too_many_values(line) {
            return self.too_many(&skim);
        }
        self.take(decode(line), line)
    }

    /// Accepts a message that was decoded from this line.
    pub(crate) fn take(&self, incoming: Incoming, line: &[u8]) -> Option<ClientJsonRpcMessage> {
        match incoming {
            Incoming::Request { id, request } => self.admit(&id, *request, line.len()),
            Incoming::Cancelled { id } => {
                self.connection.cancel(&id);
                None
            }
            Incoming::Response { id, said } => {
                if let Some(id) = id {
                    self.connection.answered(&id, said);
                }
                None
            }
            Incoming::Ignored => None,
            Incoming::Fault { error, .. } if error.code == ErrorCode::PARSE_ERROR => {
                self.unparsed(line, error)
            }
            Incoming::Fault { id, error } => {
                self.outbox.post(Message::Failure { id, error });
                None
            }
        }
    }

    fn admit(&self, id: &Id, request: ClientRequest, bytes: usize) -> Option<ClientJsonRpcMessage> {
        if let Some(modern) = is_modern(&request) {
            self.connection.speaks(modern);
        }
        // Only the revision without a handshake has these methods.
        let request = match request {
            ClientRequest::GetTaskRequest(_)
            | ClientRequest::UpdateTaskRequest(_)
            | ClientRequest::CancelTaskRequest(_)
                if !self.connection.modern() =>
            {
                ClientRequest::CustomRequest(CustomRequest::new(request.method(), None))
            }
            other => other,
        };
        let kind = match &request {
            ClientRequest::InitializeRequest(_) => Kind::Handshake,
            _ => Kind::Other,
        };
        match self.connection.admit(id, bytes, kind, self.outbox) {
            Ok(number) => Some(JsonRpcMessage::request(request, RequestId::Number(number))),
            Err(error) if matches!(request, ClientRequest::CallToolRequest(_)) => {
                // Too many requests are pending for this call to pass through the engine.
                self.answer_call(id.clone(), &error);
                None
            }
            Err(error) => {
                self.outbox.post(Message::Failure { id: Some(id.clone()), error: beyond(error.message) });
                None
            }
        }
    }

    /// Answers a message with too many values.
    pub(crate) fn too_many(&self, skim: &EnvelopeScan) -> Option<ClientJsonRpcMessage> {
        let problem = format!("the message has more than {MAX_VALUES} JSON values");
        self.unread(skim, beyond(problem), SEND_LESS)
    }

    pub(crate) fn too_long(&self, skim: &EnvelopeScan) -> Option<ClientJsonRpcMessage> {
        self.unread(skim, beyond(format!("the message is longer than {} bytes", self.limit)), SEND_LESS)
    }

    /// Answers a line that is not valid JSON. A request that is invalid only because of a bad text
    /// in it (half of a surrogate pair, a byte that is not UTF-8) is answered under its own id.
    /// Otherwise its sender would wait forever.
    fn unparsed(&self, line: &[u8], error: ErrorData) -> Option<ClientJsonRpcMessage> {
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
    ) -> Option<ClientJsonRpcMessage> {
        match (skim.id(), skim.method()) {
            (Some(id), Some("tools/call")) => {
                let tool = skim.tool().unwrap_or_default();
                let unusable = UnusableCall { problem: error.message.into_owned(), hint: Some(hint) };
                let call = unusable_call(tool, self.connection.modern(), unusable);
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
        if !self.connection.modern() {
            result.strip_result_type_for_legacy_peer();
        }
        self.outbox.post(Message::Answer { id, result: Box::new(result), structured: None });
    }
}
