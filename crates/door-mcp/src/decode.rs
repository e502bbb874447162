//! Parsing of one message.
//!
//! The types of requests are those of rmcp. Its own parsing gives no response to an unreadable
//! message and buffers a large argument twice.

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientCapabilities, ClientRequest, ErrorCode, ErrorData, GetMeta,
    MetaObject, ProtocolVersion, RequestMetaObject,
};
use serde_json::{Map, Value, json};

use crate::envelope;
use crate::id::{Id, IdField};

/// One message of the client.
#[derive(Debug)]
pub(crate) enum Incoming {
    /// A request.
    Request {
        /// The client's id of the request.
        id: Id,
        /// Content of the request.
        request: Box<Request>,
    },
    /// A cancellation of a request.
    Cancelled {
        /// The client's id of the cancelled request.
        id: Id,
    },
    /// A response to a request of the server.
    Response {
        /// Number of the server's request; `None` if the response names no request.
        id: Option<Id>,
        /// Result or error.
        said: Result<Value, ErrorData>,
    },
    /// A message that needs no response and has no effect.
    Ignored,
    /// A message that is invalid by JSON-RPC.
    Fault {
        /// Id for the error response; `None` if it is unknown.
        id: Option<Id>,
        /// Error for the response.
        error: ErrorData,
    },
}

/// Content of a request.
#[derive(Debug)]
pub(crate) struct Request {
    /// Method and parameters, without `_meta`.
    pub(crate) content: ClientRequest,
    /// Field `_meta`.
    pub(crate) meta: RequestMetaObject,
    /// The client's progress token, if the client asks for progress.
    pub(crate) progress: Option<Id>,
    /// Reason why the call cannot be made.
    pub(crate) unusable: Option<UnusableCall>,
}

/// A call that cannot be made: its response is the problem.
#[derive(Debug, Clone)]
pub(crate) struct UnusableCall {
    /// Description of the problem, with the field or limit.
    pub(crate) problem: String,
    /// Advice for the client.
    pub(crate) hint: Option<&'static str>,
}

/// Parses one message.
pub(crate) fn decode(line: &[u8]) -> Incoming {
    let (value, ids) = match envelope::read(line) {
        Ok(read) => read,
        Err(error) => {
            let problem = match std::str::from_utf8(line) {
                Ok(_) => format!("the message is not JSON: {error}"),
                Err(error) => format!("the message is not UTF-8: {error}"),
            };
            return fault(None, ErrorCode::PARSE_ERROR, problem);
        }
    };
    let Value::Object(mut message) = value else {
        let problem = if value.is_array() {
            "batches are not supported; send one message a line"
        } else {
            "the message is not an object"
        };
        return fault(None, ErrorCode::INVALID_REQUEST, problem);
    };
    if message.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return fault(ids.id.answerable(), ErrorCode::INVALID_REQUEST, "`jsonrpc` must be \"2.0\"");
    }
    let params = message.remove("params").unwrap_or_default();
    match (message.remove("method"), ids.id) {
        (Some(Value::String(method)), IdField::Is(id)) => request(id, method, params, ids.progress),
        (Some(Value::String(method)), IdField::Absent) => notification(&method, ids.request),
        (Some(Value::String(_)), IdField::Unusable) => {
            fault(None, ErrorCode::INVALID_REQUEST, "`id` must be a string or a number")
        }
        (Some(_), id) => fault(id.answerable(), ErrorCode::INVALID_REQUEST, "`method` must be a string"),
        (None, id @ (IdField::Is(_) | IdField::Unusable))
            if message.contains_key("result") || message.contains_key("error") =>
        {
            response(id.answerable(), message)
        }
        (None, id) => fault(
            id.answerable(),
            ErrorCode::INVALID_REQUEST,
            "the message has no `method`, `result` or `error`",
        ),
    }
}

fn fault(
    id: impl Into<Option<Id>>,
    code: ErrorCode,
    message: impl Into<std::borrow::Cow<'static, str>>,
) -> Incoming {
    Incoming::Fault { id: id.into(), error: ErrorData::new(code, message, None) }
}

fn request(id: Id, method: String, params: Value, progress: IdField) -> Incoming {
    if method == "tools/call" {
        return call(id, params, progress);
    }
    if !(params.is_object() || params.is_null()) {
        return fault(id, ErrorCode::INVALID_PARAMS, "`params` must be an object");
    }
    // rmcp treats unreadable parameters of a list as missing, which would return the first page.
    if method.ends_with("/list") && params.get("cursor").is_some_and(|cursor| !cursor.is_string()) {
        return fault(id, ErrorCode::INVALID_PARAMS, "`params.cursor` must be a string");
    }
    // A method that rmcp does not know, or parameters that it cannot read, become its custom
    // request, which the handler answers.
    let mut message = Map::new();
    message.insert("method".to_owned(), Value::String(method));
    if params.is_object() {
        message.insert("params".to_owned(), params);
    }
    match serde_json::from_value::<ClientRequest>(Value::Object(message)) {
        Ok(mut content) => {
            let meta = std::mem::take(content.get_meta_mut());
            let request = Request { content, meta, progress: None, unusable: None };
            Incoming::Request { id, request: Box::new(request) }
        }
        Err(error) => fault(id, ErrorCode::INVALID_PARAMS, format!("the request is invalid: {error}")),
    }
}

/// Builds a tool call. The arguments are moved, not copied.
fn call(id: Id, params: Value, progress: IdField) -> Incoming {
    let Value::Object(mut params) = params else {
        return fault(id, ErrorCode::INVALID_PARAMS, "`params` must be an object");
    };
    let Some(Value::String(name)) = params.remove("name") else {
        return fault(id, ErrorCode::INVALID_PARAMS, "`params.name` must be the name of a tool");
    };
    let mut call = CallToolRequestParams::new(name);
    let mut unusable = None;
    call.arguments = match params.remove("arguments") {
        Some(Value::Object(arguments)) => Some(arguments),
        None | Some(Value::Null) => None,
        Some(_) => {
            unusable =
                Some(UnusableCall { problem: "`arguments`: must be an object".to_owned(), hint: None });
            None
        }
    };
    match params.remove("requestState") {
        Some(Value::String(state)) => call.request_state = Some(state),
        None | Some(Value::Null) => {}
        Some(_) => return fault(id, ErrorCode::INVALID_PARAMS, "`params.requestState` must be a string"),
    }
    match params.remove("inputResponses") {
        Some(Value::Object(responses)) => call.input_responses = Some(responses.into_iter().collect()),
        None | Some(Value::Null) => {}
        Some(_) => return fault(id, ErrorCode::INVALID_PARAMS, "`params.inputResponses` must be an object"),
    }
    let meta = match params.remove("_meta") {
        Some(Value::Object(meta)) => meta,
        None | Some(Value::Null) => Map::new(),
        Some(_) => return fault(id, ErrorCode::INVALID_PARAMS, "`params._meta` must be an object"),
    };
    let content = ClientRequest::CallToolRequest(CallToolRequest::new(call));
    let (meta, progress) = (RequestMetaObject(MetaObject(meta)), progress.answerable());
    Incoming::Request { id, request: Box::new(Request { content, meta, progress, unusable }) }
}

/// Builds a tool call from a message that was read only as far as a response needs.
pub(crate) fn unusable_call(tool: &str, modern: bool, unusable: UnusableCall) -> Request {
    let call = CallToolRequest::new(CallToolRequestParams::new(tool.to_owned()));
    let mut meta = RequestMetaObject::new();
    if modern {
        // The message's own `_meta` was not read; assume the revision that the client has used so far.
        meta.set_protocol_version(ProtocolVersion::V_2026_07_28);
        meta.set_client_capabilities(ClientCapabilities::default());
    }
    let (content, unusable) = (ClientRequest::CallToolRequest(call), Some(unusable));
    Request { content, meta, progress: None, unusable }
}

fn notification(method: &str, request: IdField) -> Incoming {
    if method != "notifications/cancelled" {
        // `initialized` has no effect here, and there are no roots, subscriptions or tasks to notify about.
        return Incoming::Ignored;
    }
    match request {
        IdField::Is(id) => Incoming::Cancelled { id },
        IdField::Absent | IdField::Unusable => Incoming::Ignored,
    }
}

fn response(id: Option<Id>, mut message: Map<String, Value>) -> Incoming {
    let said = match message.remove("result") {
        Some(result) => Ok(result),
        None => match serde_json::from_value(message.remove("error").unwrap_or_default()) {
            Ok(error) => Err(error),
            // A response is never answered.
            Err(_) => return Incoming::Ignored,
        },
    };
    Incoming::Response { id, said }
}

impl Request {
    /// Returns true for the handshake of the revisions up to 2025-11-25.
    pub(crate) fn is_handshake(&self) -> bool {
        matches!(self.content, ClientRequest::InitializeRequest(_))
    }

    /// Returns true for a tool call.
    pub(crate) fn is_call(&self) -> bool {
        matches!(self.content, ClientRequest::CallToolRequest(_))
    }

    /// Returns true if the request states revision 2026-07-28 or later; `None` if it states no
    /// revision. From that revision on, every request states it.
    pub(crate) fn is_modern(&self) -> Option<bool> {
        if self.is_handshake() {
            return Some(false);
        }
        let version = self.meta.protocol_version();
        version.map(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str())
    }
}

/// Builds a notification that withdraws a request of the server.
pub(crate) fn cancelled_notification(id: i64, reason: &str) -> Value {
    json!({
        "jsonrpc": "2.0",
        "method": "notifications/cancelled",
        "params": {"requestId": id, "reason": reason},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault_of(line: &[u8]) -> (Value, i32, String) {
        match decode(line) {
            Incoming::Fault { id, error } => (json!(id), error.code.0, error.message.into_owned()),
            other => panic!("{}: {other:?}", String::from_utf8_lossy(line)),
        }
    }

    #[test]
    fn what_is_no_json_is_a_parse_error() {
        for line in [&b"{"[..], b"{\"a\":\xff}", b"nonsense", b"\0", b"{\"jsonrpc\":\"2.0\"}}", b"1e999"] {
            let (id, code, message) = fault_of(line);
            assert_eq!((id, code), (Value::Null, -32700), "{message}");
        }
        assert!(fault_of(b"\"\xff\"").2.contains("UTF-8"));
        let deep = "[".repeat(100_000);
        assert_eq!(fault_of(deep.as_bytes()).1, -32700);
    }

    #[test]
    fn what_is_no_request_is_an_invalid_request_that_keeps_its_id() {
        for (line, id) in [
            ("1", Value::Null),
            ("null", Value::Null),
            ("[]", Value::Null),
            (r#"{"jsonrpc":"2.0","id":4}"#, json!(4)),
            (r#"{"jsonrpc":"1.0","id":"a","method":"ping"}"#, json!("a")),
            (r#"{"id":1.5,"method":"ping"}"#, json!(1.5)),
            (r#"{"jsonrpc":"2.0","id":1,"method":7}"#, json!(1)),
            (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, Value::Null),
            (r#"{"jsonrpc":"2.0","id":true,"method":"ping"}"#, Value::Null),
            (r#"{"jsonrpc":"2.0","id":[1],"method":"ping"}"#, Value::Null),
            (r#"{"jsonrpc":"2.0","id":{"a":1},"method":"ping"}"#, Value::Null),
        ] {
            let (answered, code, message) = fault_of(line.as_bytes());
            assert_eq!((answered, code), (id, -32600), "{line}: {message}");
        }
    }

    #[test]
    fn a_call_needs_a_name_and_params() {
        for params in [
            "[]",
            "null",
            "{}",
            r#"{"name":1}"#,
            r#"{"name":"x","_meta":[]}"#,
            r#"{"name":"x","requestState":{}}"#,
        ] {
            let line = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
            assert_eq!(fault_of(line.as_bytes()).1, -32602, "{line}");
        }
    }

    #[test]
    fn arguments_may_be_left_away_and_must_be_an_object_otherwise() {
        let call = |arguments: &str| {
            let line = format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"x"{arguments}}}}}"#
            );
            decode(line.as_bytes())
        };
        for (arguments, usable) in [
            ("", true),
            (r#","arguments":null"#, true),
            (r#","arguments":{}"#, true),
            (r#","arguments":[]"#, false),
            (r#","arguments":"{}""#, false),
        ] {
            let Incoming::Request { request, .. } = call(arguments) else { panic!("{arguments}") };
            assert_eq!(request.unusable.is_none(), usable, "{arguments}");
        }
    }

    #[test]
    fn responses_to_nothing_and_unknown_notifications_are_ignored() {
        for line in [
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/strange","params":[1]}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#,
            r#"{"jsonrpc":"2.0","id":1,"error":7}"#,
        ] {
            assert!(matches!(decode(line.as_bytes()), Incoming::Ignored), "{line}");
        }
    }
}
