//! The end of a command, as its result tells it: status, output streams and their completeness.

use serde_json::Value;
use tool::{CallResult, Code, Outcome};

use crate::summary::LONGEST;
use crate::value::{bounded, is_plain, rest_of_line};

/// Exit code of a command that may not be executed (POSIX, 2.8.2), and exit code that the source
/// gives to a denied call.
const NOT_PERMITTED: i64 = 126;

/// Name of the answer's field with the location of the full output.
pub(crate) const LOG_REF: &str = "log_ref";

/// The command that a request asked for.
pub(crate) struct RequestedCommand<'a> {
    /// Command line, with secrets covered.
    pub(crate) command: &'a str,
    /// Timeout in milliseconds.
    pub(crate) timeout: u64,
}

/// Kind of an output stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamKind {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl StreamKind {
    /// Returns the name of the stream's field in the result.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// Returns the data of a result. An error may carry data, too.
pub(crate) fn data_of(result: &CallResult) -> serde_json::Result<Option<Value>> {
    match &result.outcome {
        Outcome::Ok(data) => serde_json::to_value(data).map(Some),
        Outcome::Err(error) => Ok(error.data.clone()),
    }
}

/// Returns the text of one output stream in the data, or an empty string.
pub(crate) fn text_of(data: Option<&Value>, kind: StreamKind) -> &str {
    data.and_then(|data| data.get(kind.as_str())).and_then(Value::as_str).unwrap_or_default()
}

/// Returns true if the text of a stream is only a part of the output and no full copy is stored.
pub(crate) fn is_cut(result: &CallResult, kind: StreamKind) -> bool {
    let kept = result.meta.outputs.iter().find(|kept| kept.field == kind.as_str());
    match kept {
        Some(kept) => kept.kept_bytes < kept.bytes,
        None => result.meta.truncated && result.meta.outputs.is_empty(),
    }
}

/// The end of a command, in the words of an answer.
pub(crate) struct CommandEnd {
    pub(crate) status: &'static str,
    pub(crate) scope: String,
    pub(crate) exit: String,
    pub(crate) error: Option<String>,
}

impl CommandEnd {
    pub(crate) fn of(ran: &RequestedCommand<'_>, result: &CallResult, data: Option<&Value>) -> Self {
        let command = ran.command;
        let code = data.and_then(|data| data.get("exit_code")).and_then(Value::as_i64);
        let exit = |code: Option<i64>| code.map_or("null".to_owned(), |code| code.to_string());
        let fail = |code, kind: &str, what: &str| Self {
            status: "FAIL",
            scope: "shell".to_owned(),
            exit: exit(code),
            error: Some(format!("{kind}:{}", rest_of_line(&bounded(what, LONGEST)))),
        };
        let Some(error) = result.error() else {
            return match code {
                Some(0) => {
                    Self { status: "OK", scope: program(command).to_owned(), exit: exit(code), error: None }
                }
                Some(NOT_PERMITTED) => {
                    let stderr = data.and_then(|data| data.get("stderr")).and_then(Value::as_str);
                    let path = stderr.and_then(not_permitted).unwrap_or(command);
                    fail(code, "permission_denied", path)
                }
                _ => fail(code, "command_failed", command),
            };
        };
        let message = &error.message;
        match error.code {
            Code::Timeout => fail(None, "timeout_exceeded", &format!("{}ms", ran.timeout)),
            Code::Permission | Code::Approval if data.is_none() => {
                fail(Some(NOT_PERMITTED), "permission_denied", message)
            }
            Code::Permission | Code::Approval => fail(code, "permission_denied", message),
            Code::Validation => fail(None, "invalid_request", message),
            Code::Quota if data.is_none() => fail(None, "queue_full", message),
            Code::Quota => fail(code, "limit_exceeded", message),
            Code::Cancelled => fail(None, "cancelled", command),
            Code::NotFound | Code::Runtime | Code::Conflict | Code::Unavailable | Code::Internal => {
                fail(code, "command_failed", message)
            }
        }
    }
}

/// Returns the name of the program that a command line begins with, or `shell` if the first word
/// has characters that are not plain.
fn program(command: &str) -> &str {
    let word = command.split_whitespace().next().unwrap_or_default();
    let name = word.rsplit('/').next().unwrap_or_default();
    if name.is_empty() || !word.chars().all(is_plain) { "shell" } else { name }
}

/// Returns the path in the last `Permission denied` line of a shell's standard error.
fn not_permitted(stderr: &str) -> Option<&str> {
    let line = stderr.lines().rev().find_map(|line| line.strip_suffix(": Permission denied"))?;
    line.rsplit(": ").next().filter(|path| !path.is_empty())
}
