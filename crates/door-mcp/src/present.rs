//! Conversion of results of the engine to results of MCP.

use dialects::Dialect;
use rmcp::model::{CallToolResult, ContentBlock, JsonObject, MetaObject};
use serde_json::Value;
use tool::{CallResult, Data, Meta, NoteTools, Outcome, Presentation, RawJson, ToolError};

use crate::plain;
use crate::server_backend::Reply;

/// Maximum length of a record's JSON as text next to structured content, in characters. Every text
/// that the engine has truncated (25,000 characters) fits with its escapes.
const RECORD_AS_TEXT: usize = 60_000;

/// Note on where to find the rest of a truncated record.
const BESIDE_STRUCTURE: &str = "the structured content has all of it; request less to see all of it here";

/// Presentation of the results of one server to one client.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) dialect: Dialect,
    /// True to send records as structured content too.
    ///
    /// Many hosts show a model the structured content in place of the text, others show both. So a
    /// record is sent twice only if an output schema promises it.
    pub(crate) structured: bool,
    /// Tool names for use in notes.
    pub(crate) tools: NoteTools<'a>,
}

/// Converts a result for a client.
pub(crate) fn result(result: CallResult, view: View<'_>) -> Reply<CallToolResult> {
    let notes = result.meta.notes(view.tools);
    if let Some(answer) = view.dialect.answer(&result) {
        return whole(result, answer, view.structured, &notes);
    }
    let CallResult { outcome, presentation, meta, held } = result;
    let mut aside = None;
    let mut shown = match outcome {
        Outcome::Ok(Data::Value(data)) => success(data, presentation, view.structured, &notes),
        Outcome::Ok(Data::Written(data)) => {
            let (text, rest) = written(data, view.structured);
            aside = rest;
            CallToolResult::success(
                [Some(text), plain::notes(&notes)].into_iter().flatten().map(block).collect(),
            )
        }
        Outcome::Err(error) => refusal(&error, presentation, &notes),
    };
    shown.meta.get_or_insert_default().insert("handfast/meta".to_owned(), meta_value(&meta));
    Reply { result: shown, structured: aside, held }
}

/// Converts a result in a dialect whose answers have their own form, for failures too.
fn whole(result: CallResult, answer: Value, structured: bool, notes: &[String]) -> Reply<CallToolResult> {
    let failed = result.error().map(error_value);
    let mut shown = success(answer, Presentation::Record, structured, notes);
    shown.is_error = Some(failed.is_some());
    let meta = shown.meta.get_or_insert_default();
    if let Some(error) = failed {
        meta.insert("handfast/error".to_owned(), error);
    }
    meta.insert("handfast/meta".to_owned(), meta_value(&result.meta));
    Reply { result: shown, structured: None, held: result.held }
}

/// Converts the result of a failed call: error, hint and notes, followed by partial data in a
/// separate block.
///
/// Programs find the code in `_meta`: the official TypeScript client validates structured content
/// against the output schema even for errors, and would reject it.
pub(crate) fn refusal(error: &ToolError, presentation: Presentation, notes: &[String]) -> CallToolResult {
    let mut text = format!("{}: {}", error.code, error.message);
    if let Some(hint) = &error.hint {
        text.push_str("\nHint: ");
        text.push_str(hint);
    }
    if let Some(notes) = plain::notes(notes) {
        text.push('\n');
        text.push_str(&notes);
    }
    let data = error.data.as_ref().map(|data| match presentation {
        Presentation::Command => plain::command(data, &[]),
        Presentation::Record | Presentation::Text { .. } => as_text(data, "request less to see all of it"),
    });
    let mut result = CallToolResult::error([Some(text), data].into_iter().flatten().map(block).collect());
    let mut meta = JsonObject::new();
    meta.insert("handfast/error".to_owned(), error_value(error));
    result.meta = Some(MetaObject(meta));
    result
}

fn success(data: Value, shape: Presentation, structured: bool, notes: &[String]) -> CallToolResult {
    let mut content = Vec::new();
    let mut structure = None;
    match (shape, data) {
        (Presentation::Command, data) => {
            return CallToolResult::success(vec![block(plain::command(&data, notes))]);
        }
        (Presentation::Text { field }, Value::Object(data)) => {
            let shown = plain::text(data, field);
            content.push(block(shown.text));
            content.extend(shown.picture.map(|(bytes, kind)| ContentBlock::image(bytes, kind)));
        }
        (Presentation::Record, data) if structured => {
            content.push(block(as_text(&data, BESIDE_STRUCTURE)));
            structure = Some(data);
        }
        (_, data) => content.push(block(data.to_string())),
    }
    content.extend(plain::notes(notes).map(block));
    let mut result = CallToolResult::success(content);
    result.structured_content = structure;
    result
}

fn block(text: String) -> ContentBlock {
    ContentBlock::text(text)
}

/// Returns a record that its tool has written: as text, and as structured content if the client
/// supports it.
fn written(data: RawJson, structured: bool) -> (String, Option<RawJson>) {
    if !structured {
        return (data.as_str().to_owned(), None);
    }
    let text = data.as_str();
    // A character takes at least one byte, so count only texts with more bytes than the limit.
    let end = if text.len() > RECORD_AS_TEXT { text.char_indices().nth(RECORD_AS_TEXT) } else { None };
    let text = match end {
        Some((end, _)) => cut(text[..end].to_owned(), BESIDE_STRUCTURE),
        None => text.to_owned(),
    };
    (text, Some(data))
}

/// Returns the part of [`Meta`] that programs need and no text contains. Some hosts show all of it
/// to the model, so it is small: the audit log holds the decision, the times and the sandbox's
/// enforcement.
fn meta_value(meta: &Meta) -> Value {
    // Serialization cannot fail: every field is a string, number, bool or list of these.
    let mut value = serde_json::to_value(meta).unwrap_or_default();
    if let Some(fields) = value.as_object_mut() {
        let audited = ["started_at", "ended_at", "decision", "rule", "sandbox", "warnings"];
        fields.retain(|name, _| !audited.contains(&name.as_str()));
    }
    value
}

/// Returns the part of an error that programs need. The text contains its message and hint.
fn error_value(error: &ToolError) -> Value {
    let mut value = error.to_wire();
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|name, _| !["message", "hint"].contains(&name.as_str()));
    }
    value
}

/// Formats the value as JSON, truncated to [`RECORD_AS_TEXT`] characters with a note about the
/// rest. The serializer stops at the limit.
fn as_text(value: &Value, rest: &str) -> String {
    struct BoundedWriter(Vec<u8>);
    impl std::io::Write for BoundedWriter {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.extend_from_slice(bytes);
            // A character takes at most four bytes.
            if self.0.len() > RECORD_AS_TEXT * 4 {
                Err(std::io::ErrorKind::FileTooLarge.into())
            } else {
                Ok(bytes.len())
            }
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut json = BoundedWriter(Vec::new());
    let whole = serde_json::to_writer(&mut json, value).is_ok();
    let mut text = String::from_utf8_lossy(&json.0).into_owned();
    let end = text.char_indices().nth(RECORD_AS_TEXT).map(|(end, _)| end);
    if let Some(end) = end.or_else(|| (!whole).then_some(text.len())) {
        text.truncate(end);
        return cut(text, rest);
    }
    text
}

/// Appends a note about the rest to a truncated text.
fn cut(mut text: String, rest: &str) -> String {
    text.push_str("... (cut here; ");
    text.push_str(rest);
    text.push(')');
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tool::{Code, EffectState, Retry};

    use super::*;

    fn shown(data: Value, shape: Presentation, structured: bool) -> Value {
        serde_json::to_value(success(data, shape, structured, &[])).unwrap()
    }

    #[test]
    fn a_short_record_stands_as_structure_and_as_text() {
        let result = shown(json!({"path": "a", "size": 3}), Presentation::Record, true);
        assert_eq!(
            result,
            json!({
                "resultType": "complete",
                "content": [{"type": "text", "text": "{\"path\":\"a\",\"size\":3}"}],
                "structuredContent": {"path": "a", "size": 3},
                "isError": false,
            })
        );
    }

    #[test]
    fn the_output_of_a_command_stands_once_and_as_it_is() {
        let data = json!({"stdout": "a \"line\"\n".repeat(2_000), "stderr": "", "exit_code": 0});
        let result = shown(data.clone(), Presentation::Command, true);
        assert!(result.get("structuredContent").is_none());
        assert_eq!(result["content"].as_array().unwrap().len(), 1);
        assert!(result["content"][0]["text"] == data["stdout"], "the text is not the output");
    }

    #[test]
    fn a_record_beyond_every_text_is_cut_beside_its_structure() {
        let data = json!({"entries": vec!["ä".repeat(40); 10_000]});
        let result = shown(data.clone(), Presentation::Record, true);
        assert_eq!(result["structuredContent"], data);
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(text.starts_with(r#"{"entries":["ä"#), "{text:.40}");
        assert!(text.ends_with("request less to see all of it here)"), "{}", &text[text.len() - 80..]);
        assert!(text.chars().count() < RECORD_AS_TEXT + 100);
    }

    #[test]
    fn what_was_written_is_shown_as_its_tree_would_be() {
        let long = json!({"entries": vec!["ä\"\n".repeat(20); 10_000]});
        for data in [json!({"path": "a"}), long, json!(["x".repeat(RECORD_AS_TEXT - 4)])] {
            for structured in [true, false] {
                let expected = shown(data.clone(), Presentation::Record, structured);
                let (text, aside) = written(RawJson::of(&data, 0).unwrap(), structured);
                assert!(expected["content"][0]["text"] == text, "the texts differ");
                let aside = aside.map(|aside| aside.parse().unwrap());
                assert!(expected.get("structuredContent") == aside.as_ref(), "the structures differ");
            }
        }
    }

    #[test]
    fn a_client_without_structured_content_gets_the_whole_record_as_text() {
        let data = json!({"entries": vec![1; 10_000]});
        let result = shown(data.clone(), Presentation::Record, false);
        assert!(result.get("structuredContent").is_none());
        assert_eq!(result["content"][0]["text"], data.to_string());
    }

    #[test]
    fn a_text_stands_behind_a_line_with_its_other_fields_and_before_the_notes() {
        let data =
            json!({"path": "a.txt", "content": "two\nlines", "lines": 2, "truncated": false, "note": null});
        for structured in [true, false] {
            let shape = Presentation::Text { field: "content" };
            let result = success(data.clone(), shape, structured, &["checkpoint k1".to_owned()]);
            let result = serde_json::to_value(result).unwrap();
            assert!(result.get("structuredContent").is_none());
            assert_eq!(result["content"][0]["text"], "[about {\"path\":\"a.txt\",\"lines\":2}]\ntwo\nlines");
            assert_eq!(result["content"][1]["text"], "[checkpoint k1]");
        }
    }

    #[test]
    fn a_text_that_is_not_there_loses_nothing() {
        let result = shown(json!({"content": null, "a": 1}), Presentation::Text { field: "content" }, true);
        assert_eq!(result["content"][0]["text"], r#"{"a":1}"#);
        let result = shown(json!({"content": [2], "a": 1}), Presentation::Text { field: "content" }, true);
        assert_eq!(result["content"][0]["text"], r#"{"a":1,"content":[2]}"#);
        let result = shown(json!(["x"]), Presentation::Text { field: "content" }, true);
        assert_eq!(result["content"][0]["text"], r#"["x"]"#);
    }

    #[test]
    fn a_record_stays_json_and_its_notes_are_a_block_of_their_own() {
        let notes = vec!["warning: w".to_owned(), "checkpoint k1".to_owned()];
        let result =
            serde_json::to_value(success(json!({"a": 1}), Presentation::Record, false, &notes)).unwrap();
        assert_eq!(result["content"][0]["text"], r#"{"a":1}"#);
        assert_eq!(result["content"][1]["text"], "[warning: w]\n[checkpoint k1]");
    }

    #[test]
    fn what_reaches_models_beside_the_text_is_small() {
        let mut meta = Meta::arrived(tool::CallId("c1".to_owned()), jiff::Timestamp::UNIX_EPOCH);
        meta.sandbox = Some(vec!["namespaces".to_owned()]);
        meta.rule = Some("a rule".to_owned());
        meta.warnings = vec!["w".to_owned()];
        meta.checkpoint = Some("k1".to_owned());
        assert_eq!(meta_value(&meta), json!({"call_id": "c1", "duration_ms": 0, "checkpoint": "k1"}));
    }

    #[test]
    fn an_error_is_text_for_the_model_and_an_object_for_programs_and_never_structured_content() {
        let error = ToolError::new(Code::Timeout, "it took too long")
            .hint("ask for less")
            .effect(EffectState::Maybe)
            .retry(Retry::AfterMs(10))
            .data(json!({"stdout": "x".repeat(RECORD_AS_TEXT)}));
        let notes = ["warning: w".to_owned()];
        let result = serde_json::to_value(refusal(&error, Presentation::Record, &notes)).unwrap();
        assert_eq!(result["isError"], true);
        assert_eq!(
            result["content"][0]["text"],
            "ETIMEOUT: it took too long\nHint: ask for less\n[warning: w]"
        );
        let data = result["content"][1]["text"].as_str().unwrap();
        assert!(
            data.ends_with("... (cut here; request less to see all of it)"),
            "{}",
            &data[data.len() - 50..]
        );
        assert_eq!(
            result["_meta"]["handfast/error"],
            json!({"code": "ETIMEOUT", "effect": "maybe", "retry": {"after_ms": 10}})
        );
        let partial =
            ToolError::new(Code::Timeout, "late").data(json!({"stdout": "half\n", "exit_code": null}));
        let result = serde_json::to_value(refusal(&partial, Presentation::Command, &[])).unwrap();
        assert_eq!(result["content"][1]["text"], "half\n");
        assert!(result.get("structuredContent").is_none());
    }
}
