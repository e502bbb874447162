//! Messages of JSON-RPC, as they come from a server.

use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::error::{ClientError, CloseReason, line};

/// Maximum number of messages in one array.
const LONGEST_BATCH: usize = 64;

/// Maximum length of the id of a request, in bytes.
const LONGEST_ID: usize = 1024;

/// Maximum length of the data of an error, in bytes of JSON.
const LONGEST_DATA: usize = 8 * 1024;

/// Message of a server.
#[derive(Debug)]
pub(crate) enum Message {
    /// Answer to a request of this client; `None` for an id that this client never gives.
    Answer { id: Option<u64>, outcome: Result<Box<RawValue>, RpcError> },
    /// Request of the server.
    Request { id: Box<RawValue>, method: String, params: Option<Box<RawValue>> },
    /// Notification of the server.
    Notification { method: String, params: Option<Box<RawValue>> },
}

/// Error of JSON-RPC.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct RpcError {
    #[serde(default)]
    pub(crate) code: i64,
    #[serde(default)]
    pub(crate) message: String,
    #[serde(default)]
    pub(crate) data: Option<Value>,
}

impl RpcError {
    /// Converts the error of a server to that of a request. Long data is left out.
    pub(crate) fn into_refusal(self, method: &str) -> ClientError {
        let data = self.data.filter(|data| data.to_string().len() <= LONGEST_DATA);
        ClientError::Refused {
            method: method.to_owned(),
            code: self.code,
            message: line(&self.message),
            data,
        }
    }
}

#[derive(Deserialize)]
struct Envelope {
    #[serde(default)]
    jsonrpc: Option<String>,
    #[serde(default, deserialize_with = "present")]
    id: Option<Box<RawValue>>,
    #[serde(default)]
    method: Option<String>,
    #[serde(default)]
    params: Option<Box<RawValue>>,
    #[serde(default, deserialize_with = "present")]
    result: Option<Box<RawValue>>,
    #[serde(default)]
    error: Option<RpcError>,
}

/// Reads a field that is there, null included.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(deserializer).map(Some)
}

/// Reads one line or event. An array is read only if the revision has batches.
///
/// # Errors
/// A reason to close the connection: after a message that cannot be read, nobody knows which answer was lost.
pub(crate) fn decode(bytes: &[u8], batches: bool) -> Result<Vec<Message>, CloseReason> {
    let malformed =
        |problem: &dyn std::fmt::Display| CloseReason::Malformed { problem: line(&problem.to_string()) };
    if tool::holds_too_many_values(bytes) {
        return Err(CloseReason::TooManyValues { limit: tool::MAX_JSON_VALUES });
    }
    let text = std::str::from_utf8(bytes).map_err(|_| malformed(&"it is not UTF-8"))?;
    if !text.trim_start().starts_with('[') {
        let envelope = serde_json::from_str(text).map_err(|error| malformed(&error))?;
        return Ok(vec![message(envelope)?]);
    }
    if !batches {
        return Err(malformed(&"it is an array of messages, which this revision does not have"));
    }
    let all: Vec<Envelope> = serde_json::from_str(text).map_err(|error| malformed(&error))?;
    if all.len() > LONGEST_BATCH {
        return Err(malformed(&format!("it is an array of more than {LONGEST_BATCH} messages")));
    }
    all.into_iter().map(message).collect()
}

fn message(envelope: Envelope) -> Result<Message, CloseReason> {
    let malformed = |problem: &str| Err(CloseReason::Malformed { problem: problem.to_owned() });
    if envelope.jsonrpc.as_deref() != Some("2.0") {
        return malformed("`jsonrpc` is not \"2.0\"");
    }
    match envelope {
        Envelope { method: Some(method), id: None, params, result: None, error: None, .. } => {
            Ok(Message::Notification { method, params })
        }
        Envelope { method: Some(method), id: Some(id), params, result: None, error: None, .. } => {
            // The id goes back with the answer.
            let is_id = matches!(id.get().as_bytes().first(), Some(b'"' | b'-' | b'0'..=b'9'));
            if is_id && id.get().len() <= LONGEST_ID {
                Ok(Message::Request { id, method, params })
            } else {
                malformed("the id of a request is neither a short text nor a number")
            }
        }
        Envelope { method: None, id, result: Some(result), error: None, .. } => {
            Ok(Message::Answer { id: own_id(id.as_deref()), outcome: Ok(result) })
        }
        Envelope { method: None, id, result: None, error: Some(error), .. } => {
            Ok(Message::Answer { id: own_id(id.as_deref()), outcome: Err(error) })
        }
        _ => malformed("it is neither a request nor a notification nor an answer"),
    }
}

/// Returns the id as this client gives them: an integer.
fn own_id(id: Option<&RawValue>) -> Option<u64> {
    id?.get().parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn shown(text: &str) -> String {
        match decode(text.as_bytes(), true) {
            Ok(messages) => format!("{} {messages:?}", messages.len()),
            Err(reason) => reason.to_string(),
        }
    }

    #[test]
    fn the_kinds_of_messages_are_told_apart() {
        assert!(shown(r#"{"jsonrpc":"2.0","id":7,"result":null}"#).starts_with("1 [Answer { id: Some(7)"));
        assert!(
            shown(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}"#)
                .contains("id: None")
        );
        assert!(
            shown(r#"{"jsonrpc":"2.0","id":"7","result":{}}"#).contains("id: None"),
            "an own id is a number"
        );
        assert!(shown(r#"{"jsonrpc":"2.0","id":"a","method":"ping"}"#).starts_with("1 [Request"));
        assert!(shown(r#" {"jsonrpc":"2.0","method":"x","params":{}}"#).starts_with("1 [Notification"));
        assert!(
            shown(r#"[{"jsonrpc":"2.0","method":"x"},{"jsonrpc":"2.0","id":1,"result":1}]"#).starts_with('2')
        );
    }

    #[test]
    fn messages_that_mean_nothing_or_two_things_are_refused() {
        for bad in [
            r#"{"jsonrpc":"2.0","id":1,"result":1,"error":{"code":1,"message":""}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":1,"result":2}"#,
            r#"{"jsonrpc":"2.0","id":1,"id":2,"result":1}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"x","result":1}"#,
            r#"{"jsonrpc":"2.0","id":null,"method":"x"}"#,
            r#"{"jsonrpc":"1.0","id":1,"result":1}"#,
            r#"{"jsonrpc":"2.0"}"#,
            r#"{"jsonrpc":"2.0","id":1,"resu"#,
            "1",
        ] {
            assert!(
                shown(bad).starts_with("the server sent a message that is not valid"),
                "{bad}: {}",
                shown(bad)
            );
        }
        assert!(matches!(
            decode(b"{\"jsonrpc\":\"2.0\",\"method\":\"\xff\"}", false),
            Err(CloseReason::Malformed { .. })
        ));
        assert!(matches!(
            decode(br#"[{"jsonrpc":"2.0","method":"x"}]"#, false),
            Err(CloseReason::Malformed { .. })
        ));
        let long = json!({"jsonrpc": "2.0", "id": "x".repeat(LONGEST_ID), "method": "ping"}).to_string();
        assert!(matches!(decode(long.as_bytes(), false), Err(CloseReason::Malformed { .. })));
        let many = format!("[{}1]", "1,".repeat(65));
        assert!(matches!(decode(many.as_bytes(), true), Err(CloseReason::Malformed { .. })));
        let values =
            format!(r#"{{"jsonrpc":"2.0","id":1,"result":[{}1]}}"#, "1,".repeat(tool::MAX_JSON_VALUES));
        assert!(matches!(decode(values.as_bytes(), false), Err(CloseReason::TooManyValues { .. })));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200), text in "[\\[{}\\]\":,a-z0-9\\\\ ]{0,80}") {
            let _ = decode(&bytes, true);
            let _ = decode(text.as_bytes(), true);
        }
    }
}
