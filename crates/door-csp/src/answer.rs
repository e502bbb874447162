//! Formats answers: the protocol lines for a result, or for a request that cannot be read.

use serde_json::Value;
use tool::{CallResult, Changes, Code, Outcome, Retry, ToolError};

use crate::log::{LOG_REF, StreamKind};
use crate::request::Task;
use crate::summary::{LONGEST, Summary};
use crate::value::{bounded, is_plain, quoted, rest_of_line, token};

/// Exit code of a command that may not be executed (POSIX, 2.8.2), and exit code that the source
/// gives to a denied call.
const NOT_PERMITTED: i64 = 126;

/// Maximum number of `WARNING` lines in one answer.
const MAX_WARNINGS: usize = 3;

/// The lines of an answer.
struct Lines(String);

impl Lines {
    fn begin(status: &str, id: Option<&str>) -> Self {
        let mut lines = Self(format!("STATUS {status}\n"));
        if let Some(id) = id {
            lines.add("ID", &token(id));
        }
        lines
    }

    /// Appends one line. `value` is already in the form that answers use.
    fn add(&mut self, key: &str, value: &str) {
        self.0.push_str(&format!("{key} {value}\n"));
    }

    fn end(mut self) -> String {
        self.0.push('\n');
        self.0
    }
}

/// The command that a request asked for.
pub(crate) struct RequestedCommand<'a> {
    /// Command line, with secrets covered.
    pub(crate) command: &'a str,
    /// Timeout in milliseconds.
    pub(crate) timeout: u64,
}

/// Builds the answer to a request that cannot be read.
pub(crate) fn unreadable(id: Option<&str>, problem: &str) -> String {
    let mut lines = Lines::begin("FAIL", id);
    lines.add("SCOPE", "[csp]");
    lines.add("DATA", "none");
    lines.add("ERROR", &format!("invalid_request:{}", token(&bounded(problem, LONGEST))));
    lines.end()
}

/// Returns the error for an operation that no tool implements.
pub(crate) fn missing(task: &Task) -> Option<(&'static str, ToolError)> {
    let (name, message) = match task {
        Task::Exec { .. } => return None,
        Task::Mcp { server } => ("mcp", format!("the MCP server {} is not there", bounded(server, 200))),
        Task::Other(name) => (*name, format!("the operation {name} is not there; exec is")),
    };
    Some((name, ToolError::new(Code::Unavailable, message)))
}

/// Builds the answer to an operation that no tool implements.
pub(crate) fn unavailable(id: Option<&str>, task: &Task) -> String {
    let mut lines = Lines::begin("FAIL", id);
    let (scope, error) = match task {
        Task::Mcp { server } => ("mcp", format!("mcp_unavailable:{}", token(&bounded(server, 200)))),
        Task::Other(name) => (*name, format!("unsupported:{name}")),
        Task::Exec { .. } => ("shell", "unsupported:exec".to_owned()),
    };
    lines.add("SCOPE", &format!("[{scope}]"));
    lines.add("DATA", "none");
    lines.add("ERROR", &error);
    lines.end()
}

/// Builds the answer to a command from the result of its call.
pub(crate) fn of_command(
    id: Option<&str>,
    ran: &RequestedCommand<'_>,
    result: &CallResult,
) -> serde_json::Result<String> {
    let held = data_of(result)?;
    let data = held.as_ref();
    let ended = CommandEnd::of(ran, result, data);
    // A text that is a summary already stays unchanged.
    let summary = |kind: StreamKind| {
        let mut sum = Summary::default();
        sum.push(text_of(data, kind).as_bytes());
        sum.finish()
    };
    let (stdout, stderr) = (summary(StreamKind::Stdout), summary(StreamKind::Stderr));
    let is_partial = [StreamKind::Stdout, StreamKind::Stderr].iter().any(|kind| is_cut(result, *kind));
    let reference = data.and_then(|data| data.get(LOG_REF)).and_then(Value::as_str);

    let status = if is_partial && ended.status == "OK" { "PARTIAL" } else { ended.status };
    let mut lines = Lines::begin(status, id);
    lines.add("SCOPE", &format!("[{}]", ended.scope));
    lines.add("DATA", &format!("exit:{}", ended.exit));
    let time = data.and_then(|data| data.get("exec_time")).and_then(Value::as_u64);
    let time = data.map(|_| time.unwrap_or(result.meta.duration_ms).to_string());
    if let Some(error) = &ended.error {
        lines.add("ERROR", error);
        if error.starts_with("timeout_exceeded") {
            lines.add("COMMAND", &quoted(&bounded(ran.command, LONGEST)));
        }
    }
    if let Some(time) = time {
        lines.add("EXEC_TIME", &time);
        lines.add("STDOUT_SUMMARY", &quoted(&stdout));
        lines.add("STDERR_SUMMARY", &quoted(&stderr));
    }
    if let Some(reference) = reference {
        lines.add("LOG_REF", &token(reference));
    }
    if result.meta.cached {
        lines.add("CACHED", "true");
    }
    if let Some(checkpoint) = &result.meta.checkpoint {
        lines.add("CHECKPOINT", &token(checkpoint));
    }
    if let Some(error) = result.error() {
        if let Some(approval) = &error.approval_id {
            lines.add("APPROVAL_ID", &token(approval));
        }
        if let Some(hint) = &error.hint {
            lines.add("HINT", &quoted(&bounded(hint, LONGEST)));
        }
        if let Retry::AfterMs(after) = error.retry {
            lines.add("RETRY_AFTER_MS", &after.to_string());
        }
    }
    let changes = result.meta.changes.iter().flat_map(Changes::notes);
    for warning in changes.chain(result.meta.warnings.iter().cloned()).take(MAX_WARNINGS) {
        lines.add("WARNING", &quoted(&bounded(&warning, LONGEST)));
    }
    Ok(lines.end())
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
    scope: String,
    pub(crate) exit: String,
    error: Option<String>,
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

#[cfg(test)]
mod tests;
