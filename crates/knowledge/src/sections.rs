//! Splitting of a text into sections: headings with their paths, and the position of each.
//!
//! A text is read in windows that end between two blocks, so that memory is bounded. A block longer
//! than a window is cut at the end of a line. The rest is parsed as a new text; the rest of a code
//! block is first skipped up to its closing fence.

use std::io::{self, Read};
use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};

/// Bytes of text that are parsed at a time.
const WINDOW: usize = 1024 * 1024;

/// Maximum length of front matter, in bytes. A longer one is read as text between two rules.
const LONGEST_FRONT: usize = 64 * 1024;

/// Maximum length of a heading in a path, in characters.
const LONGEST_HEADING: usize = 200;

/// The text below one heading.
#[derive(Debug)]
pub(crate) struct Section<'a> {
    /// Headings of the section, the outermost first.
    pub(crate) path: &'a [String],
    /// Text of the section, beginning with its heading.
    pub(crate) text: &'a str,
    /// Length of the heading in bytes; 0 for the continuation of a section from an earlier window.
    pub(crate) heading: usize,
    /// First line of the section in the file, from 1.
    pub(crate) line: usize,
    /// Byte offsets of the blocks: good positions for a cut.
    pub(crate) blocks: &'a [usize],
}

/// One block at the outermost level.
struct Block {
    range: Range<usize>,
    heading: Option<(usize, String)>,
    is_fenced: bool,
}

/// Reads a text to its end, and passes its sections to `each`.
///
/// # Errors
/// The error of the reader or of `each`.
pub(crate) fn read<E: From<io::Error>>(
    mut text: impl Read,
    each: &mut dyn FnMut(&Section<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let mut reading = Reading { path: Vec::new(), line: 1, fence: None, each };
    let mut window = String::new();
    let mut begun = false;
    loop {
        let wanted = WINDOW.saturating_sub(window.len()).max(WINDOW / 4);
        let end = fill(&mut text, &mut window, wanted)?;
        let mut from = 0;
        if !begun {
            begun = true;
            from = reading.front(&window)?;
        }
        let used = from + reading.window(window.get(from..).unwrap_or_default(), end)?;
        if end {
            return Ok(());
        }
        window.drain(..used);
    }
}

/// Reads more UTF-8 text. Returns true at the end.
fn fill(text: &mut impl Read, window: &mut String, wanted: usize) -> io::Result<bool> {
    let mut bytes = std::mem::take(window).into_bytes();
    let limit = u64::try_from(wanted).unwrap_or(u64::MAX);
    let read = text.by_ref().take(limit).read_to_end(&mut bytes)?;
    let mut end = read < wanted;
    // The window may end within a character.
    while std::str::from_utf8(&bytes).is_err_and(|error| error.error_len().is_none()) && !end {
        end = text.by_ref().take(1).read_to_end(&mut bytes)? == 0;
    }
    *window = String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
    Ok(end)
}

struct Reading<'f, E> {
    path: Vec<(usize, String)>,
    line: usize,
    /// Fence of the code block in which the previous window ended.
    fence: Option<String>,
    each: &'f mut dyn FnMut(&Section<'_>) -> Result<(), E>,
}

impl<E> Reading<'_, E> {
    /// Passes the front matter on as a section without a heading, because it is not markdown.
    /// Returns its length in bytes.
    fn front(&mut self, text: &str) -> Result<usize, E> {
        let Some(length) = front_matter(text) else { return Ok(0) };
        let (front, _) = text.split_at(length);
        let title = front.lines().find_map(|line| line.strip_prefix("title:"));
        let title = title.map(|title| title.trim().trim_matches(['"', '\'']).to_owned());
        self.give(&Section { path: &[], text: front, heading: 0, line: 1, blocks: &[] })?;
        self.line += count_lines(front);
        if let Some(title) = title.filter(|title| !title.is_empty()) {
            // Level 0 is outside every heading, so no heading replaces the title.
            self.path.push((0, cut(&title)));
        }
        Ok(length)
    }

    /// Passes the sections of a window on, up to the beginning of the last block unless `end` is
    /// true. Returns the number of bytes used.
    // BOUNDED: at most one nested call, after an open fence.
    fn window(&mut self, text: &str, end: bool) -> Result<usize, E> {
        let last_line = text.rfind('\n').map_or(text.len(), |at| at + 1);
        if let Some(fence) = self.fence.take() {
            let used = match behind_fence(text, &fence) {
                Some(used) => used,
                None if end => text.len(),
                None => {
                    self.fence = Some(fence);
                    last_line
                }
            };
            self.section(text, 0..used, 0, &[])?;
            return Ok(used
                + if end && used < text.len() {
                    self.window(text.get(used..).unwrap_or_default(), end)?
                } else {
                    0
                });
        }
        let mut blocks = blocks(text);
        let mut used = text.len();
        if !end {
            // The last section is read again with the next window, unless it fills this window.
            if let Some(last) =
                blocks.iter().rposition(|block| block.heading.is_some() && block.range.start > 0)
            {
                blocks.truncate(last + 1);
            }
            match blocks.pop() {
                Some(last) if last.range.start > 0 => used = last.range.start,
                // A single block fills the window.
                last => {
                    used = last_line;
                    self.fence = last.as_ref().filter(|block| block.is_fenced).map(|_| fence_of(text));
                    blocks.extend(last.map(|block| Block { range: 0..used, ..block }));
                }
            }
        }
        let mut start = 0;
        let mut heading = 0;
        let mut starts: Vec<usize> = Vec::new();
        for block in blocks {
            if let Some((level, title)) = block.heading {
                self.section(text, start..block.range.start, heading, &starts)?;
                self.path.retain(|(above, _)| *above < level);
                self.path.push((level, title));
                start = block.range.start;
                heading = block.range.len();
                starts.clear();
            } else {
                starts.push(block.range.start - start);
            }
        }
        self.section(text, start..used, heading, &starts)?;
        Ok(used)
    }

    fn section(
        &mut self,
        text: &str,
        range: Range<usize>,
        heading: usize,
        blocks: &[usize],
    ) -> Result<(), E> {
        let text = text.get(range).unwrap_or_default();
        let path: Vec<String> = self.path.iter().map(|(_, title)| title.clone()).collect();
        let line = self.line;
        self.line += count_lines(text);
        self.give(&Section { path: &path, text, heading: heading.min(text.len()), line, blocks })
    }

    fn give(&mut self, section: &Section<'_>) -> Result<(), E> {
        if section.text.trim().is_empty() { Ok(()) } else { (self.each)(section) }
    }
}

/// Returns the fence of the code block at the beginning of a text.
fn fence_of(text: &str) -> String {
    let text = text.trim_start();
    let sign = text.chars().next().unwrap_or('`');
    text.chars().take_while(|c| *c == sign).collect()
}

/// Returns the end of the line with the closing fence.
fn behind_fence(text: &str, fence: &str) -> Option<usize> {
    let sign = fence.chars().next()?;
    let mut end = 0;
    text.split_inclusive('\n').find_map(|line| {
        end += line.len();
        let marks = line.trim();
        (marks.starts_with(fence) && marks.chars().all(|c| c == sign)).then_some(end)
    })
}

fn count_lines(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b'\n').count()
}

/// Returns the length of the front matter at the beginning of a text, with its delimiters.
fn front_matter(text: &str) -> Option<usize> {
    let fence = |line: &str, marks: &[&str]| marks.contains(&line.trim_end());
    let mut length = 0;
    for (number, line) in text.split_inclusive('\n').enumerate() {
        length += line.len();
        if number == 0 {
            if !fence(line, &["---"]) {
                return None;
            }
        } else if fence(line, &["---", "..."]) {
            return Some(length);
        }
        if length > LONGEST_FRONT {
            return None;
        }
    }
    None
}

/// Returns the blocks at the outermost level, in order.
fn blocks(text: &str) -> Vec<Block> {
    let mut found: Vec<Block> = Vec::new();
    let mut depth = 0_usize;
    let options = Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES;
    for (event, range) in Parser::new_ext(text, options).into_offset_iter() {
        match event {
            Event::Start(tag) => {
                if depth == 0 {
                    let heading = match &tag {
                        Tag::Heading { level, .. } => Some((rank(*level), String::new())),
                        _ => None,
                    };
                    let is_fenced = matches!(tag, Tag::CodeBlock(CodeBlockKind::Fenced(_)));
                    found.push(Block { range, heading, is_fenced });
                }
                depth += 1;
            }
            Event::End(tag) => {
                depth = depth.saturating_sub(1);
                if let (TagEnd::Heading(_), Some((_, title))) = (tag, last_heading(&mut found)) {
                    *title = cut(title);
                }
            }
            Event::Text(words) | Event::Code(words) => {
                if let Some((_, title)) = last_heading(&mut found).filter(|_| depth > 0) {
                    title.push_str(&words);
                }
            }
            Event::SoftBreak | Event::HardBreak => {
                if let Some((_, title)) = last_heading(&mut found).filter(|_| depth > 0) {
                    title.push(' ');
                }
            }
            Event::Rule if depth == 0 => found.push(Block { range, heading: None, is_fenced: false }),
            _ => {}
        }
    }
    found
}

fn last_heading(found: &mut [Block]) -> Option<&mut (usize, String)> {
    found.last_mut().and_then(|block| block.heading.as_mut())
}

fn rank(level: HeadingLevel) -> usize {
    match level {
        HeadingLevel::H1 => 1,
        HeadingLevel::H2 => 2,
        HeadingLevel::H3 => 3,
        HeadingLevel::H4 => 4,
        HeadingLevel::H5 => 5,
        HeadingLevel::H6 => 6,
    }
}

/// Joins a heading to one line, and truncates it to the maximum length.
fn cut(title: &str) -> String {
    let words = title.split_whitespace().collect::<Vec<_>>().join(" ");
    words.chars().take(LONGEST_HEADING).collect()
}
