use jiff::Timestamp;
use serde::{Serialize, Serializer, ser::SerializeMap};
use serde_json::Value;

use crate::{CallId, Data, Presentation, ToolError};

/// What comes back from a call, the same through every door (design section 4).
#[derive(Debug)]
pub struct CallResult {
    /// What the tool gave, or why it failed.
    pub outcome: Outcome,
    /// How the tool wants it shown to a model.
    pub presentation: Presentation,
    /// What the layers have to say about the call.
    pub meta: Meta,
    /// The answer's place among the bytes in flight; given back when this is dropped, so a door keeps it until it has
    /// written the answer.
    pub held: Held,
}

/// What an answer occupies until it was delivered.
#[derive(Default)]
pub struct Held(pub Option<Box<dyn std::any::Any + Send + Sync>>);

impl std::fmt::Debug for Held {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Held").field(&self.0.is_some()).finish()
    }
}

/// The tool's own part of a [`CallResult`].
#[derive(Debug)]
pub enum Outcome {
    /// The tool worked.
    Ok(Data),
    /// It did not; the error may carry data.
    Err(ToolError),
}

/// What the layers have to say about a call.
#[derive(Debug, Clone, Serialize)]
pub struct Meta {
    /// The call, as the audit names it.
    pub call_id: CallId,
    /// When the call arrived, RFC 3339.
    pub started_at: Timestamp,
    /// When it was answered, RFC 3339.
    pub ended_at: Timestamp,
    /// Between the two, in milliseconds.
    pub duration_ms: u64,
    /// `pass`, `check` or `deny`; absent where the call was refused before the policy was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<String>,
    /// The rule that decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Who said yes to a `check`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approved_by: Option<String>,
    /// What the cell really enforced, where one was used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Vec<String>>,
    /// What became of the changes that a command made to its snapshot of the workspace; absent where there were none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changes: Option<Changes>,
    /// What undoes the call, where something changed that can be undone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<String>,
    /// Whether text in the answer was shortened.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// The whole of the longest shortened text, for `output_read`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_ref: Option<String>,
    /// Every shortened text.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<KeptOutput>,
    /// Whether the answer came from the cache.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cached: bool,
    /// What went wrong beside the call itself, such as an output that could not be kept.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl Meta {
    /// What is known of a call when it arrives.
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

/// What became of the changes that a command made to its snapshot of the workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Changes {
    /// What became of them.
    pub state: ChangesState,
    /// How many files, folders and links they are.
    pub paths: u64,
    /// What `handfast changes` takes, where they were kept aside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// What undoing does not bring back: folders that tools make again.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unsaved: Vec<String>,
}

/// What became of changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangesState {
    /// They are in the workspace, all of them.
    Committed,
    /// They are gone, and the workspace is as it was.
    Discarded,
    /// They lie aside, and the workspace is as it was.
    Kept,
}

/// The whole of one shortened text.
#[derive(Debug, Clone, Serialize)]
pub struct KeptOutput {
    /// The field of `data` that was shortened.
    pub field: String,
    /// What `output_read` takes.
    pub output_ref: String,
    /// Bytes that were produced.
    pub bytes: u64,
    /// Lines that were produced; one without a newline at its end counts.
    pub lines: u64,
    /// Bytes that were kept; fewer than `bytes` only where the disk limit was reached.
    pub kept_bytes: u64,
}

impl CallResult {
    /// Whether the tool worked.
    pub fn ok(&self) -> bool {
        matches!(self.outcome, Outcome::Ok(_))
    }

    /// The error, if there is one.
    pub fn error(&self) -> Option<&ToolError> {
        match &self.outcome {
            Outcome::Ok(_) => None,
            Outcome::Err(error) => Some(error),
        }
    }
}

impl CallResult {
    /// The result as JSON. Data that its tool has written is passed on as it is.
    ///
    /// # Errors
    /// As [`serde_json::to_vec`].
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
        // The tool's output, or what a failed call could still give.
        match &self.outcome {
            Outcome::Ok(data) => map.serialize_entry("data", data)?,
            Outcome::Err(ToolError { data: Some(data), .. }) => map.serialize_entry("data", data)?,
            Outcome::Err(_) => {}
        }
        map.serialize_entry("meta", &self.meta)?;
        map.end()
    }
}

/// The `error` object of section 4 of the design.
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
    /// The `error` object that every door shows.
    pub fn to_wire(&self) -> Value {
        serde_json::to_value(WireError(self)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{Code, Presentation, Written};

    #[test]
    fn a_result_is_the_same_text_whether_its_data_was_written_or_is_a_tree() {
        let value = json!({"entries": ["ä\"\n", 1.5, null]});
        let outcomes = [
            Outcome::Ok(Data::Value(value.clone())),
            Outcome::Ok(Data::Written(Written::of(&value, 0).unwrap())),
            Outcome::Err(ToolError::new(Code::Timeout, "late").data(value)),
        ];
        let texts = outcomes.map(|outcome| {
            let meta = Meta::arrived(CallId("c".to_owned()), Timestamp::UNIX_EPOCH);
            let result =
                CallResult { outcome, meta, held: Held::default(), presentation: Presentation::Record };
            let text = String::from_utf8(result.to_json().unwrap()).unwrap();
            assert_eq!(text, serde_json::to_string(&result).unwrap());
            text
        });
        assert_eq!(texts[0], texts[1]);
    }
}
