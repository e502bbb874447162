//! Where the whole of what a command printed is kept, and what callers get in its place.

use std::io;

use serde_json::Value;
use tool::{CallResult, Meta, Outcome};

use crate::answer::{Ended, Ran, data_of, is_cut, text_of};
use crate::summary::{LONGEST, Summary};

/// The field of an answer that names where the whole output is kept.
pub(crate) const LOG_REF: &str = "log_ref";

/// Keeps the whole output of commands where whoever sends requests cannot reach it.
pub trait ExecLog: Send + Sync {
    /// Keeps one command with all that it printed, and gives what the answer names it by: a path relative to the workspace.
    /// `seen` is given the bytes of both streams as they are kept. Blocks.
    ///
    /// # Errors
    /// Where it cannot be kept. What `seen` has got by then is not said.
    fn keep(&self, record: &Record<'_>, seen: &mut dyn FnMut(StreamKind, &[u8])) -> io::Result<String>;
}

/// A command that has ended.
pub struct Record<'a> {
    /// The line, with secrets covered.
    pub command: &'a str,
    /// What the layers have to say of its call.
    pub meta: &'a Meta,
    /// What came of it, as the answer says it: such as `OK exit:0`.
    pub outcome: &'a str,
    /// What it printed.
    pub streams: [Stream<'a>; 2],
}

/// One stream of a command.
#[derive(Clone, Copy)]
pub struct Stream<'a> {
    /// Which.
    pub kind: StreamKind,
    /// All of it, or where `whole` says so its first and last part.
    pub text: &'a str,
    /// What the whole is kept as, where the text is only a part.
    pub whole: Option<&'a str>,
}

/// Which stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamKind {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl StreamKind {
    /// The name of the field of the result.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// Keeps the whole of what a command printed, and leaves a summary of each stream in its result. Every door with the dialect gives
/// that out. Blocks.
pub fn sum_up(command: &str, result: &mut CallResult, log: &dyn ExecLog) {
    let data = match data_of(result) {
        Ok(Some(data)) if data.is_object() => data,
        // Nothing ran.
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
    // What comes from the cache was kept when it ran.
    if !result.meta.cached {
        let ended = Ended::of(&Ran { command, timeout: 0 }, result, Some(&data));
        let outcome = format!("{} exit:{}", ended.status, ended.exit);
        let record = Record { command, meta: &result.meta, outcome: &outcome, streams: kinds.map(stream) };
        match log.keep(&record, &mut |kind, bytes| sums[usize::from(kind == StreamKind::Stderr)].push(bytes))
        {
            Ok(path) => reference = Some(path),
            Err(error) => {
                is_partial = true;
                let warning = format!("the whole output could not be kept in the exec log: {error}");
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
        // What is short enough needs no summary.
        if !is_short {
            data[kind.as_str()] = sum.finish().into();
        }
    }
    if let Some(reference) = reference {
        data[LOG_REF] = reference.into();
    }
    give_back(result, data);
    // Nobody is to read the whole by its reference; what is missing of it is said.
    result.meta.truncated = is_partial;
    result.meta.output_ref = None;
    result.meta.outputs.clear();
}

fn give_back(result: &mut CallResult, data: Value) {
    match &mut result.outcome {
        Outcome::Ok(whole) => *whole = data.into(),
        Outcome::Err(error) => error.data = Some(data),
    }
}
