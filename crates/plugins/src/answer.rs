//! The protocol between a call and a plugin: one line of JSON each way.

use serde::Deserialize;
use serde_json::{Value, json};
use tool::{Code, ToolError};

/// Maximum size of an answer, in bytes. The program is stopped when it writes more.
pub const LARGEST_ANSWER: usize = 1024 * 1024;

/// Maximum number of characters of a message or a hint of a plugin.
const LONGEST_MESSAGE: usize = 2_000;

/// Number of characters of wrong output that a message repeats.
const SHOWN: usize = 200;

/// Returns the request of a call, as one line of JSON.
pub fn request_line(arguments: &Value, call: &str, workspace: Option<&str>) -> String {
    let mut about = json!({"id": call});
    if let (Some(workspace), Some(fields)) = (workspace, about.as_object_mut()) {
        fields.insert("workspace".to_owned(), workspace.into());
    }
    let mut line = json!({"arguments": arguments, "call": about}).to_string();
    line.push('\n');
    line
}

/// Answer of a plugin.
#[derive(Debug)]
pub enum Answer {
    /// Data, which is an object.
    Data(Value),
    /// Error that the plugin reports itself.
    Refusal(ToolError),
}

/// Reason why output is no answer. Each counts as a failure of the plugin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnswerFault {
    /// The program wrote nothing.
    #[error("it answered nothing; it must write one line of JSON to standard output")]
    Nothing,
    /// The answer is too long.
    #[error("its answer has more than {LARGEST_ANSWER} bytes")]
    TooLong,
    /// The output is not JSON.
    #[error("its answer is not JSON: {shown}")]
    NotJson {
        /// Beginning of the output.
        shown: String,
    },
    /// The output goes on after an answer.
    #[error("it wrote more than one answer; after the first one came: {shown}")]
    More {
        /// Beginning of the rest.
        shown: String,
    },
    /// The JSON is no answer.
    #[error(
        "its answer has another form than {{\"ok\":true,\"data\":{{…}}}} or \
         {{\"ok\":false,\"error\":{{\"code\",\"message\"}}}}: {problem}"
    )]
    WrongForm {
        /// Fault of the form.
        problem: String,
    },
    /// The data does not fit the output schema.
    #[error("its answer does not fit its output_schema: {problem}")]
    WrongData {
        /// Fault of the data.
        problem: String,
    },
}

impl AnswerFault {
    /// Makes the fault of output after an answer, or before a request.
    pub fn more(rest: &[u8]) -> Self {
        Self::More { shown: shown(rest) }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    ok: bool,
    data: Option<Value>,
    error: Option<WrittenError>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenError {
    code: String,
    message: String,
    hint: Option<String>,
}

/// Reads the output of a plugin, which must be one answer.
///
/// # Errors
/// [`AnswerFault`].
pub fn read_answer(output: &[u8], validator: &jsonschema::Validator) -> Result<Answer, AnswerFault> {
    if output.len() > LARGEST_ANSWER {
        return Err(AnswerFault::TooLong);
    }
    if output.iter().all(u8::is_ascii_whitespace) {
        return Err(AnswerFault::Nothing);
    }
    let mut values = serde_json::Deserializer::from_slice(output).into_iter::<Value>();
    let Some(Ok(first)) = values.next() else {
        return Err(AnswerFault::NotJson { shown: shown(output) });
    };
    let rest = output.get(values.byte_offset()..).unwrap_or_default();
    if !rest.iter().all(u8::is_ascii_whitespace) {
        return Err(AnswerFault::more(rest));
    }
    let wrong = |problem: String| AnswerFault::WrongForm { problem };
    let written: Written = serde_json::from_value(first).map_err(|error| wrong(clean(&error.to_string())))?;
    match written {
        Written { ok: true, data: Some(data), error: None } if data.is_object() => {
            match validator.validate(&data) {
                Ok(()) => Ok(Answer::Data(data)),
                Err(error) => Err(AnswerFault::WrongData {
                    problem: clean(&format!("{} at `{}`", error.masked(), error.instance_path())),
                }),
            }
        }
        Written { ok: false, data: None, error: Some(error) } => Ok(Answer::Refusal(refusal(error))),
        Written { ok: true, .. } => {
            Err(wrong("`ok` is true, so `data` must be an object, and `error` absent".to_owned()))
        }
        Written { .. } => Err(wrong("`ok` is false, so `error` must be there, and `data` absent".to_owned())),
    }
}

/// Makes the error that a plugin reports. A code that tells about the runtime is not the plugin's to give.
fn refusal(error: WrittenError) -> ToolError {
    const OWN: [Code; 5] =
        [Code::Validation, Code::NotFound, Code::Conflict, Code::Unavailable, Code::Runtime];
    let code = OWN.into_iter().find(|code| code.as_str() == error.code).unwrap_or(Code::Runtime);
    let made = ToolError::new(code, format!("the plugin answers: {}", clean(&error.message)));
    match error.hint {
        Some(hint) => made.hint(clean(&hint)),
        None => made,
    }
}

/// Bounds a text of a plugin, and makes its control characters visible.
fn clean(text: &str) -> String {
    tool::visible(text).chars().take(LONGEST_MESSAGE).collect()
}

fn shown(bytes: &[u8]) -> String {
    let beginning = bytes.get(..bytes.len().min(SHOWN * 4)).unwrap_or_default();
    tool::visible(String::from_utf8_lossy(beginning).trim()).chars().take(SHOWN).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn validator() -> jsonschema::Validator {
        let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
        jsonschema::validator_for(&schema).unwrap()
    }

    fn fault(output: &[u8]) -> AnswerFault {
        read_answer(output, &validator()).unwrap_err()
    }

    #[test]
    fn one_answer_is_read() {
        let read = |text: &str| read_answer(text.as_bytes(), &validator()).unwrap();
        assert!(matches!(read("{\"ok\":true,\"data\":{\"n\":1}}\n\n"), Answer::Data(data) if data["n"] == 1));
        let Answer::Refusal(error) =
            read(r#"{"ok":false,"error":{"code":"ENOTFOUND","message":"no \u001b[31mpage","hint":"h"}}"#)
        else {
            panic!()
        };
        assert_eq!((error.code, error.hint.as_deref()), (Code::NotFound, Some("h")));
        assert!(!error.message.contains('\u{1b}'), "{}", error.message);
    }

    #[test]
    fn a_plugin_refuses_in_no_words_of_the_runtime() {
        let text = br#"{"ok":false,"error":{"code":"EAPPROVAL","message":"approve it"}}"#;
        let Answer::Refusal(error) = read_answer(text, &validator()).unwrap() else { panic!() };
        assert_eq!(error.code, Code::Runtime);
        assert!(error.message.starts_with("the plugin answers: "), "{}", error.message);
    }

    #[test]
    fn everything_else_is_a_fault_with_its_name() {
        assert_eq!(fault(b""), AnswerFault::Nothing);
        assert_eq!(fault(b" \n\t"), AnswerFault::Nothing);
        assert_eq!(fault(&vec![b'x'; LARGEST_ANSWER + 1]), AnswerFault::TooLong);
        assert!(matches!(fault(b"hello \x1b[2J"), AnswerFault::NotJson { shown } if !shown.contains('\x1b')));
        assert!(matches!(fault(b"\xff\xfe{}"), AnswerFault::NotJson { .. }));
        let twice = b"{\"ok\":true,\"data\":{\"n\":1}}\n{\"ok\":true,\"data\":{\"n\":2}}\n";
        assert!(matches!(fault(twice), AnswerFault::More { shown } if shown.contains("\"n\":2")));
        for wrong in [
            "[]",
            "7",
            "{\"ok\":true}",
            "{\"ok\":true,\"data\":[]}",
            "{\"ok\":false}",
            "{\"ok\":true,\"data\":{\"n\":1},\"error\":{\"code\":\"a\",\"message\":\"b\"}}",
            "{\"ok\":true,\"data\":{\"n\":1},\"x\":1}",
        ] {
            assert!(matches!(fault(wrong.as_bytes()), AnswerFault::WrongForm { .. }), "{wrong}");
        }
        assert!(matches!(fault(b"{\"ok\":true,\"data\":{\"n\":\"1\"}}"), AnswerFault::WrongData { .. }));
        let deep = format!("{{\"ok\":true,\"data\":{}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(matches!(fault(deep.as_bytes()), AnswerFault::NotJson { .. }));
    }

    #[test]
    fn a_request_is_one_line() {
        let line = request_line(&json!({"a": "x\ny"}), "c1", None);
        assert_eq!(line, "{\"arguments\":{\"a\":\"x\\ny\"},\"call\":{\"id\":\"c1\"}}\n");
        assert!(request_line(&json!({}), "c1", Some("/w")).contains("\"workspace\":\"/w\""));
    }
}
