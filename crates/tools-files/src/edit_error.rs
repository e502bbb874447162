//! Errors for a text or a hunk that does not match a file, with the most similar places.

use edit::{Near, ReplaceError};
use serde_json::{Value, json};
use tool::{Code, Retry, ToolError};

pub(crate) fn changed_since(shown: &str, now: &str) -> ToolError {
    ToolError::new(Code::Conflict, format!("{shown} changed since that `version` was read"))
        .hint("read the file again")
        .data(json!({ "version": now }))
}

pub(crate) fn unreadable(shown: &str, problem: &edit::ReadError) -> ToolError {
    let error = ToolError::new(Code::Validation, format!("{shown} cannot be edited as text: {problem}"));
    match problem {
        edit::ReadError::Binary => error.hint("file_write can replace the whole file"),
        edit::ReadError::NotIn { .. } => error.hint("set `encoding` to that of the file, or omit it"),
    }
}

pub(crate) fn refusal(shown: &str, refused: ReplaceError) -> ToolError {
    match refused {
        ReplaceError::Absent { index, nearest, comes_with } => {
            let message = format!("`edits[{index}].old_text` is not in {shown}");
            let error = match comes_with {
                Some(earlier) => ToolError::new(
                    Code::Conflict,
                    format!(
                        "{message}, only in `edits[{earlier}].new_text`; all edits apply to the current file"
                    ),
                )
                .hint("combine the two edits into one"),
                None => absent(&message, &nearest),
            };
            error.data(json!({ "edit": index, "nearest": nearest.iter().map(place).collect::<Vec<_>>() }))
        }
        ReplaceError::Count { index, found, wanted, places } => {
            let lines: Vec<String> = places.iter().map(|place| place.line.to_string()).collect();
            let more = if places.len() < found { ", …" } else { "" };
            let message = format!(
                "`edits[{index}].old_text` occurs {found} times in {shown}, not {wanted}: lines {}{more}",
                lines.join(", ")
            );
            let places: Vec<Value> =
                places.iter().map(|place| json!({ "line": place.line, "text": place.text })).collect();
            ToolError::new(Code::Conflict, message)
                .hint("add surrounding lines to `old_text`, or set `replace_all` or `expected_count`")
                .data(json!({ "edit": index, "places": places }))
        }
        ReplaceError::Overlap { first, second, line } => ToolError::new(
            Code::Conflict,
            format!("`edits[{first}]` and `edits[{second}]` change the same text, on line {line} of {shown}"),
        )
        .hint("combine the two edits into one"),
    }
    .retry(Retry::Never)
}

/// Returns the error for a missing text, with the most similar place.
pub(crate) fn absent(message: &str, nearest: &[Near]) -> ToolError {
    let Some(best) = nearest.first() else {
        return ToolError::new(Code::Conflict, format!("{message}, nor is any similar text"))
            .hint("read the file again");
    };
    let lines = if best.line == best.end_line {
        format!("line {}", best.line)
    } else {
        format!("lines {} to {}", best.line, best.end_line)
    };
    let how = if best.white_space_only { ", except for whitespace" } else { "" };
    ToolError::new(Code::Conflict, format!("{message}; nearest match{how}: {lines}: {}", best.difference))
        .hint("[-…-] is only in the requested text, {+…+} only in the file")
}

pub(crate) fn place(near: &Near) -> Value {
    json!({
        "line": near.line,
        "end_line": near.end_line,
        "white_space_only": near.white_space_only,
        "difference": near.difference,
    })
}
