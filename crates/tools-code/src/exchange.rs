//! The lines between a script and Handfast.
//!
//! A script is a stranger: each of its lines has a bound, and one that is no message is answered with an error.

use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tool::{CallResult, Code, Outcome, ToolError};

/// Maximum number of bytes of one line.
pub(crate) const LONGEST_LINE: usize = 8 * 1024 * 1024;

/// Message of a script.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// Request for a call.
    Call { tool: String, arguments: Value },
    /// Path of the program that runs the script.
    Program(PathBuf),
    /// End of the script, with its exit code.
    End(i64),
    /// A line that is no message, with the reason.
    Garbage(String),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Call {
        tool: String,
        #[serde(default)]
        arguments: Map<String, Value>,
    },
    Program {
        program: PathBuf,
    },
    End {
        end: u8,
    },
}

impl Message {
    /// Reads a line without its end.
    pub(crate) fn of(line: &[u8]) -> Self {
        match serde_json::from_slice(line) {
            Ok(Line::Call { tool, arguments }) => Self::Call { tool, arguments: Value::Object(arguments) },
            Ok(Line::Program { program }) => Self::Program(program),
            Ok(Line::End { end }) => Self::End(i64::from(end)),
            Err(_) => {
                Self::Garbage("the line asks for no call: {\"tool\": NAME, \"arguments\": {}}".to_owned())
            }
        }
    }
}

/// Lines in the order in which a script writes them.
#[derive(Default)]
pub(crate) struct Lines {
    bytes: Vec<u8>,
    /// Number of the first bytes that contain no end of a line.
    searched: usize,
}

impl Lines {
    /// Adds bytes. Returns false if a line is too long.
    pub(crate) fn add(&mut self, bytes: &[u8]) -> bool {
        self.bytes.extend_from_slice(bytes);
        self.bytes.len() <= LONGEST_LINE || memchr::memchr(b'\n', &self.bytes).is_some()
    }

    /// Takes the next whole line.
    pub(crate) fn take(&mut self) -> Option<Message> {
        let Some(end) = memchr::memchr(b'\n', &self.bytes[self.searched..]) else {
            self.searched = self.bytes.len();
            return None;
        };
        let end = self.searched + end;
        let message = Message::of(&self.bytes[..end]);
        self.bytes.drain(..=end);
        self.searched = 0;
        Some(message)
    }
}

/// Returns the line that answers a call.
pub(crate) fn answer(result: &CallResult) -> Vec<u8> {
    match &result.outcome {
        Outcome::Ok(data) => {
            let data = serde_json::to_string(data).unwrap_or_else(|_| "null".to_owned());
            format!("{{\"data\":{data}}}\n").into_bytes()
        }
        Outcome::Err(error) => refusal(error),
    }
}

/// Returns the line that answers with an error.
pub(crate) fn refusal(error: &ToolError) -> Vec<u8> {
    let mut shown = json!({"code": error.code, "message": error.message});
    if let Some(hint) = &error.hint {
        shown["hint"] = json!(hint);
    }
    if let Some(data) = &error.data {
        shown["data"] = data.clone();
    }
    if let Some(approval) = &error.approval_id {
        shown["data"]["approval_id"] = json!(approval);
    }
    format!("{}\n", json!({ "error": shown })).into_bytes()
}

/// Returns the error for a line that is no message.
pub(crate) fn garbage(reason: String) -> ToolError {
    ToolError::new(Code::Validation, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_call_the_end_or_garbage() {
        let call = Message::Call { tool: "a".to_owned(), arguments: json!({"b": 1}) };
        assert_eq!(Message::of(br#"{"tool": "a", "arguments": {"b": 1}}"#), call);
        assert_eq!(
            Message::of(br#"{"tool": "a"}"#),
            Message::Call { tool: "a".to_owned(), arguments: json!({}) }
        );
        assert_eq!(Message::of(br#"{"end": 3}"#), Message::End(3));
        for line in [
            "",
            "{",
            "7",
            "[]",
            "{}",
            r#"{"tool": 7}"#,
            r#"{"tool": "a", "arguments": []}"#,
            r#"{"end": 300}"#,
            "\u{0}",
        ] {
            assert!(matches!(Message::of(line.as_bytes()), Message::Garbage(_)), "{line}");
        }
    }

    #[test]
    fn lines_come_in_any_pieces_and_none_is_endless() {
        let mut lines = Lines::default();
        for byte in b"{\"end\": 1}\n{\"end\"" {
            assert!(lines.add(&[*byte]));
        }
        assert_eq!((lines.take(), lines.take()), (Some(Message::End(1)), None));
        assert!(lines.add(b": 2}\n{\"end\": 3}\n"));
        assert_eq!(
            (lines.take(), lines.take(), lines.take()),
            (Some(Message::End(2)), Some(Message::End(3)), None)
        );
        let piece = vec![b'x'; 1024 * 1024];
        let pieces = (0..100).take_while(|_| lines.add(&piece)).count();
        assert_eq!(pieces, LONGEST_LINE / piece.len());
    }
}
