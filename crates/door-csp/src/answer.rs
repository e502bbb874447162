//! Formats answers: the protocol lines for a result, or for a request that cannot be read.

use serde_json::Value;
use tool::{CallResult, Changes, Code, Retry, ToolError};

use crate::command_end::{CommandEnd, LOG_REF, RequestedCommand, StreamKind, data_of, is_cut, text_of};
use crate::request::Task;
use crate::summary::{LONGEST, Summary};
use crate::value::{bounded, quoted, rest_of_line, token};

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

    /// Appends what every call may have: its checkpoint, the help of its error, and warnings.
    fn add_notes(&mut self, result: &CallResult) {
        if result.meta.cached {
            self.add("CACHED", "true");
        }
        if let Some(checkpoint) = &result.meta.checkpoint {
            self.add("CHECKPOINT", &token(checkpoint));
        }
        if let Some(error) = result.error() {
            if let Some(approval) = &error.approval_id {
                self.add("APPROVAL_ID", &token(approval));
            }
            if let Some(hint) = &error.hint {
                self.add("HINT", &quoted(&bounded(hint, LONGEST)));
            }
            if let Retry::AfterMs(after) = error.retry {
                self.add("RETRY_AFTER_MS", &after.to_string());
            }
        }
        let changes = result.meta.changes.iter().flat_map(Changes::notes);
        for warning in changes.chain(result.meta.warnings.iter().cloned()).take(MAX_WARNINGS) {
            self.add("WARNING", &quoted(&bounded(&warning, LONGEST)));
        }
    }

    /// Appends the error of an action. `otherwise` is the kind of errors that the source does not name.
    fn add_error(&mut self, error: &ToolError, otherwise: &str) {
        let kind = match error.code {
            Code::Timeout => "timeout_exceeded",
            Code::Permission | Code::Approval => "permission_denied",
            Code::Validation => "invalid_request",
            Code::Quota => "queue_full",
            Code::Cancelled => "cancelled",
            Code::NotFound | Code::Runtime | Code::Conflict | Code::Unavailable | Code::Internal => otherwise,
        };
        self.add("ERROR", &format!("{kind}:{}", rest_of_line(&bounded(&error.message, LONGEST))));
    }

    fn end(mut self) -> String {
        self.0.push('\n');
        self.0
    }
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
        Task::Exec { .. } | Task::Act { .. } | Task::Mcp { .. } => return None,
        Task::Other(name) => {
            (*name, format!("the operation {name} is not there; exec, browser, cron and mcp are"))
        }
    };
    Some((name, ToolError::new(Code::Unavailable, message)))
}

/// Builds the answer to an operation that no tool implements.
pub(crate) fn unavailable(id: Option<&str>, task: &Task) -> String {
    let mut lines = Lines::begin("FAIL", id);
    let (scope, error) = match task {
        Task::Mcp { server, .. } => ("mcp", format!("mcp_unavailable:{}", token(&bounded(server, 200)))),
        Task::Other(name) => (*name, format!("unsupported:{name}")),
        Task::Exec { .. } => ("shell", "unsupported:exec".to_owned()),
        Task::Act { operation, .. } => (*operation, format!("unsupported:{operation}")),
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
    lines.add_notes(result);
    Ok(lines.end())
}

/// Builds the answer to an action in the browser from the result of its call. `action` is the action of
/// the request, with secrets covered.
pub(crate) fn of_browser(id: Option<&str>, action: &str, result: &CallResult) -> serde_json::Result<String> {
    let held = data_of(result)?;
    let data = held.as_ref().filter(|_| result.error().is_none());
    let text = |field: &str| data.and_then(|data| data.get(field)).and_then(Value::as_str);
    let switch = |field: &str| data.and_then(|data| data.get(field)).and_then(Value::as_bool);
    let is_partial = result.meta.truncated || switch("loaded") == Some(false);
    let status = match result.error() {
        Some(_) => "FAIL",
        None if is_partial => "PARTIAL",
        None => "OK",
    };
    let mut lines = Lines::begin(status, id);
    lines.add("SCOPE", "[browser]");
    let mut facts = format!("action:{}", token(&bounded(action, LONGEST)));
    for field in ["page_changed", "loaded"] {
        if let Some(value) = switch(field) {
            facts.push_str(&format!(",{field}:{value}"));
        }
    }
    for field in ["url", "title"] {
        if let Some(value) = text(field) {
            facts.push_str(&format!(",{field}:{}", token(&bounded(value, LONGEST))));
        }
    }
    lines.add("DATA", &facts);
    if let Some(error) = result.error() {
        lines.add_error(error, "browser_failed");
    }
    if data.is_some() {
        lines.add("EXEC_TIME", &result.meta.duration_ms.to_string());
    }
    for (field, key) in [("screenshot_ref", "SCREENSHOT_REF"), ("log_ref", "LOG_REF")] {
        if let Some(reference) = text(field) {
            lines.add(key, &token(reference));
        }
    }
    if let Some(text) = text("text") {
        let mut sum = Summary::default();
        sum.push(text.as_bytes());
        lines.add("TEXT_SUMMARY", &quoted(&sum.finish()));
    }
    lines.add_notes(result);
    Ok(lines.end())
}

/// Builds the answer to a call of a tool of an MCP server from the result of the call.
pub(crate) fn of_mcp(id: Option<&str>, server: &str, result: &CallResult) -> serde_json::Result<String> {
    let held = data_of(result)?;
    let data = held.as_ref().filter(|_| result.error().is_none());
    let status = match result.error() {
        Some(_) => "FAIL",
        None if result.meta.truncated => "PARTIAL",
        None => "OK",
    };
    let mut lines = Lines::begin(status, id);
    let server = token(&bounded(server, 200));
    if let Some(error) = result.error() {
        let is_missing = matches!(error.code, Code::NotFound | Code::Unavailable);
        lines.add("SCOPE", &if is_missing { "[mcp]".to_owned() } else { format!("[{server}]") });
        lines.add("DATA", "none");
        if is_missing {
            lines.add("ERROR", &format!("mcp_unavailable:{server}"));
        } else {
            lines.add_error(error, "mcp_failed");
        }
    } else {
        lines.add("SCOPE", &format!("[{server}]"));
        let text = |field: &str| data.and_then(|data| data.get(field)).and_then(Value::as_str);
        let mut sum = Summary::default();
        sum.push(text("text").or(text("structured")).unwrap_or_default().as_bytes());
        lines.add("DATA", &quoted(&sum.finish()));
        lines.add("EXEC_TIME", &result.meta.duration_ms.to_string());
    }
    lines.add_notes(result);
    Ok(lines.end())
}

/// Builds the answer to an action on cron jobs from the result of its call. `action` is the action of the
/// request.
pub(crate) fn of_cron(id: Option<&str>, action: &str, result: &CallResult) -> serde_json::Result<String> {
    let held = data_of(result)?;
    let data = held.as_ref().filter(|_| result.error().is_none());
    let mut lines = Lines::begin(if data.is_some() { "OK" } else { "FAIL" }, id);
    lines.add("SCOPE", "[cron]");
    let number = |field: &str| data.and_then(|data| data.get(field)).and_then(Value::as_u64);
    let facts = ["jobs", "active", "disabled"].into_iter();
    let facts: Vec<String> = facts.filter_map(|field| Some(format!("{field}:{}", number(field)?))).collect();
    lines.add("DATA", if facts.is_empty() { "none".to_owned() } else { facts.join(",") }.as_str());
    if let Some(error) = result.error() {
        lines.add_error(error, "cron_failed");
    }
    let text = |field: &str| data.and_then(|data| data.get(field)).and_then(Value::as_str);
    let key = match action {
        "add" => "JOB_ADDED",
        "remove" => "JOB_REMOVED",
        "enable" => "JOB_ENABLED",
        _ => "JOB_DISABLED",
    };
    if let Some(job) = text("job_id") {
        lines.add(key, &token(job));
    }
    for (field, key) in [("schedule", "SCHEDULE"), ("next_run", "NEXT_RUN")] {
        if let Some(value) = text(field) {
            lines.add(key, &token(value));
        }
    }
    if let Some(jobs) = data.and_then(|data| data.get("list")).and_then(Value::as_array) {
        let mut sum = Summary::default();
        for job in jobs {
            let of = |field: &str| job.get(field).and_then(Value::as_str).unwrap_or_default();
            sum.push(format!("{}: {}, {}\n", of("job_id"), of("schedule"), of("status")).as_bytes());
        }
        lines.add("JOBS_SUMMARY", &quoted(&sum.finish()));
    }
    lines.add_notes(result);
    Ok(lines.end())
}

#[cfg(test)]
mod tests;
