//! Results as plain text, the form that most hosts show to a model.
//!
//! Lines in square brackets are Handfast's own.

use serde_json::{Map, Value};

/// Formats notes, one per line; `None` if there are none.
pub(crate) fn notes(notes: &[String]) -> Option<String> {
    let lines: Vec<String> = notes.iter().map(|note| format!("[{note}]")).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// Length of output, in characters, from which on the other lines precede it: hosts truncate long
/// texts, most of them at the end.
const LONG: usize = 8_000;

/// Formats the output of a command: `stdout`, `stderr` after a marker, an `exit_code` other than 0,
/// then every other field with information. If the output is long, these lines come first.
pub(crate) fn command(data: &Value, notes: &[String]) -> String {
    let empty = Map::new();
    let fields = data.as_object().unwrap_or(&empty);
    let stream = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default();
    let mut output = Lines(stream("stdout").to_owned());
    if !stream("stderr").is_empty() {
        output.line("[stderr]");
        output.text(stream("stderr"));
    }
    let mut lines = Lines::default();
    if let Some(code) = fields.get("exit_code").and_then(Value::as_i64).filter(|code| *code != 0) {
        lines.line(&format!("[exit code {code}]"));
    }
    for (name, value) in
        fields.iter().filter(|(name, _)| !["stdout", "stderr", "exit_code"].contains(&name.as_str()))
    {
        match value {
            Value::String(text) if text.contains('\n') => {
                lines.line(&format!("[{name}]"));
                lines.text(text);
            }
            Value::String(text) => lines.line(&format!("[{name} {text}]")),
            Value::Bool(true) => lines.line(&format!("[{name}]")),
            other if says_something(other) => lines.line(&format!("[{name} {other}]")),
            _ => {}
        }
    }
    if output.0.is_empty() && lines.0.is_empty() {
        // Providers refuse a block without text.
        lines.line("[no output]");
    }
    for note in notes {
        lines.line(&format!("[{note}]"));
    }
    let (mut first, then) = if output.0.len() > LONG { (lines, output) } else { (output, lines) };
    if !then.0.is_empty() {
        first.text(&then.0);
    }
    first.0
}

/// Text builder that starts each part on a new line.
#[derive(Default)]
struct Lines(String);

impl Lines {
    fn line(&mut self, line: &str) {
        self.text(line);
    }

    fn text(&mut self, text: &str) {
        if !self.0.is_empty() && !self.0.ends_with('\n') {
            self.0.push('\n');
        }
        self.0.push_str(text);
    }
}

/// Text of a result, with an optional image.
pub(crate) struct ShownResult {
    pub(crate) text: String,
    /// Image in Base64, and its media type.
    pub(crate) picture: Option<(String, String)>,
}

/// Formats a text after one line with the other informative fields, so that truncation preserves
/// that line. The line is the word `about` and a JSON object, in brackets.
///
/// A complete image is returned separately.
pub(crate) fn text(mut data: Map<String, Value>, field: &str) -> ShownResult {
    if let Some(shown) = screenshot(&mut data) {
        return shown;
    }
    let text = match data.shift_remove(field) {
        Some(Value::String(text)) => Some(text),
        Some(Value::Null) | None => None,
        Some(other) => {
            data.insert(field.to_owned(), other);
            None
        }
    };
    let is_picture = data.get("picture").is_some_and(Value::is_object) && data.get("next_offset").is_none();
    let kind = data.get("mime_type").and_then(Value::as_str).map(str::to_owned);
    let mut rest = Value::Object(data);
    leave_out_what_says_nothing(&mut rest);
    let rest = rest.to_string();
    match (text, kind) {
        (Some(picture), Some(kind)) if is_picture && !picture.is_empty() => {
            ShownResult { text: rest, picture: Some((picture, kind)) }
        }
        (Some(text), _) if rest == "{}" && !text.is_empty() => ShownResult { text, picture: None },
        (Some(text), _) if !text.is_empty() => {
            ShownResult { text: format!("[about {rest}]\n{text}"), picture: None }
        }
        _ => ShownResult { text: rest, picture: None },
    }
}

/// Takes the picture of a page out of a result, if it has one.
pub(crate) fn screenshot(data: &mut Map<String, Value>) -> Option<ShownResult> {
    let Some(Value::String(picture)) = data.shift_remove("image_base64") else { return None };
    // The beginning of every PNG in Base64. The other kind that pages are taken in is JPEG.
    let kind = if picture.starts_with("iVBORw0KGgo") { "image/png" } else { "image/jpeg" }.to_owned();
    let mut rest = Value::Object(std::mem::take(data));
    leave_out_what_says_nothing(&mut rest);
    Some(ShownResult { text: rest.to_string(), picture: Some((picture, kind)) })
}

/// Removes fields that are null or false.
// BOUNDED: by the maximum depth of parsed JSON, 128.
fn leave_out_what_says_nothing(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, field| says_something(field));
            fields.values_mut().for_each(leave_out_what_says_nothing);
        }
        Value::Array(items) => items.iter_mut().for_each(leave_out_what_says_nothing),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn says_something(value: &Value) -> bool {
    !matches!(value, Value::Null | Value::Bool(false))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of_command(data: &Value, notes: &[&str]) -> String {
        command(data, &notes.iter().map(|note| (*note).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn the_output_of_a_command_is_text_as_it_is() {
        let all = json!({"stdout": "out", "stderr": "no\n", "exit_code": 3, "timed_out": false});
        assert_eq!(of_command(&all, &[]), "out\n[stderr]\nno\n[exit code 3]");
        assert_eq!(of_command(&json!({"stdout": "a\tb\n\n", "stderr": "", "exit_code": 0}), &[]), "a\tb\n\n");
        assert_eq!(of_command(&json!({"stdout": "", "stderr": "x", "exit_code": 0}), &[]), "[stderr]\nx");
    }

    #[test]
    fn a_block_is_never_empty() {
        assert_eq!(of_command(&json!({"stdout": "", "stderr": "", "exit_code": 0}), &[]), "[no output]");
        assert_eq!(of_command(&json!({"stdout": "", "exit_code": 1}), &[]), "[exit code 1]");
        assert_eq!(of_command(&Value::Null, &[]), "[no output]");
    }

    #[test]
    fn what_else_a_command_came_to_follows_with_the_notes() {
        let started = json!({"stdout": "", "stderr": "", "exit_code": null, "session_id": "s1", "pty": true});
        assert_eq!(of_command(&started, &["warning: w"]), "[session_id s1]\n[pty]\n[warning: w]");
        let tried = json!({"stdout": "done\n", "exit_code": 0, "diff": "-a\n+b\n"});
        assert_eq!(of_command(&tried, &["k"]), "done\n[diff]\n-a\n+b\n[k]");
    }

    #[test]
    fn a_host_that_cuts_a_long_output_keeps_how_it_ended_and_where_the_whole_is() {
        let output = "line\n".repeat(2_000);
        let text = of_command(&json!({"stdout": output, "stderr": "no", "exit_code": 3}), &["the whole: r"]);
        assert_eq!(text, format!("[exit code 3]\n[the whole: r]\n{output}[stderr]\nno"));
        let text = of_command(&json!({"stdout": output, "exit_code": 0}), &[]);
        assert_eq!(text, output);
    }

    fn of_text(data: Value) -> ShownResult {
        let Value::Object(data) = data else { panic!("no record") };
        text(data, "content")
    }

    #[test]
    fn the_other_fields_are_the_first_line_and_the_text_is_exact() {
        let shown =
            of_text(json!({"size": 3, "cut": false, "content": "a\nb", "list": [{"x": null, "y": 1}]}));
        assert_eq!(shown.text, "[about {\"size\":3,\"list\":[{\"y\":1}]}]\na\nb");
        assert_eq!(of_text(json!({"content": "a\n"})).text, "a\n");
        assert_eq!(of_text(json!({"content": "", "size": 0})).text, "{\"size\":0}");
        assert_eq!(of_text(json!({"content": ""})).text, "{}");
    }

    #[test]
    fn a_whole_picture_is_no_text_and_a_part_of_one_is() {
        let whole =
            json!({"content": "AAAA", "mime_type": "image/png", "picture": {"width": 2, "height": 1}});
        let shown = of_text(whole.clone());
        assert_eq!(shown.picture, Some(("AAAA".to_owned(), "image/png".to_owned())));
        assert_eq!(shown.text, r#"{"mime_type":"image/png","picture":{"width":2,"height":1}}"#);
        let mut part = whole;
        part["next_offset"] = json!(3);
        let shown = of_text(part);
        assert!(shown.picture.is_none());
        assert!(shown.text.ends_with("\nAAAA"), "{}", shown.text);
    }
}
