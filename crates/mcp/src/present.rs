//! From a result of the engine to a result of MCP.

use dialects::Dialect;
use rmcp::model::{CallToolResult, ContentBlock, JsonObject, MetaObject};
use serde_json::Value;
use tool::{CallResult, Data, Held, Meta, Outcome, Presentation, ToolError, Written};

/// Characters of a record's JSON that stand as text, for the many hosts that show a model nothing else. Every text that the engine
/// has bounded (25,000 characters) fits with its escapes; a longer record is not sent twice, but cut here.
const RECORD_AS_TEXT: usize = 60_000;

/// Where the rest of a record is whose text was cut.
const BESIDE_STRUCTURE: &str = "the whole is in the structured content; ask for less to see all of it here";

/// The result that the client gets.
pub(crate) struct Presented {
    pub(crate) result: CallToolResult,
    /// The result's structured content, where the tool has written it: rmcp has no place for text that is JSON already.
    pub(crate) structured: Option<Written>,
    /// What it occupies until it was sent.
    pub(crate) held: Held,
}

/// The result as the client gets it.
///
/// `structured` says whether the client knows structured content, as those from the revision of 2025-06-18 on do.
pub(crate) fn result(result: CallResult, dialect: Dialect, structured: bool) -> Presented {
    if let Some(answer) = dialect.answer(&result) {
        return whole(result, answer, structured);
    }
    let CallResult { outcome, presentation, meta, held } = result;
    let mut aside = None;
    let mut shown = match outcome {
        Outcome::Ok(Data::Value(data)) => success(data, presentation, structured),
        Outcome::Ok(Data::Written(data)) => {
            let (text, rest) = written(data, structured);
            aside = rest;
            CallToolResult::success(vec![ContentBlock::text(text)])
        }
        Outcome::Err(error) => refusal(&error),
    };
    shown.meta.get_or_insert_default().insert("handfast/meta".to_owned(), meta_value(&meta));
    Presented { result: shown, structured: aside, held }
}

/// The result in a dialect whose answers have a form of their own, which holds what failed too.
fn whole(result: CallResult, answer: Value, structured: bool) -> Presented {
    let failed = result.error().map(ToolError::to_wire);
    let mut shown = success(answer, Presentation::Record, structured);
    shown.is_error = Some(failed.is_some());
    let meta = shown.meta.get_or_insert_default();
    if let Some(error) = failed {
        meta.insert("handfast/error".to_owned(), error);
    }
    meta.insert("handfast/meta".to_owned(), meta_value(&result.meta));
    Presented { result: shown, structured: None, held: result.held }
}

/// The result for a call that failed.
///
/// The error object stands in `_meta`: the official TypeScript client checks structured content against the output schema even
/// where the result is an error, and would refuse it.
pub(crate) fn refusal(error: &ToolError) -> CallToolResult {
    let mut text = format!("{}: {}", error.code, error.message);
    if let Some(hint) = &error.hint {
        text.push_str("\nHint: ");
        text.push_str(hint);
    }
    let mut content = vec![ContentBlock::text(text)];
    if let Some(data) = &error.data {
        content.push(ContentBlock::text(as_text(data, "ask for less to see all of it")));
    }
    let mut result = CallToolResult::error(content);
    let mut meta = JsonObject::new();
    meta.insert("handfast/error".to_owned(), error.to_wire());
    result.meta = Some(MetaObject(meta));
    result
}

fn success(data: Value, shape: Presentation, structured: bool) -> CallToolResult {
    match (shape, data) {
        (Presentation::Text { field }, Value::Object(mut data)) => {
            let content = match data.shift_remove(field) {
                Some(Value::String(text)) => {
                    vec![ContentBlock::text(text), ContentBlock::text(Value::Object(data).to_string())]
                }
                Some(other) => {
                    data.insert(field.to_owned(), other);
                    vec![ContentBlock::text(Value::Object(data).to_string())]
                }
                None => vec![ContentBlock::text(Value::Object(data).to_string())],
            };
            CallToolResult::success(content)
        }
        (Presentation::Record, data) if structured => {
            let text = as_text(&data, BESIDE_STRUCTURE);
            let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
            result.structured_content = Some(data);
            result
        }
        (_, data) => CallToolResult::success(vec![ContentBlock::text(data.to_string())]),
    }
}

/// A record that its tool has written, as text, and its structured content where the client knows it.
fn written(data: Written, structured: bool) -> (String, Option<Written>) {
    if !structured {
        return (data.as_str().to_owned(), None);
    }
    let text = data.as_str();
    // A character takes at least one byte, so only what is longer in bytes is counted.
    let end = if text.len() > RECORD_AS_TEXT { text.char_indices().nth(RECORD_AS_TEXT) } else { None };
    let text = match end {
        Some((end, _)) => cut(text[..end].to_owned(), BESIDE_STRUCTURE),
        None => text.to_owned(),
    };
    (text, Some(data))
}

fn meta_value(meta: &Meta) -> Value {
    // Every field is a string, number, bool or list of such; there is nothing that could fail.
    serde_json::to_value(meta).unwrap_or_default()
}

/// The value as JSON, cut at [`RECORD_AS_TEXT`] characters with a word on where the rest is. No more is written than is shown.
fn as_text(value: &Value, rest: &str) -> String {
    struct Bounded(Vec<u8>);
    impl std::io::Write for Bounded {
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
    let mut json = Bounded(Vec::new());
    let whole = serde_json::to_writer(&mut json, value).is_ok();
    let mut text = String::from_utf8_lossy(&json.0).into_owned();
    let end = text.char_indices().nth(RECORD_AS_TEXT).map(|(end, _)| end);
    if let Some(end) = end.or_else(|| (!whole).then_some(text.len())) {
        text.truncate(end);
        return cut(text, rest);
    }
    text
}

/// The beginning of a text with a word on where the rest is.
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
        serde_json::to_value(success(data, shape, structured)).unwrap()
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
    fn the_output_of_a_command_stands_whole_in_the_text_too() {
        let data = json!({"stdout": "line\n".repeat(5_000), "stderr": "", "exit_code": 0});
        let result = shown(data.clone(), Presentation::Record, true);
        let text = data.to_string();
        assert!(result["content"][0]["text"].as_str() == Some(text.as_str()), "the text is not the record");
    }

    #[test]
    fn a_record_beyond_every_text_is_cut_beside_its_structure() {
        let data = json!({"entries": vec!["ä".repeat(40); 10_000]});
        let result = shown(data.clone(), Presentation::Record, true);
        assert_eq!(result["structuredContent"], data);
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(text.starts_with(r#"{"entries":["ä"#), "{text:.40}");
        assert!(text.ends_with("ask for less to see all of it here)"), "{}", &text[text.len() - 80..]);
        assert!(text.chars().count() < RECORD_AS_TEXT + 100);
    }

    #[test]
    fn what_was_written_is_shown_as_its_tree_would_be() {
        let long = json!({"entries": vec!["ä\"\n".repeat(20); 10_000]});
        for data in [json!({"path": "a"}), long, json!(["x".repeat(RECORD_AS_TEXT - 4)])] {
            for structured in [true, false] {
                let expected = shown(data.clone(), Presentation::Record, structured);
                let (text, aside) = written(Written::of(&data, 0).unwrap(), structured);
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
    fn a_text_stands_alone_and_its_other_fields_follow_in_order() {
        let data = json!({"path": "a.txt", "content": "two\nlines", "lines": 2, "mime_type": "text/plain"});
        for structured in [true, false] {
            let result = shown(data.clone(), Presentation::Text { field: "content" }, structured);
            assert!(result.get("structuredContent").is_none());
            assert_eq!(result["content"][0]["text"], "two\nlines");
            assert_eq!(
                result["content"][1]["text"],
                r#"{"path":"a.txt","lines":2,"mime_type":"text/plain"}"#
            );
        }
    }

    #[test]
    fn a_text_that_is_not_there_loses_nothing() {
        let result = shown(json!({"content": null, "a": 1}), Presentation::Text { field: "content" }, true);
        assert_eq!(result["content"][0]["text"], r#"{"a":1,"content":null}"#);
        let result = shown(json!(["x"]), Presentation::Text { field: "content" }, true);
        assert_eq!(result["content"][0]["text"], r#"["x"]"#);
    }

    #[test]
    fn an_error_is_text_for_the_model_and_an_object_for_programs_and_never_structured_content() {
        let error = ToolError::new(Code::Timeout, "it took too long")
            .hint("ask for less")
            .effect(EffectState::Maybe)
            .retry(Retry::AfterMs(10))
            .data(json!({"stdout": "x".repeat(RECORD_AS_TEXT)}));
        let result = serde_json::to_value(refusal(&error)).unwrap();
        assert_eq!(result["isError"], true);
        assert_eq!(result["content"][0]["text"], "ETIMEOUT: it took too long\nHint: ask for less");
        let data = result["content"][1]["text"].as_str().unwrap();
        assert!(
            data.ends_with("... (cut here; ask for less to see all of it)"),
            "{}",
            &data[data.len() - 50..]
        );
        assert_eq!(result["_meta"]["handfast/error"]["code"], "ETIMEOUT");
        assert_eq!(result["_meta"]["handfast/error"]["effect"], "maybe");
        assert!(result.get("structuredContent").is_none());
    }
}
