//! The shapes of messages: a call, an answer, an event.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::id::SessionId;

/// A call as it is written.
#[derive(Serialize)]
pub(crate) struct Call<'a, P> {
    pub(crate) id: u64,
    pub(crate) method: &'a str,
    pub(crate) params: P,
    #[serde(rename = "sessionId", skip_serializing_if = "Option::is_none")]
    pub(crate) session: Option<&'a SessionId>,
}

/// A message from the browser: an answer if it has an id, an event if it has a method.
#[derive(Deserialize)]
pub(crate) struct Incoming<'a> {
    #[serde(default)]
    pub(crate) id: Option<u64>,
    #[serde(default)]
    pub(crate) method: Option<String>,
    #[serde(default, rename = "sessionId")]
    pub(crate) session: Option<SessionId>,
    #[serde(default, borrow)]
    pub(crate) params: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pub(crate) result: Option<&'a RawValue>,
    #[serde(default)]
    pub(crate) error: Option<Refusal>,
}

/// An error as the browser reports it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Refusal {
    pub(crate) code: i64,
    pub(crate) message: String,
    pub(crate) data: Option<String>,
}

impl Refusal {
    /// Returns the message with its details.
    pub(crate) fn text(self) -> String {
        match self.data {
            Some(data) if !data.is_empty() => format!("{}: {data}", self.message),
            _ => self.message,
        }
    }
}

/// Returns the id at the beginning of an answer, of which only the first bytes are there.
pub(crate) fn id_in_head(head: &[u8]) -> Option<u64> {
    let digits = head.strip_prefix(b"{\"id\":")?;
    let length = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(digits.get(..length)?).ok()?.parse().ok()
}
