//! The result of a call.

use jiff::Timestamp;
use serde::{Serialize, Serializer, ser::SerializeMap};
use serde_json::Value;

use crate::{CallId, Data, Presentation, ToolError};

/// Result of a call, identical through every door (design section 4).
#[derive(Debug)]
pub struct CallResult {
    /// Output of the tool, or its error.
    pub outcome: Outcome,
    /// Form in which a model sees the output.
    pub presentation: Presentation,
    /// Facts that the layers add about the call.
    pub meta: Meta,
    /// Reservation of the response among the bytes in flight. Dropping it releases the bytes, so a
    /// door keeps it until the response is written.
    pub held: ByteReservation,
}

/// Reservation of bytes for a response until its delivery.
#[derive(Default)]
pub struct ByteReservation(pub Option<Box<dyn std::any::Any + Send + Sync>>);

impl std::fmt::Debug for ByteReservation {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Held").field(&self.0.is_some()).finish()
    }
}

/// Tool's own part of a [`CallResult`].
#[derive(Debug)]
pub enum Outcome {
    /// The tool succeeded.
    Ok(Data),
    /// The tool failed; the error may carry data.
    Err(ToolError),
}

/// Facts that the layers add about a call.
#[derive(Debug, Clone, Serialize)]
pub struct Meta {
    /// Id of the call, as in the audit.
    pub call_id: CallId,
    /// Time at which the call arrived, RFC 3339.
    pub started_at: Timestamp,
    /// Time of the response, RFC 3339.
    pub ended_at: Timestamp,
    /// Time between arrival and response, in milliseconds.
    pub duration_ms: u64,
    /// `pass`, `check` or `deny`; absent if the call was refused before the policy was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<String>,
    /// Rule that decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Identity of the person who approved a `check`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approved_by: Option<String>,
    /// Limits that the cell enforced, if the call used one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Vec<String>>,
    /// Hosts that the commands of the call could reach, as `HOST:PORT`. What was sent there cannot be
    /// undone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reached: Vec<String>,
    /// Bytes of memory that the session's browser uses, if the call used it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub browser_bytes: Option<u64>,
    /// State of the changes that a command made to its snapshot of the workspace; absent without
    /// changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changes: Option<Changes>,
    /// Id of the checkpoint that undoes the call, if it made changes that can be undone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<String>,
    /// True if text in the response was shortened.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// Reference to the full text of the longest shortened output, for `output_read`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_ref: Option<String>,
    /// All shortened texts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<KeptOutput>,
    /// True if the response came from the cache.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cached: bool,
    /// Problems besides the call itself, such as an output that could not be kept.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl Meta {
    /// Creates the metadata of a call on arrival.
    pub fn arrived(call_id: CallId, at: Timestamp) -> Self {
        Self {
            call_id,
            started_at: at,
            ended_at: at,
            duration_ms: 0,
            decision: None,
            rule: None,
            approved_by: None,
            sandbox: None,
            reached: Vec::new(),
            browser_bytes: None,
            changes: None,
            checkpoint: None,
            truncated: false,
            output_ref: None,
            outputs: Vec::new(),
            cached: false,
            warnings: Vec::new(),
        }
    }
}

/// State of the changes that a command made to its snapshot of the workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Changes {
    /// State of the changes.
    pub state: ChangesState,
    /// Number of changed files, folders and links.
    pub paths: u64,
    /// Id for `handfast changes`, if the changes were kept aside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Paths that undoing does not restore: folders that tools can recreate.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unsaved: Vec<String>,
}

/// State of the changes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangesState {
    /// All changes are in the workspace.
    Committed,
    /// The changes are discarded, and the workspace is unchanged.
    Discarded,
    /// The changes are stored aside, and the workspace is unchanged.
    Kept,
}

/// Full text of one shortened output field.
#[derive(Debug, Clone, Serialize)]
pub struct KeptOutput {
    /// Field of `data` that was shortened.
    pub field: String,
    /// Reference for `output_read`.
    pub output_ref: String,
    /// Number of bytes that were produced.
    pub bytes: u64,
    /// Number of lines that were produced. A last line without a newline counts.
    pub lines: u64,
    /// Number of bytes that were kept; less than `bytes` only if the disk limit was reached.
    pub kept_bytes: u64,
}

impl CallResult {
    /// Returns true if the tool succeeded.
    pub fn ok(&self) -> bool {
        matches!(self.outcome, Outcome::Ok(_))
    }

    /// Returns the error of a failed call.
    pub fn error(&self) -> Option<&ToolError> {
        match &self.outcome {
            Outcome::Ok(_) => None,
            Outcome::Err(error) => Some(error),
        }
    }
}

impl CallResult {
    /// Returns the result as JSON. JSON that the tool has written already is copied unchanged.
    ///
    /// # Errors
    /// Returns the errors of [`serde_json::to_vec`].
    pub fn to_json(&self) -> serde_json::Result<Vec<u8>> {
        let Outcome::Ok(Data::Written(data)) = &self.outcome else { return serde_json::to_vec(self) };
        let mut text = Vec::with_capacity(data.as_str().len() + 512);
        text.extend_from_slice(br#"{"ok":true,"data":"#);
        text.extend_from_slice(data.as_str().as_bytes());
        text.extend_from_slice(br#","meta":"#);
        serde_json::to_writer(&mut text, &self.meta)?;
        text.push(b'}');
        Ok(text)
    }
}

impl Serialize for CallResult {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("ok", &self.ok())?;
        if let Some(error) = self.error() {
            map.serialize_entry("error", &WireError(error))?;
        }
        // `data` is the output of the tool, or the data that a failed call could still provide.
        match &self.outcome {
            Outcome::Ok(data) => map.serialize_entry("data", data)?,
            Outcome::Err(ToolError { data: Some(data), .. }) => map.serialize_entry("data", data)?,
            Outcome::Err(_) => {}
        }
        map.serialize_entry("meta", &self.meta)?;
        map.end()
    }
}

/// Error in the form of the `error` object (design section 4).
struct WireError<'a>(&'a ToolError);

impl Serialize for WireError<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let error = self.0;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("code", &error.code)?;
        map.serialize_entry("message", &error.message)?;
        if let Some(hint) = &error.hint {
            map.serialize_entry("hint", hint)?;
        }
        map.serialize_entry("effect", &error.effect)?;
        map.serialize_entry("retry", &error.retry)?;
        if let Some(approval) = &error.approval_id {
            map.serialize_entry("approval_id", approval)?;
        }
        map.end()
    }
}

impl ToolError {
    /// Returns the `error` object, identical through every door.
    pub fn to_wire(&self) -> Value {
        serde_json::to_value(WireError(self)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{Code, Presentation, RawJson};

    #[test]
    fn a_result_is_the_same_text_whether_its_data_was_written_or_is_a_tree() {
        let value = json!({"entries": ["ä\"\n", 1.5, null]});
        let outcomes = [
            Outcome::Ok(Data::Value(value.clone())),
            Outcome::Ok(Data::Written(RawJson::of(&value, 0).unwrap())),
            Outcome::Err(ToolError::new(Code::Timeout, "late").data(value)),
        ];
        let texts = outcomes.map(|outcome| {
            let meta = Meta::arrived(CallId("c".to_owned()), Timestamp::UNIX_EPOCH);
            let result = CallResult {
                outcome,
                meta,
                held: ByteReservation::default(),
                presentation: Presentation::Record,
            };
            let text = String::from_utf8(result.to_json().unwrap()).unwrap();
            assert_eq!(text, serde_json::to_string(&result).unwrap());
            text
        });
        assert_eq!(texts[0], texts[1]);
    }
}
