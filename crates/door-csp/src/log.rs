//! Storage for the full output of commands, and the summary that callers get in its place.

use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use tool::{CallResult, Meta, Outcome};

use crate::command_end::{CommandEnd, LOG_REF, RequestedCommand, StreamKind, data_of, is_cut, text_of};
use crate::summary::{LONGEST, Summary};

/// Stores the full output of commands in a place that senders of requests cannot reach.
pub trait ExecLog: Send + Sync {
    /// Stores one command with all its output, and returns the name for the answer: a path relative
    /// to the workspace.
    ///
    /// `seen` receives the bytes of both streams as they are stored. Blocks.
    ///
    /// # Errors
    /// If the output cannot be stored. In that case `seen` may have received any part of the bytes.
    fn keep(&self, record: &Record<'_>, seen: &mut dyn FnMut(StreamKind, &[u8])) -> io::Result<String>;

    /// Stores a file of a call, and returns its name under the same rule. `extension` is that of its
    /// name, without a dot. Blocks.
    ///
    /// # Errors
    /// If the file cannot be stored.
    fn keep_file(&self, meta: &Meta, extension: &str, content: &[u8]) -> io::Result<String>;
}

/// A command that has ended.
pub struct Record<'a> {
    /// Command line, with secrets covered.
    pub command: &'a str,
    /// Metadata of the call.
    pub meta: &'a Meta,
    /// Outcome in the words of the answer, for example `OK exit:0`.
    pub outcome: &'a str,
    /// Output streams, standard output first.
    pub streams: [Stream<'a>; 2],
}

/// One output stream of a command.
#[derive(Clone, Copy)]
pub struct Stream<'a> {
    /// Kind of the stream.
    pub kind: StreamKind,
    /// Text of the stream: all of it, or only its first and last part if `whole` is set.
    pub text: &'a str,
    /// Reference of the stored full output if the text is only a part.
    pub whole: Option<&'a str>,
}

/// Stores the full output of a command in the log, and replaces each long stream in the result by a
/// summary. Every door that offers the dialect returns these summaries. Blocks.
pub fn sum_up(command: &str, result: &mut CallResult, log: &dyn ExecLog) {
    let data = match data_of(result) {
        Ok(Some(data)) if data.is_object() => data,
        // The command did not run.
        _ => return,
    };
    let kinds = [StreamKind::Stdout, StreamKind::Stderr];
    let mut is_partial = kinds.iter().any(|kind| is_cut(result, *kind));
    let mut sums = [Summary::default(), Summary::default()];
    let mut reference = None;
    let stream = |kind: StreamKind| Stream {
        kind,
        text: text_of(Some(&data), kind),
        whole: result
            .meta
            .outputs
            .iter()
            .find(|kept| kept.field == kind.as_str())
            .map(|kept| &*kept.output_ref),
    };
    // A cached result was logged when its command ran.
    if !result.meta.cached {
        let ended = CommandEnd::of(&RequestedCommand { command, timeout: 0 }, result, Some(&data));
        let outcome = format!("{} exit:{}", ended.status, ended.exit);
        let record = Record { command, meta: &result.meta, outcome: &outcome, streams: kinds.map(stream) };
        match log.keep(&record, &mut |kind, bytes| sums[usize::from(kind == StreamKind::Stderr)].push(bytes))
        {
            Ok(path) => reference = Some(path),
            Err(error) => {
                is_partial = true;
                let warning = format!("the full output could not be stored in the exec log: {error}");
                result.meta.warnings.push(warning);
            }
        }
    }
    if reference.is_none() {
        sums = kinds.map(|kind| {
            let mut sum = Summary::default();
            sum.push(text_of(Some(&data), kind).as_bytes());
            sum
        });
    }
    let is_short = kinds.map(|kind| {
        let stream = stream(kind);
        stream.whole.is_none() && stream.text.chars().nth(LONGEST).is_none()
    });
    let mut data = data;
    for ((kind, sum), is_short) in kinds.into_iter().zip(sums).zip(is_short) {
        // A short text needs no summary.
        if !is_short {
            data[kind.as_str()] = sum.finish().into();
        }
    }
    if let Some(reference) = reference {
        data[LOG_REF] = reference.into();
    }
    give_back(result, data);
    // Callers may not read the full output by its reference. The flag `truncated` still reports
    // missing output.
    result.meta.truncated = is_partial;
    result.meta.output_ref = None;
    result.meta.outputs.clear();
}

/// Stores the picture or the text of a page in the log, and replaces it in the result by the name of its
/// file; a short text stays. Blocks.
pub fn sum_up_page(result: &mut CallResult, log: &dyn ExecLog) {
    let Outcome::Ok(data) = &result.outcome else { return };
    let Ok(Value::Object(mut data)) = serde_json::to_value(data) else { return };
    let (field, reference, extension, content) =
        if let Some(Value::String(picture)) = data.get("image_base64") {
            let is_jpeg = data.get("mime_type").and_then(Value::as_str) == Some("image/jpeg");
            // A text that is no picture is stored as it is.
            let picture = STANDARD.decode(picture).unwrap_or_else(|_| picture.clone().into_bytes());
            ("image_base64", SCREENSHOT_REF, if is_jpeg { "jpg" } else { "png" }, picture)
        } else if let Some(Value::String(text)) = data.get("text") {
            ("text", LOG_REF, "txt", text.clone().into_bytes())
        } else {
            return;
        };
    let mut is_partial = data.get("next_offset").is_some_and(|offset| !offset.is_null());
    if is_partial {
        let warning = "only the beginning of the page was read; a SELECTOR chooses another part";
        result.meta.warnings.push(warning.to_owned());
    }
    match log.keep_file(&result.meta, extension, &content) {
        Ok(path) => drop(data.insert(reference.to_owned(), path.into())),
        Err(error) => {
            is_partial = true;
            let what = if field == "text" { "text" } else { "picture" };
            result.meta.warnings.push(format!("the {what} could not be stored in the exec log: {error}"));
        }
    }
    if field == "text" {
        let mut sum = Summary::default();
        sum.push(&content);
        data.insert(field.to_owned(), sum.finish().into());
    } else {
        data.remove(field);
    }
    data.remove("next_offset");
    give_back(result, Value::Object(data));
    result.meta.truncated = is_partial;
    result.meta.output_ref = None;
    result.meta.outputs.clear();
}

/// Name of the answer's field with the location of a picture.
const SCREENSHOT_REF: &str = "screenshot_ref";

fn give_back(result: &mut CallResult, data: Value) {
    match &mut result.outcome {
        Outcome::Ok(whole) => *whole = data.into(),
        Outcome::Err(error) => error.data = Some(data),
    }
}
