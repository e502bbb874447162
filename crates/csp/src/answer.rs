//! Answers: the lines that a result, or a request that cannot be read, comes to.

use serde_json::Value;
use tool::{CallResult, Changes, Code, Outcome, Retry, ToolError};

use crate::log::{LOG_REF, StreamKind};
use crate::request::Task;
use crate::summary::{LONGEST, Summary};
use crate::value::{bounded, is_plain, quoted, rest_of_line, token};

/// What a process exits with that may not be run (POSIX, 2.8.2), and what the source gives a call that was denied.
const NOT_PERMITTED: i64 = 126;

/// Warnings of one call that are told.
const MOST_WARNINGS: usize = 3;

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

    /// A line whose value is already in the form of an answer.
    fn add(&mut self, key: &str, value: &str) {
        self.0.push_str(&format!("{key} {value}\n"));
    }

    fn end(mut self) -> String {
        self.0.push('\n');
        self.0
    }
}

/// A command that was asked for.
pub(crate) struct Ran<'a> {
    /// The line, with secrets covered.
    pub(crate) command: &'a str,
    /// What it might take, in milliseconds.
    pub(crate) timeout: u64,
}

/// The answer to a request that is none.
pub(crate) fn unreadable(id: Option<&str>, problem: &str) -> String {
    let mut lines = Lines::begin("FAIL", id);
    lines.add("SCOPE", "[csp]");
    lines.add("DATA", "none");
    lines.add("ERROR", &format!("invalid_request:{}", token(&bounded(problem, LONGEST))));
    lines.end()
}

/// Why an operation that there is no tool for is refused.
pub(crate) fn missing(task: &Task) -> Option<(&'static str, ToolError)> {
    let (name, message) = match task {
        Task::Exec { .. } => return None,
        Task::Mcp { server } => ("mcp", format!("the MCP server {} is not there", bounded(server, 200))),
        Task::Other(name) => (*name, format!("the operation {name} is not there; exec is")),
    };
    Some((name, ToolError::new(Code::Unavailable, message)))
}

/// The answer to an operation that there is no tool for.
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

/// The answer to a command, of what its result says.
pub(crate) fn of_command(id: Option<&str>, ran: &Ran<'_>, result: &CallResult) -> serde_json::Result<String> {
    let held = data_of(result)?;
    let data = held.as_ref();
    let ended = Ended::of(ran, result, data);
    // What was summed up is its own summary.
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
    for warning in changes.chain(result.meta.warnings.iter().cloned()).take(MOST_WARNINGS) {
        lines.add("WARNING", &quoted(&bounded(&warning, LONGEST)));
    }
    Ok(lines.end())
}

/// The data of a result, be it an error's.
pub(crate) fn data_of(result: &CallResult) -> serde_json::Result<Option<Value>> {
    match &result.outcome {
        Outcome::Ok(data) => serde_json::to_value(data).map(Some),
        Outcome::Err(error) => Ok(error.data.clone()),
    }
}

/// What a stream of a command printed, as far as the data has it.
pub(crate) fn text_of(data: Option<&Value>, kind: StreamKind) -> &str {
    data.and_then(|data| data.get(kind.as_str())).and_then(Value::as_str).unwrap_or_default()
}

/// Whether the text of a stream is only a part although no whole is kept.
pub(crate) fn is_cut(result: &CallResult, kind: StreamKind) -> bool {
    let kept = result.meta.outputs.iter().find(|kept| kept.field == kind.as_str());
    match kept {
        Some(kept) => kept.kept_bytes < kept.bytes,
        None => result.meta.truncated && result.meta.outputs.is_empty(),
    }
}

/// How a command ended, in the words of an answer.
pub(crate) struct Ended {
    pub(crate) status: &'static str,
    scope: String,
    pub(crate) exit: String,
    error: Option<String>,
}

impl Ended {
    pub(crate) fn of(ran: &Ran<'_>, result: &CallResult, data: Option<&Value>) -> Self {
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

/// The name of the program that a line begins with; `shell` where that is none of a plain name.
fn program(command: &str) -> &str {
    let word = command.split_whitespace().next().unwrap_or_default();
    let name = word.rsplit('/').next().unwrap_or_default();
    if name.is_empty() || !word.chars().all(is_plain) { "shell" } else { name }
}

/// What a shell says that it may not run.
fn not_permitted(stderr: &str) -> Option<&str> {
    let line = stderr.lines().rev().find_map(|line| line.strip_suffix(": Permission denied"))?;
    line.rsplit(": ").next().filter(|path| !path.is_empty())
}

#[cfg(test)]
mod tests;
