//! Converts the MCP response that a model sees to the data and the error of the other doors.

#![allow(dead_code, reason = "each test program uses its own part of this")]

use serde_json::{Map, Value, json};

/// Beginnings of the lines that Handfast adds to the output of a command.
const OWN_LINES: [&str; 11] = [
    "[exit code ",
    "[session_id ",
    "[no output]",
    "[timed_out]",
    "[waiting_for_input]",
    "[warning: ",
    "[checkpoint ",
    "[the ",
    "[not saved",
    "[kept aside",
    "[discarded",
];

/// Returns the data of a tool's response, which MCP shows as structure, record, text or command
/// output. A text becomes the field `content`, under any tool.
#[track_caller]
pub(crate) fn data_of(tool: &str, result: &Value) -> Value {
    if result["structuredContent"].is_object() {
        return result["structuredContent"].clone();
    }
    let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {result:#}"));
    if tool == "shell_execute" {
        return of_command(text);
    }
    if let Ok(record) = serde_json::from_str(text) {
        return record;
    }
    let (fields, content) = text.split_once('\n').unwrap_or_else(|| panic!("no record: {result:#}"));
    let fields = fields.strip_prefix("[about ").and_then(|fields| fields.strip_suffix(']'));
    let fields = fields.and_then(|fields| serde_json::from_str(fields).ok());
    let mut data: Value = fields.unwrap_or_else(|| panic!("no record: {result:#}"));
    data["content"] = content.into();
    data
}

/// Returns the output of a command that ended, in the form of the other doors. Output without a
/// final newline gains one.
pub(crate) fn of_command(text: &str) -> Value {
    let mut data = Map::new();
    let mut rest = text;
    let mut code = json!(0);
    let is_own = |line: &&str| OWN_LINES.iter().any(|own| line.starts_with(own));
    // The lines of a long output stand first, those of a short one last.
    let is_long = text.len() > 8_000;
    while let Some(line) = if is_long { rest.lines().next() } else { rest.lines().last() }.filter(is_own) {
        rest = if is_long {
            rest[line.len()..].trim_start_matches('\n')
        } else {
            &rest[..rest.trim_end_matches('\n').len() - line.len()]
        };
        let value = |before: &str| Some(line.strip_prefix(before)?.trim_end_matches(']'));
        if let Some(number) = value("[exit code ").and_then(|number| number.parse::<i64>().ok()) {
            code = json!(number);
        }
        if let Some(id) = value("[session_id ") {
            data.insert("session_id".to_owned(), id.into());
            code = Value::Null;
        }
    }
    let mut part = |mark: &str| {
        let at = if rest.starts_with(&mark[1..]) { Some(0) } else { rest.find(mark).map(|at| at + 1) };
        let (before, behind) =
            at.map_or((rest, None), |at| (&rest[..at], Some(&rest[at + mark.len() - 1..])));
        rest = before;
        behind
    };
    let (diff, stderr) = (part("\n[diff]\n"), part("\n[stderr]\n"));
    if let Some(diff) = diff {
        data.insert("diff".to_owned(), diff.into());
    }
    data.insert("stdout".to_owned(), rest.into());
    data.insert("stderr".to_owned(), stderr.unwrap_or_default().into());
    data.insert("exit_code".to_owned(), code);
    Value::Object(data)
}

/// Returns the error of a response: the code from its field for programs, and message and hint from
/// the text.
#[track_caller]
pub(crate) fn error_of(result: &Value) -> Value {
    let mut error = result["_meta"]["handfast/error"].clone();
    let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {result:#}"));
    let notes = text.find("\n[").unwrap_or(text.len());
    let (message, hint) = text[..notes].split_once("\nHint: ").unwrap_or((&text[..notes], ""));
    let code = error["code"].as_str().unwrap_or_else(|| panic!("no error: {result:#}"));
    error["message"] = message.strip_prefix(&format!("{code}: ")).unwrap_or(message).into();
    if !hint.is_empty() {
        error["hint"] = hint.into();
    }
    error
}
