//! `output_read`: the whole of an output that an earlier answer had to shorten.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::sync::Arc;

use regex::bytes::{Regex, RegexBuilder};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{
    Class, Code, Context, Example, Lane, Level, Outputs, Place, Plan, Presentation, Spec, Stop, TextCap,
    Timeout, Tool, ToolError,
};

/// Reads a part of a kept output.
pub struct OutputRead;

/// The arguments.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// From that answer.
    output_ref: String,
    /// First byte.
    #[serde(default)]
    offset: u64,
    /// Bytes, default 20000.
    #[schemars(range(min = 1, max = 1_000_000))]
    limit: Option<u64>,
    /// Only matching lines, numbered.
    regex: Option<String>,
}

/// Bytes in an answer unless asked for more: below the text limit of an answer.
const DEFAULT_LIMIT: u64 = 20_000;
const MAX_LIMIT: u64 = 1_000_000;
/// A longer line is matched and shown in pieces of this many bytes, so that memory stays bounded.
const LONGEST_LINE: u64 = 64 * 1024;

/// A part of the output.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// The text of this part.
    content: String,
    /// Where the next part starts; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<u64>,
    /// Bytes in all.
    size_bytes: u64,
}

impl Tool for OutputRead {
    type Args = Args;
    type Output = Output;

    const SPEC: Spec = Spec {
        name: "output_read",
        title: "Read a kept output",
        description: "Reads an output that an answer shortened.",
        example: Example {
            files: &[],
            arguments: r#"{"output_ref": "example", "regex": "error", "limit": 200}"#,
            result: r#"{"content": "2: error: two\n", "size_bytes": 15}"#,
        },
        level: Level::Safe,
        class: Class::READ,
        timeout: Timeout::fixed(60),
        lane: Lane::Read,
        text: TextCap::ByArguments,
        presentation: Presentation::Text { field: "content" },
    };

    fn plan(&self, args: &Args, _place: &Place) -> Result<Plan, ToolError> {
        args.regex.as_deref().map(compile).transpose()?;
        Ok(Plan::of(vec![]))
    }

    fn answer_bytes(&self, args: &Args) -> u64 {
        args.limit.unwrap_or(DEFAULT_LIMIT).min(MAX_LIMIT)
    }

    async fn run(&self, context: &Context, args: Args) -> Result<Output, ToolError> {
        let outputs = context.service::<Arc<dyn Outputs>>()?;
        let mut file = outputs.open(&args.output_ref)?;
        let size_bytes = file.seek(SeekFrom::End(0)).map_err(unreadable)?;
        let limit = args.limit.unwrap_or(DEFAULT_LIMIT).min(MAX_LIMIT);
        let (content, next) = match args.regex.as_deref().map(compile).transpose()? {
            Some(regex) => matching(file, &regex, args.offset, limit, &context.stop)?,
            None => part(file, args.offset, limit)?,
        };
        Ok(Output { content, next_offset: (next < size_bytes).then_some(next), size_bytes })
    }
}

fn compile(pattern: &str) -> Result<Regex, ToolError> {
    RegexBuilder::new(pattern)
        .size_limit(1 << 20)
        .build()
        .map_err(|error| ToolError::validation("regex", "not a regular expression").hint(error.to_string()))
}

fn unreadable(error: std::io::Error) -> ToolError {
    ToolError::new(Code::Runtime, "the kept output cannot be read").because(error)
}

/// `limit` bytes from `offset`, cut between characters, and where the next part starts.
fn part(mut file: File, offset: u64, limit: u64) -> Result<(String, u64), ToolError> {
    match file.seek(SeekFrom::Start(offset)) {
        Ok(_) => {}
        // No file of this file system is that long: it lies behind the end, too.
        Err(error) if error.kind() == std::io::ErrorKind::InvalidInput => return Ok((String::new(), offset)),
        Err(error) => return Err(unreadable(error)),
    }
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes).map_err(unreadable)?;
    let full = bytes.len() as u64 == limit;
    if full {
        // A character that the limit cuts in two belongs to the next part, unless it is all there is.
        let kept = match std::str::from_utf8(&bytes) {
            Err(error) if error.error_len().is_none() && error.valid_up_to() > 0 => error.valid_up_to(),
            _ => bytes.len(),
        };
        bytes.truncate(kept);
    }
    let next = offset + bytes.len() as u64;
    Ok((String::from_utf8_lossy(&bytes).into_owned(), next))
}

/// The matching lines from `offset`, about `limit` bytes of them, and where the search goes on.
fn matching(
    file: File,
    regex: &Regex,
    offset: u64,
    limit: u64,
    stop: &Stop,
) -> Result<(String, u64), ToolError> {
    let mut reader = BufReader::with_capacity(64 * 1024, file);
    reader.seek(SeekFrom::Start(0)).map_err(unreadable)?;
    let (mut content, mut line, mut number, mut position) = (String::new(), Vec::new(), 1_u64, 0_u64);
    loop {
        stop.check()?;
        line.clear();
        let read = reader.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line).map_err(unreadable)?;
        if read == 0 {
            return Ok((content, position));
        }
        let ended = line.ends_with(b"\n");
        let text = line.strip_suffix(b"\n").unwrap_or(&line);
        if position >= offset && regex.is_match(text) {
            let shown = format!("{number}: {}\n", String::from_utf8_lossy(text));
            if !content.is_empty() && (content.len() + shown.len()) as u64 > limit {
                return Ok((content, position));
            }
            content.push_str(&shown);
        }
        position += read as u64;
        number += u64::from(ended);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn file(content: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(content).unwrap();
        file
    }

    #[test]
    fn parts_join_to_the_whole_and_no_character_is_cut() {
        let whole = "äöü€ and so on\n".repeat(50);
        let (mut joined, mut offset) = (String::new(), 0);
        while offset < whole.len() as u64 {
            let (part, next) = part(file(whole.as_bytes()), offset, 7).unwrap();
            assert!(!part.contains('\u{fffd}'), "{part:?}");
            assert!(next > offset);
            joined.push_str(&part);
            offset = next;
        }
        assert_eq!(joined, whole);
    }

    #[test]
    fn a_part_of_something_that_is_no_text_still_moves_on() {
        let (_, next) = part(file(&[0xff; 20]), 0, 4).unwrap();
        assert_eq!(next, 4);
        let (text, next) = part(file("€".as_bytes()), 0, 1).unwrap();
        assert_eq!((text.as_str(), next), ("\u{fffd}", 1));
    }

    #[test]
    fn matching_lines_carry_their_numbers_and_the_limit_continues() {
        let regex = compile("e").unwrap();
        let whole = b"one\ntwo\nthree\nseven\n";
        let stop = Stop::default();
        let (content, next) = matching(file(whole), &regex, 0, 10, &stop).unwrap();
        assert_eq!(content, "1: one\n");
        let (content, next) = matching(file(whole), &regex, next, 100, &stop).unwrap();
        assert_eq!(content, "3: three\n4: seven\n");
        assert_eq!(next, whole.len() as u64);
    }

    #[test]
    fn a_bad_expression_is_refused_with_its_field() {
        let error = compile("(").unwrap_err();
        assert_eq!(error.code, Code::Validation);
        assert!(error.message.contains("`regex`"));
    }

    #[test]
    fn an_offset_may_lie_behind_the_end_and_behind_that_of_any_file() {
        for beyond in [4, i64::MAX.unsigned_abs(), 1 << 63, u64::MAX] {
            let (text, next) = part(file(b"abc"), beyond, 10).unwrap();
            assert_eq!((text.as_str(), next), ("", beyond));
        }
    }

    #[test]
    fn a_line_without_end_costs_bounded_memory() {
        let regex = compile("needle").unwrap();
        let mut whole = vec![b'x'; 1 << 20];
        whole.extend_from_slice(b"needle");
        let (content, _) = matching(file(&whole), &regex, 0, 100, &Stop::default()).unwrap();
        assert!(content.len() as u64 <= LONGEST_LINE + 10, "{}", content.len());
        assert!(content.contains("needle"));
    }
}
