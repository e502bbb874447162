//! From a result of the engine to a result of MCP.

use std::fmt::Write as _;

use rmcp::model::{CallToolResult, ContentBlock, JsonObject, MetaObject};
use serde_json::Value;
use tool::{CallResult, Held, Meta, Outcome, Presentation, ToolError};

/// Characters of JSON that stand as text beside the structured content; a longer record is only summarised there, so that no
/// answer is sent twice.
const TEXT_BESIDE_RECORD: usize = 4_000;

/// Characters of the data of a failed call that are shown.
const DATA_OF_ERROR: usize = 30_000;

/// Fields that a summary names.
const FIELDS_NAMED: usize = 20;

/// Characters of a value that a summary shows.
const VALUE_SHOWN: usize = 100;

/// The result that the client gets, and what it occupies until it was written.
///
/// `structured` says whether the client knows structured content, as those from the revision of 2025-06-18 on do.
pub(crate) fn result(result: CallResult, shape: Presentation, structured: bool) -> (CallToolResult, Held) {
    let CallResult { outcome, meta, held } = result;
    let mut shown = match outcome {
        Outcome::Ok(data) => success(data, shape, structured),
        Outcome::Err(error) => refusal(&error),
    };
    shown.meta.get_or_insert_default().insert("handfast/meta".to_owned(), meta_value(&meta));
    (shown, held)
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
        content.push(ContentBlock::text(bounded(data.to_string(), DATA_OF_ERROR)));
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
            let text = match json_within(&data, TEXT_BESIDE_RECORD) {
                Some(text) => text,
                None => summary(&data),
            };
            let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
            result.structured_content = Some(data);
            result
        }
        (_, data) => CallToolResult::success(vec![ContentBlock::text(data.to_string())]),
    }
}

fn meta_value(meta: &Meta) -> Value {
    // Every field is a string, number, bool or list of such; there is nothing that could fail.
    serde_json::to_value(meta).unwrap_or_default()
}

/// The value as JSON, unless that is longer. Gives up as soon as it is.
fn json_within(value: &Value, characters: usize) -> Option<String> {
    struct Bounded {
        text: Vec<u8>,
        most: usize,
    }
    impl std::io::Write for Bounded {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            if self.text.len() + bytes.len() > self.most {
                return Err(std::io::ErrorKind::FileTooLarge.into());
            }
            self.text.extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    // A character takes at most four bytes.
    let mut text = Bounded { text: Vec::new(), most: characters * 4 };
    serde_json::to_writer(&mut text, value).ok()?;
    String::from_utf8(text.text).ok().filter(|text| text.chars().count() <= characters)
}

/// A record too long to stand beside itself: its fields with their sizes.
fn summary(record: &Value) -> String {
    let Value::Object(fields) = record else {
        return format!("{}; see the structured content", describe(record));
    };
    let named: Vec<String> = fields
        .iter()
        .take(FIELDS_NAMED)
        .map(|(name, value)| format!("{name}: {}", describe(value)))
        .collect();
    let more = if fields.len() > FIELDS_NAMED { ", ..." } else { "" };
    format!("{}{more} (the whole is in the structured content)", named.join(", "))
}

fn describe(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("{} items", items.len()),
        Value::Object(fields) => format!("{} fields", fields.len()),
        Value::String(text) if text.chars().nth(VALUE_SHOWN).is_some() => {
            format!("{} characters", text.chars().count())
        }
        scalar => scalar.to_string(),
    }
}

fn bounded(mut text: String, characters: usize) -> String {
    if let Some((end, _)) = text.char_indices().nth(characters) {
        let whole = text.len();
        text.truncate(end);
        // Writing into a string cannot fail.
        let _ = write!(text, "... (cut; {whole} bytes in all)");
    }
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
    fn a_long_record_is_sent_once_and_summarised() {
        let entries: Vec<Value> = (0..1000).map(|number| json!({"number": number})).collect();
        let data = json!({"entries": entries, "cursor": null, "path": "src", "note": "ä".repeat(200)});
        let result = shown(data.clone(), Presentation::Record, true);
        assert_eq!(result["structuredContent"], data);
        assert_eq!(
            result["content"][0]["text"],
            "entries: 1000 items, cursor: null, path: \"src\", note: 200 characters (the whole is in the structured content)"
        );
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
            .data(json!({"stdout": "x".repeat(DATA_OF_ERROR)}));
        let result = serde_json::to_value(refusal(&error)).unwrap();
        assert_eq!(result["isError"], true);
        assert_eq!(result["content"][0]["text"], "ETIMEOUT: it took too long\nHint: ask for less");
        let data = result["content"][1]["text"].as_str().unwrap();
        assert!(data.ends_with("... (cut; 30013 bytes in all)"), "{}", &data[data.len() - 50..]);
        assert_eq!(result["_meta"]["handfast/error"]["code"], "ETIMEOUT");
        assert_eq!(result["_meta"]["handfast/error"]["effect"], "maybe");
        assert!(result.get("structuredContent").is_none());
    }
}
