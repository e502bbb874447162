//! rmcp's transport over lines of JSON, with the answers that rmcp itself would not give.

use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorCode, ErrorData, JsonRpcMessage, RequestId,
    ServerJsonRpcMessage, ServerResult,
};
use rmcp::transport::Transport;
use serde_json::Value;
use tokio::io::AsyncRead;
use tokio::time::Instant;
use tool::{Held, ToolError};

use crate::connection::{Connection, Kind, Settled};
use crate::decode::{Incoming, Unusable, decode, is_modern, unusable_call};
use crate::lines::{Line, Lines};
use crate::outbox::{Message, Outbox, is_departure};
use crate::present;
use crate::skim::Skim;

/// JSON values that one message may hold. Each takes up to a hundred bytes once parsed, and as little as two before.
const MOST_VALUES: usize = 1_000_000;

/// Messages below this size are not counted: they cannot hold [`MOST_VALUES`].
const UNCOUNTED: usize = 2 * MOST_VALUES;

/// How long a client that has closed its side may take to read the last answers. The official clients wait two seconds before
/// they end the process by a signal.
const FAREWELL: Duration = Duration::from_millis(1500);

/// How long calls may still run after the client has closed its side. Whoever pipes a few messages in gets the answers, and a
/// command that runs longer ends well before the official clients lose their patience.
const LAST_CALLS: Duration = Duration::from_secs(1);

/// What to do about a message beyond a limit.
const SEND_LESS: &str = "send less in one call, for example a large file in parts";

/// What to do about a message that is no JSON, by a word of what is wrong with it.
const SEND_JSON: [(&str, &str); 4] = [
    ("surrogate", "send each \\u escape of half a surrogate pair with its other half"),
    ("hex escape", "send each \\u escape of half a surrogate pair with its other half"),
    ("UTF-8", "send JSON in UTF-8"),
    ("recursion limit", "send values in at most 127 others"),
];

/// What to do about any other message that is no JSON.
const SEND_STRICT_JSON: &str =
    "send JSON as RFC 8259 has it: NaN, Infinity, comments and trailing commas are none";

/// One connection, as rmcp sees it.
pub(crate) struct LineTransport<R> {
    lines: Lines<R>,
    limit: usize,
    connection: Arc<Connection>,
    outbox: Outbox,
    on_warning: Arc<dyn Fn(&str) + Send + Sync>,
    /// When the calls that still run at the end of the input are stopped. rmcp may drop and repeat the wait.
    last_calls_until: Option<Instant>,
}

/// The client is gone.
#[derive(Debug, thiserror::Error)]
#[error("the client is gone")]
pub(crate) struct Gone;

impl<R: AsyncRead + Unpin> LineTransport<R> {
    pub(crate) fn new(
        reader: R,
        limit: usize,
        connection: Arc<Connection>,
        outbox: Outbox,
        on_warning: Arc<dyn Fn(&str) + Send + Sync>,
    ) -> Self {
        Self {
            lines: Lines::new(reader, limit),
            limit,
            connection,
            outbox,
            on_warning,
            last_calls_until: None,
        }
    }

    /// The next message that rmcp has a part in; none at the end, after every call was told to stop.
    async fn next(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            let line = tokio::select! {
                biased;
                () = self.outbox.failed() => break,
                line = async {
                    self.outbox.room().await;
                    self.lines.next().await
                } => line,
            };
            let desk = Desk { connection: &self.connection, outbox: &self.outbox, limit: self.limit };
            match line {
                Ok(Some(Line::Whole(line))) => {
                    if let Some(message) = desk.accept(line) {
                        return Some(message);
                    }
                }
                Ok(Some(Line::TooLong(skim))) => {
                    if let Some(message) = desk.too_long(&skim) {
                        return Some(message);
                    }
                }
                Ok(None) => {
                    let until = *self.last_calls_until.get_or_insert_with(|| Instant::now() + LAST_CALLS);
                    tokio::select! {
                        () = self.outbox.failed() => {}
                        // Whether the calls ended or their time: what is left is stopped below.
                        _ = tokio::time::timeout_at(until, self.connection.idle()) => {}
                    }
                    break;
                }
                Err(error) => {
                    if !is_departure(&error) {
                        (self.on_warning)(&format!("cannot read the client's messages: {error}"));
                    }
                    break;
                }
            }
        }
        self.connection.close();
        self.outbox.give_up_after(FAREWELL);
        None
    }
}

impl<R: AsyncRead + Unpin + Send> Transport<RoleServer> for LineTransport<R> {
    type Error = Gone;

    fn send(
        &mut self,
        item: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Gone>> + Send + 'static {
        // Put at once, not when the future is first polled: the order of the calls is the order on the wire.
        let written = outgoing(&self.connection, item).map(|(message, held)| self.outbox.put(message, held));
        async move {
            match written {
                Some(written) => written.await.map_err(|_| Gone),
                None => Ok(()),
            }
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        self.next().await
    }

    async fn close(&mut self) -> Result<(), Gone> {
        self.connection.close();
        Ok(())
    }
}

/// Which message an item of rmcp becomes; none where nobody waits for it any more.
fn outgoing(connection: &Connection, item: ServerJsonRpcMessage) -> Option<(Message, Held)> {
    match item {
        JsonRpcMessage::Response(response) => {
            let Settled { id, held, structured } = settle(connection, &response.id)?;
            Some((Message::Answer { id, result: Box::new(response.result), structured }, held))
        }
        JsonRpcMessage::Error(failure) => {
            let (id, held) = match &failure.id {
                Some(id) => {
                    let settled = settle(connection, id)?;
                    (settled.id, settled.held)
                }
                None => (Value::Null, Held::default()),
            };
            Some((Message::Failure { id, error: failure.error }, held))
        }
        ours => Some((Message::Ours(Box::new(ours)), Held::default())),
    }
}

fn settle(connection: &Connection, id: &RequestId) -> Option<Settled> {
    match id {
        RequestId::Number(number) => connection.settle(*number),
        RequestId::String(_) => None,
    }
}

/// The error of a message beyond a limit.
fn beyond(problem: String) -> ErrorData {
    ErrorData::new(ErrorCode::INVALID_REQUEST, problem, None)
}

/// Takes messages in, and answers those that rmcp shall not see.
struct Desk<'a> {
    connection: &'a Connection,
    outbox: &'a Outbox,
    limit: usize,
}

impl Desk<'_> {
    fn accept(&self, line: &[u8]) -> Option<ClientJsonRpcMessage> {
        if line.iter().all(u8::is_ascii_whitespace) {
            return None;
        }
        if line.len() > UNCOUNTED {
            let mut skim = Skim::default();
            skim.feed(line);
            if skim.values() > MOST_VALUES {
                let problem = format!("the message holds more than {MOST_VALUES} JSON values");
                return self.unread(&skim, beyond(problem), SEND_LESS);
            }
        }
        match decode(line) {
            Incoming::Request { id, request } => self.admit(&id, *request, line.len()),
            Incoming::Cancelled { id } => {
                self.connection.cancel(&id);
                None
            }
            Incoming::Response(message) => Some(*message),
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

    fn admit(&self, id: &Value, request: ClientRequest, bytes: usize) -> Option<ClientJsonRpcMessage> {
        if let Some(modern) = is_modern(&request) {
            self.connection.speaks(modern);
        }
        let kind = match &request {
            ClientRequest::InitializeRequest(_) => Kind::Handshake,
            _ => Kind::Other,
        };
        match self.connection.admit(id, bytes, kind) {
            Ok(number) => Some(JsonRpcMessage::request(request, RequestId::Number(number))),
            Err(error) if matches!(request, ClientRequest::CallToolRequest(_)) => {
                // There are too many calls already for one more to go through the engine.
                self.answer_call(id.clone(), &error);
                None
            }
            Err(error) => {
                self.outbox.post(Message::Failure { id: id.clone(), error: beyond(error.message) });
                None
            }
        }
    }

    fn too_long(&self, skim: &Skim) -> Option<ClientJsonRpcMessage> {
        self.unread(skim, beyond(format!("the message is longer than {} bytes", self.limit)), SEND_LESS)
    }

    /// A line that is no JSON. A request that is one but for a bad text in it (half of a surrogate pair, a byte that is no UTF-8)
    /// is answered under its own id: its sender would wait for ever otherwise.
    fn unparsed(&self, line: &[u8], error: ErrorData) -> Option<ClientJsonRpcMessage> {
        let mut skim = Skim::default();
        skim.feed(line);
        // The id of what has no method, a response, is one of ours.
        if skim.is_whole() && skim.method().is_some() {
            let found = SEND_JSON.iter().find(|(problem, _)| error.message.contains(problem));
            let hint = found.map_or(SEND_STRICT_JSON, |(_, hint)| hint);
            return self.unread(&skim, error, hint);
        }
        self.outbox.post(Message::Failure { id: Value::Null, error });
        None
    }

    /// A message that was not parsed. A call of a tool fails as a call, so that the model reads why and the audit has it.
    fn unread(&self, skim: &Skim, error: ErrorData, hint: &'static str) -> Option<ClientJsonRpcMessage> {
        match (skim.id(), skim.method()) {
            (Some(id), Some("tools/call")) => {
                let tool = skim.tool().unwrap_or_default();
                let unusable = Unusable { problem: error.message.into_owned(), hint: Some(hint) };
                let call = unusable_call(tool, self.connection.modern(), unusable);
                self.admit(id, call, 0)
            }
            (id, _) => {
                self.outbox.post(Message::Failure { id: id.cloned().unwrap_or_default(), error });
                None
            }
        }
    }

    fn answer_call(&self, id: Value, error: &ToolError) {
        let mut result = ServerResult::CallToolResult(present::refusal(error));
        if !self.connection.modern() {
            result.strip_result_type_for_legacy_peer();
        }
        self.outbox.post(Message::Answer { id, result: Box::new(result), structured: None });
    }
}
