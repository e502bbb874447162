//! `output_read`: the whole of an output that an earlier answer shortened.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::sync::Arc;

use percent_encoding::percent_decode_str;
use regex::bytes::{Regex, RegexBuilder};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{
    Class, Code, Context, Example, Lane, Level, Outputs, Place, Plan, Presentation, Spec, Stop, TextCap,
    Timeout, Tool, ToolError,
};

/// The `output_read` tool.
pub struct OutputRead;

/// Arguments of `output_read`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// `output_ref` of an earlier result, or its URI.
    output_ref: String,
    /// First byte, from 0.
    #[serde(default)]
    offset: u64,
    /// Maximum bytes, default 20000.
    #[schemars(range(min = 1, max = 1_000_000))]
    limit: Option<u64>,
    /// Return only matching lines, numbered.
    regex: Option<String>,
}

/// Bytes in an answer by default: below the text limit of an answer.
const DEFAULT_LIMIT: u64 = 20_000;
const MAX_LIMIT: u64 = 1_000_000;
/// Maximum length of a line in bytes. A longer line is matched and shown in pieces of this size, so
/// that memory stays bounded.
const LONGEST_LINE: u64 = 64 * 1024;

/// Result of `output_read`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// `offset` of the next part; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<u64>,
    /// Size of the whole output in bytes.
    size_bytes: u64,
    /// Text of this part.
    content: String,
}

impl Tool for OutputRead {
    type Args = Args;
    type Output = Output;

    const SPEC: Spec = Spec {
        name: "output_read",
        title: "Read a stored output",
        description: "Read the full output that a result shortened.",
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
        wanted(args)?;
        Ok(Plan::of(vec![]))
    }

    fn answer_bytes(&self, args: &Args) -> u64 {
        // The plan refuses arguments that cannot be parsed.
        wanted(args).map_or(DEFAULT_LIMIT, |wanted| wanted.page.bytes)
    }

    async fn run(&self, context: &Context, args: Args) -> Result<Output, ToolError> {
        let outputs = context.service::<Arc<dyn Outputs>>()?;
        let wanted = wanted(&args)?;
        let mut file = outputs.open(&wanted.id)?;
        let size_bytes = file.seek(SeekFrom::End(0)).map_err(unreadable)?;
        let (content, next) = match wanted.regex {
            Some(regex) => matching(file, &regex, wanted.offset, wanted.page, &context.stop)?,
            None => part(file, wanted.offset, wanted.page)?,
        };
        Ok(Output { next_offset: (next < size_bytes).then_some(next), size_bytes, content })
    }
}

/// The parsed arguments.
struct ParsedArgs {
    id: String,
    offset: u64,
    page: PageSize,
    regex: Option<Regex>,
}

/// Maximum size of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PageSize {
    bytes: u64,
    /// True if the caller gave no limit, so that the page also has a maximum number of lines.
    is_default: bool,
}

/// Prefix of the URI of a stored output, as the resources of MCP name it.
const URI: &str = "handfast://output/";

/// Parses the arguments. An option of the URI applies if no argument overrides it.
///
/// # Errors
/// `EVALIDATION` for unknown options of a URI, and for an invalid regular expression.
fn wanted(args: &Args) -> Result<ParsedArgs, ToolError> {
    let (mut id, mut offset, mut limit) = (args.output_ref.clone(), None, None);
    let mut pattern = None;
    if let Some(named) = args.output_ref.trim().strip_prefix(URI) {
        let (name, options) = named.split_once('?').unwrap_or((named, ""));
        id = decoded(name)?;
        for option in options.split('&').filter(|option| !option.is_empty()) {
            let (key, value) = option.split_once('=').unwrap_or((option, ""));
            let value = decoded(value)?;
            let number = || value.parse().map_err(|_| no_option(option));
            match key {
                "offset" => offset = Some(number()?),
                "limit" => limit = Some(number()?),
                "regex" => pattern = Some(value),
                _ => return Err(no_option(option)),
            }
        }
    }
    let regex = args.regex.as_deref().or(pattern.as_deref()).map(compile).transpose()?;
    let offset = if args.offset > 0 { args.offset } else { offset.unwrap_or(0) };
    let limit = args.limit.or(limit);
    let page =
        PageSize { bytes: limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT), is_default: limit.is_none() };
    Ok(ParsedArgs { id, offset, page, regex })
}

fn decoded(text: &str) -> Result<String, ToolError> {
    let text = percent_decode_str(text).decode_utf8();
    text.map(Into::into).map_err(|error| ToolError::validation("output_ref", error))
}

fn no_option(option: &str) -> ToolError {
    let option: String = option.chars().take(100).collect();
    ToolError::validation("output_ref", format!("unknown option `{option}` in the URI"))
        .hint("use offset=BYTE, limit=BYTES and regex=PATTERN, or the arguments of these names")
}

fn compile(pattern: &str) -> Result<Regex, ToolError> {
    RegexBuilder::new(pattern)
        .size_limit(1 << 20)
        .build()
        .map_err(|error| ToolError::validation("regex", "not a regular expression").hint(error.to_string()))
}

fn unreadable(error: std::io::Error) -> ToolError {
    ToolError::new(Code::Runtime, "the stored output cannot be read").because(error)
}

/// Reads at most one page from `offset`: whole lines, unless the first line is longer. Returns the
/// text and the start of the next part.
fn part(mut file: File, offset: u64, page: PageSize) -> Result<(String, u64), ToolError> {
    match file.seek(SeekFrom::Start(offset)) {
        Ok(_) => {}
        // No file of this file system is that long, so the offset is past the end.
        Err(error) if error.kind() == std::io::ErrorKind::InvalidInput => return Ok((String::new(), offset)),
        Err(error) => return Err(unreadable(error)),
    }
    let mut bytes = Vec::new();
    file.by_ref().take(page.bytes).read_to_end(&mut bytes).map_err(unreadable)?;
    let full = bytes.len() as u64 == page.bytes;
    let goes_on = full && file_goes_on(&mut file)?;
    let lines = TextCap::length_of_default_lines(&bytes).filter(|_| page.is_default);
    if let Some(length) = lines {
        bytes.truncate(length);
    } else if let Some(newline) = bytes.iter().rposition(|byte| *byte == b'\n').filter(|_| goes_on) {
        bytes.truncate(newline + 1);
    } else if goes_on {
        // A character that the limit cuts in two belongs to the next part, unless it is the whole
        // part.
        let kept = match std::str::from_utf8(&bytes) {
            Err(error) if error.error_len().is_none() && error.valid_up_to() > 0 => error.valid_up_to(),
            _ => bytes.len(),
        };
        bytes.truncate(kept);
    }
    let next = offset + bytes.len() as u64;
    Ok((String::from_utf8_lossy(&bytes).into_owned(), next))
}

/// Returns true if the file has more bytes.
fn file_goes_on(file: &mut File) -> Result<bool, ToolError> {
    file.read(&mut [0]).map(|read| read > 0).map_err(unreadable)
}

/// Returns the matching lines from `offset`, about one page of them, and the offset at which the
/// search continues.
fn matching(
    file: File,
    regex: &Regex,
    offset: u64,
    page: PageSize,
    stop: &Stop,
) -> Result<(String, u64), ToolError> {
    let mut reader = BufReader::with_capacity(64 * 1024, file);
    reader.seek(SeekFrom::Start(0)).map_err(unreadable)?;
    let (mut content, mut line, mut number, mut position) = (String::new(), Vec::new(), 1_u64, 0_u64);
    let mut room = if page.is_default { TextCap::DEFAULT_LINES } else { usize::MAX };
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
            let is_full = room == 0 || (content.len() + shown.len()) as u64 > page.bytes;
            if is_full && !content.is_empty() {
                return Ok((content, position));
            }
            content.push_str(&shown);
            room -= 1;
        }
        position += read as u64;
        number += u64::from(ended);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// Returns a page size that a caller gave.
    fn bytes(bytes: u64) -> PageSize {
        PageSize { bytes, is_default: false }
    }

    const DEFAULT: PageSize = PageSize { bytes: DEFAULT_LIMIT, is_default: true };

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
            let (part, next) = part(file(whole.as_bytes()), offset, bytes(7)).unwrap();
            assert!(!part.contains('\u{fffd}'), "{part:?}");
            assert!(next > offset);
            joined.push_str(&part);
            offset = next;
        }
        assert_eq!(joined, whole);
    }

    #[test]
    fn a_part_ends_with_a_line_where_one_fits() {
        let (text, next) = part(file("one\ntwö\nthree".as_bytes()), 0, bytes(10)).unwrap();
        assert_eq!((text.as_str(), next), ("one\ntwö\n", 9));
        let (text, next) = part(file(b"one\ntwo\nthree"), 8, bytes(5)).unwrap();
        assert_eq!((text.as_str(), next), ("three", 13));
        let (text, next) = part(file(b"one\ntwo\nthree"), 8, bytes(4)).unwrap();
        assert_eq!((text.as_str(), next), ("thre", 12));
    }

    #[test]
    fn a_page_of_default_size_has_fewer_lines_than_clients_cut() {
        let lines = "x\n".repeat(5_000);
        let regex = Regex::new("x").unwrap();
        let (text, next) = part(file(lines.as_bytes()), 0, DEFAULT).unwrap();
        assert_eq!((text.lines().count(), next), (1_900, 3_800));
        let (text, next) = matching(file(lines.as_bytes()), &regex, next, DEFAULT, &Stop::default()).unwrap();
        assert_eq!((text.lines().next(), text.lines().last()), (Some("1901: x"), Some("3800: x")));
        let (text, next) = part(file(lines.as_bytes()), next, DEFAULT).unwrap();
        assert_eq!((text.lines().count(), next), (1_200, 10_000));
        let (_, next) = part(file(lines.as_bytes()), 0, bytes(9_000)).unwrap();
        assert_eq!(next, 9_000, "the caller gave this limit");
    }

    #[test]
    fn an_output_is_named_by_its_reference_or_by_its_uri() {
        let asked = |arguments: serde_json::Value| wanted(&serde_json::from_value(arguments).unwrap());
        let told = |arguments| {
            let ParsedArgs { id, offset, page, regex } = asked(arguments).unwrap();
            (id, offset, page, regex.map(|regex| regex.to_string()))
        };
        let plain = |id: &str| (id.to_owned(), 0, DEFAULT, None);
        for (reference, id) in [
            ("01a.stdout", "01a.stdout"),
            ("handfast://output/01a.stdout", "01a.stdout"),
            (" handfast://output/01a.matches.0.text\n", "01a.matches.0.text"),
            ("handfast://output/01a.a%20b?", "01a.a b"),
            ("handfast://file/a", "handfast://file/a"),
        ] {
            assert_eq!(told(serde_json::json!({"output_ref": reference})), plain(id));
        }
        let uri = "handfast://output/01a.stdout?offset=3&limit=9&regex=%5Ea";
        let by_uri = ("01a.stdout".to_owned(), 3, bytes(9), Some("^a".to_owned()));
        assert_eq!(told(serde_json::json!({ "output_ref": uri })), by_uri);
        let by_arguments = ("01a.stdout".to_owned(), 5, bytes(7), Some("b".to_owned()));
        let arguments = serde_json::json!({"output_ref": uri, "offset": 5, "limit": 7, "regex": "b"});
        assert_eq!(told(arguments), by_arguments);
        for wrong in ["?offset=x", "?path=a", "?limit", "?regex=(", "%ff"] {
            let error = asked(serde_json::json!({"output_ref": format!("{URI}a{wrong}")})).err().unwrap();
            assert_eq!(error.code, Code::Validation, "{wrong}");
        }
    }

    #[test]
    fn a_part_of_something_that_is_no_text_still_moves_on() {
        let (_, next) = part(file(&[0xff; 20]), 0, bytes(4)).unwrap();
        assert_eq!(next, 4);
        let (text, next) = part(file("€".as_bytes()), 0, bytes(1)).unwrap();
        assert_eq!((text.as_str(), next), ("\u{fffd}", 1));
    }

    #[test]
    fn matching_lines_carry_their_numbers_and_the_limit_continues() {
        let regex = compile("e").unwrap();
        let whole = b"one\ntwo\nthree\nseven\n";
        let stop = Stop::default();
        let (content, next) = matching(file(whole), &regex, 0, bytes(10), &stop).unwrap();
        assert_eq!(content, "1: one\n");
        let (content, next) = matching(file(whole), &regex, next, bytes(100), &stop).unwrap();
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
            let (text, next) = part(file(b"abc"), beyond, bytes(10)).unwrap();
            assert_eq!((text.as_str(), next), ("", beyond));
        }
    }

    #[test]
    fn a_line_without_end_costs_bounded_memory() {
        let regex = compile("needle").unwrap();
        let mut whole = vec![b'x'; 1 << 20];
        whole.extend_from_slice(b"needle");
        let (content, _) = matching(file(&whole), &regex, 0, bytes(100), &Stop::default()).unwrap();
        assert!(content.len() as u64 <= LONGEST_LINE + 10, "{}", content.len());
        assert!(content.contains("needle"));
    }
}
