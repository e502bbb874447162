//! `file_read`: the content of a file, or a part of it.

use std::io;
use std::path::Path;

use roots::Roots;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{
    Class, Context, Effect, Example, Lane, Level, Place, Plan, Presentation, Spec, TextCap, Timeout, Tool,
    ToolError,
};
use tool_support::files::failure;

use crate::picture::{self, LARGEST_PICTURE, LONGEST_SIDE, Picture};
use crate::range_read::{FileFacts, Reader};
use crate::text::{Decoding, LONGEST_CHARACTER};
use crate::version::HASHED_BYTES;

/// The `file_read` tool.
pub(crate) struct FileRead;

const DESCRIPTION: &str = "Read a file; pictures are shown, other binary files are Base64. Continue a long file at `next_offset`, or request `lines`.";

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// Path, relative or absolute.
    path: String,
    /// Encoding of the file, such as base64, latin1, utf-16le.
    #[serde(default = "default_encoding")]
    encoding: String,
    /// Read only these lines.
    lines: Option<Lines>,
    /// First byte, from 0.
    #[serde(default)]
    offset: u64,
    /// Maximum bytes, default 25000.
    #[schemars(range(min = 1, max = 33_554_432))]
    max_bytes: Option<u64>,
    /// Known `version`: if the file still has it, no content is returned.
    version: Option<String>,
}

#[derive(Deserialize, JsonSchema, Clone, Copy)]
#[serde(deny_unknown_fields)]
struct Lines {
    /// First line, from 1.
    #[serde(default = "default_start")]
    #[schemars(range(min = 1))]
    start: u64,
    /// Last line, included.
    #[schemars(range(min = 1))]
    end: Option<u64>,
}

// The order of the fields matters: a model reads about missing parts before the content.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Output {
    /// `offset` of the next part.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<u64>,
    /// Identifier of the current content.
    version: String,
    /// Missing parts, with reasons.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    /// Size of the whole file.
    size_bytes: u64,
    /// Lines of the whole file.
    #[serde(skip_serializing_if = "Option::is_none")]
    line_count: Option<u64>,
    /// Media type.
    mime_type: String,
    /// Encoding of `content`.
    encoding: String,
    /// True if cut at `max_bytes`.
    truncated: bool,
    /// True if the file still has the given `version`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    unchanged: bool,
    /// Size of a picture.
    #[serde(skip_serializing_if = "Option::is_none")]
    picture: Option<Picture>,
    /// Text, or Base64.
    content: String,
}

/// Default maximum of the content, in characters: the amount that model hosts show without a cut of
/// their own (design, section 4).
const DEFAULT_CHARACTERS: usize = TextCap::DEFAULT_CHARACTERS;
/// Maximum size of a message that a front end accepts (design, section 4).
const LARGEST_MAX_BYTES: u64 = 32 << 20;

fn default_encoding() -> String {
    "utf-8".to_owned()
}

fn default_start() -> u64 {
    1
}

impl Tool for FileRead {
    type Args = Args;
    type Output = Output;
    const SPEC: Spec = Spec {
        name: "file_read",
        title: "Read a file",
        description: DESCRIPTION,
        example: Example {
            files: &[("notes.txt", "one\ntwo\nthree\n")],
            arguments: r#"{"path": "notes.txt", "lines": {"start": 2, "end": 2}}"#,
            result: r#"{"content": "two\n", "size_bytes": 14, "mime_type": "text/plain", "line_count": 3,
                        "encoding": "utf-8", "truncated": false}"#,
        },
        level: Level::Safe,
        class: Class::READ,
        timeout: Timeout::fixed(30),
        lane: Lane::Read,
        text: TextCap::ByArguments,
        presentation: Presentation::Text { field: "content" },
    };

    fn plan(&self, args: &Args, place: &Place) -> Result<Plan, ToolError> {
        Decoding::of(&args.encoding)?;
        if let Some(most) = args.max_bytes.filter(|most| !(1..=LARGEST_MAX_BYTES).contains(most)) {
            let problem = format!("{most} is not between 1 and {LARGEST_MAX_BYTES}");
            return Err(ToolError::validation("max_bytes", problem));
        }
        if let Some(lines) = args.lines {
            if args.offset != 0 {
                return Err(ToolError::validation("offset", "cannot be combined with `lines`"));
            }
            if lines.start == 0 {
                return Err(ToolError::validation("lines.start", "lines are counted from 1"));
            }
            if let Some(end) = lines.end.filter(|end| *end < lines.start) {
                return Err(ToolError::validation(
                    "lines.end",
                    format!("{end} is before `lines.start`, {}", lines.start),
                ));
            }
        }
        Ok(Plan::of(vec![Effect::Read { path: place.resolve("path", &args.path)? }]))
    }

    fn answer_bytes(&self, args: &Args) -> u64 {
        let may_be_shown = may_show(args) && picture::may_be(Path::new(&args.path));
        // A picture is sent as Base64.
        let unless_said = if may_be_shown { LARGEST_PICTURE / 3 * 4 } else { DEFAULT_CHARACTERS as u64 };
        args.max_bytes.unwrap_or(unless_said)
    }

    fn answers_with_file(&self) -> bool {
        true
    }

    async fn run(&self, context: &Context, args: Args) -> Result<Output, ToolError> {
        let path = context.place.resolve("path", &args.path)?;
        let opened = context.service::<Roots>()?.open_file(&path).map_err(failure(context))?;
        let shown = context.place.show(&path);
        let failed = |error| stopped_or(context, "read", &shown, error);
        let decoding = Decoding::of(&args.encoding)?;
        let mut reader = Reader { opened, ends: decoding.line_ends(), context };
        let size = reader.opened.metadata.size_bytes;
        if let Some(had) = &args.version {
            let whole = reader.whole(None).map_err(failed)?;
            if whole.version == *had {
                let mime_type = media_type(&path, true);
                let same = Output::of(whole, size, mime_type, args.encoding);
                return Ok(Output { unchanged: true, ..same });
            }
        }
        let may_show = context.shows_pictures && may_show(&args);
        let picture = if may_show { Picture::of(&reader.opened.file).map_err(failed)? } else { None };
        let most = match (args.max_bytes, picture) {
            (Some(most), _) => usize::try_from(most).unwrap_or(usize::MAX),
            (None, Some((kind, picture))) if !picture.is_shown(size) => {
                let whole = reader.whole(None).map_err(failed)?;
                let unseen = Output::of(whole, size, kind.to_owned(), "base64".to_owned());
                let note = Some(too_large(picture, size));
                return Ok(Output {
                    truncated: true,
                    picture: Some(picture),
                    note,
                    line_count: None,
                    ..unseen
                });
            }
            (None, Some(_)) => usize::try_from(size).unwrap_or(usize::MAX),
            (None, None) => DEFAULT_CHARACTERS,
        };
        let most = most.max(LONGEST_CHARACTER);
        let part = match args.lines {
            Some(lines) => reader.lines(lines.start, lines.end, most),
            None => reader.from(args.offset, most),
        };
        let mut part = part.map_err(failed)?;
        // Text with NUL bytes is UTF-16, where a byte 10 is only a half of a character.
        if args.max_bytes.is_none()
            && picture.is_none()
            && !part.bytes.contains(&0)
            && let Some(length) = TextCap::length_of_default_lines(&part.bytes)
        {
            part.bytes.truncate(length);
            part.cut = true;
        }
        let whole = reader.whole(Some(&part)).map_err(failed)?;
        let start = part.start;
        let mut decoded = decoding.decode(part.bytes, start == 0, part.cut);
        if args.max_bytes.is_none() && picture.is_none() {
            decoded.bound_base64(DEFAULT_CHARACTERS);
        }
        let cut = part.cut || decoded.shortened;
        let is_text = decoded.encoding != "base64";
        let next = start + u64::try_from(decoded.used).unwrap_or_default();
        let mut notes = Vec::new();
        if cut {
            notes.push(format!("this is byte {start} to {next} of {size}; continue with `offset` {next}"));
        }
        if whole.line_count.is_none() && is_text {
            notes.push(format!("line_count is omitted: the file is larger than {HASHED_BYTES} bytes"));
        }
        if let Some(likely) = decoded.likely {
            notes.push(format!(
                "the file is not UTF-8, so `content` is Base64; for text, set `encoding` to {likely} or to the real encoding"
            ));
        }
        if decoded.replaced {
            notes.push(format!("bytes that are not {} are shown as U+FFFD", decoded.encoding));
        }
        let mime_type = picture.map_or_else(|| media_type(&path, is_text), |(kind, _)| kind.to_owned());
        let read = Output::of(whole, size, mime_type, decoded.encoding);
        Ok(Output {
            next_offset: cut.then_some(next),
            line_count: read.line_count.filter(|_| is_text),
            note: (!notes.is_empty()).then(|| notes.join("; ")),
            truncated: cut,
            picture: picture.map(|(_, picture)| picture),
            content: decoded.text,
            ..read
        })
    }
}

impl Output {
    /// Creates an output without content for this version of a file.
    fn of(whole: FileFacts, size_bytes: u64, mime_type: String, encoding: String) -> Self {
        Self {
            next_offset: None,
            version: whole.version,
            note: None,
            size_bytes,
            line_count: whole.line_count,
            mime_type,
            encoding,
            truncated: false,
            unchanged: false,
            picture: None,
            content: String::new(),
        }
    }
}

/// Returns true if the arguments request the whole file as shown, neither a part nor Base64.
fn may_show(args: &Args) -> bool {
    let as_it_is = matches!(Decoding::of(&args.encoding), Ok(Decoding::Utf8));
    as_it_is && args.lines.is_none() && args.offset == 0
}

/// Returns a note that a picture is too large to be shown, with advice.
fn too_large(picture: Picture, size: u64) -> String {
    let Picture { width, height } = picture;
    format!(
        "the picture has {width} x {height} pixels and {size} bytes; the limits are {LONGEST_SIDE} pixels a side and \
         {LARGEST_PICTURE} bytes: make a smaller copy, or read its bytes as Base64 with `max_bytes`"
    )
}

fn stopped_or(context: &Context, doing: &str, shown: &str, error: io::Error) -> ToolError {
    context.stop.check().err().unwrap_or_else(|| ToolError::io(doing, Path::new(shown), error))
}

/// Returns the media type for the name. Ignores a sound, video or picture type if the content is
/// text (`.ts` is a video format too).
fn media_type(path: &Path, is_text: bool) -> String {
    let guessed = mime_guess::from_path(path).first();
    let contradicts = |guess: &mime_guess::Mime| {
        let kind = guess.type_();
        is_text && (kind == "video" || kind == "audio" || (kind == "image" && guess.suffix().is_none()))
    };
    match guessed.filter(|guess| !contradicts(guess)) {
        Some(guess) => guess.essence_str().to_owned(),
        None if is_text => "text/plain".to_owned(),
        None => "application/octet-stream".to_owned(),
    }
}

#[cfg(test)]
mod tests;
