//! Splitting of sections into chunks: pieces that a model reads whole, each with its line range in
//! the file.

use std::io::{self, Read};

use crate::Hash;
use crate::sections::{self, Section};
use crate::words::{tokens, tokens_upto};

/// Maximum tokens of one chunk, including its headings: the input of the usual model (256), less
/// its two markers.
const LARGEST: usize = 254;

/// Tokens that two neighbouring chunks of one section share, a fifth: text around a cut is complete
/// in one of them.
const OVERLAP: usize = 50;

/// Approximate tokens of one part of a long line.
const PART: usize = 48;

/// One piece of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// Headings above the chunk, the outermost first, separated by ` > `.
    pub section: String,
    /// Line range in the file, from 1, both ends included.
    pub lines: (usize, usize),
    /// Text as in the file.
    pub text: String,
    /// Length of the chunk's own heading at the beginning of the text, in bytes. The path of the
    /// section already contains that heading.
    pub heading: usize,
}

impl Chunk {
    /// Returns the text for indexing and embedding: the path of the headings, then the body.
    pub(crate) fn embedded(&self) -> String {
        embedded(&self.section, &self.text, self.heading)
    }

    pub(crate) fn hash(&self) -> Hash {
        Hash::of(self.embedded().as_bytes())
    }
}

/// Builds the text that is embedded for a chunk.
pub(crate) fn embedded(section: &str, text: &str, heading: usize) -> String {
    let body = text.get(heading..).unwrap_or(text).trim();
    if section.is_empty() { body.to_owned() } else { format!("{section}\n{body}") }
}

/// Reads a markdown text in UTF-8 and passes its chunks to `each`, in order.
///
/// # Errors
/// The error of the reader or of `each`.
pub fn chunks<E: From<io::Error>>(
    text: impl Read,
    each: &mut dyn FnMut(Chunk) -> Result<(), E>,
) -> Result<(), E> {
    sections::read(text, &mut |section: &Section<'_>| split(section, each))
}

/// A part of a section that is never split.
struct Part {
    start: usize,
    end: usize,
    line: usize,
    tokens: usize,
    /// True if a block begins here.
    opens: bool,
}

fn split<E>(section: &Section<'_>, each: &mut dyn FnMut(Chunk) -> Result<(), E>) -> Result<(), E> {
    let path = section.path.join(" > ");
    // At least half of a chunk is text, regardless of the length of its headings.
    let room = LARGEST - tokens_upto(&path, LARGEST / 2);
    let parts = parts(section);
    let mut first = 0;
    while first < parts.len() {
        let last = last_of(&parts, first, room);
        let chosen = parts.get(first..last).unwrap_or_default();
        let (Some(begin), Some(end)) = (chosen.first(), chosen.last()) else { return Ok(()) };
        let text = section.text.get(begin.start..end.end).unwrap_or_default();
        let lines_before_end = text.trim_end().bytes().filter(|byte| *byte == b'\n').count();
        if !text.trim().is_empty() {
            each(Chunk {
                section: path.clone(),
                lines: (begin.line, begin.line + lines_before_end),
                text: text.trim_end().to_owned(),
                heading: if begin.start == 0 { section.heading.min(text.trim_end().len()) } else { 0 },
            })?;
        }
        if last >= parts.len() {
            return Ok(());
        }
        first = next(&parts, first, last);
    }
    Ok(())
}

/// Returns the end of the chunk that begins with part `first`: the limit of `room` tokens, or the
/// last block that starts in its second half.
fn last_of(parts: &[Part], first: usize, room: usize) -> usize {
    let mut taken = 0;
    let mut block = None;
    for (index, part) in parts.iter().enumerate().skip(first) {
        if index > first && part.opens && taken >= room / 2 {
            block = Some(index);
        }
        taken += part.tokens;
        if taken > room && index > first {
            return block.unwrap_or(index);
        }
    }
    parts.len()
}

/// Returns the first part of the next chunk: slightly before the end of this one, but after its beginning.
fn next(parts: &[Part], first: usize, last: usize) -> usize {
    let mut common = 0;
    let mut begin = last;
    while begin > first + 1 {
        let Some(before) = parts.get(begin - 1) else { break };
        common += before.tokens;
        if common > OVERLAP {
            break;
        }
        begin -= 1;
    }
    begin
}

/// Splits a section into lines, and long lines into several parts.
fn parts(section: &Section<'_>) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut start = 0;
    let mut blocks = section.blocks.iter().copied().peekable();
    for (number, line) in section.text.split_inclusive('\n').enumerate() {
        let end = start + line.len();
        let mut opens = false;
        while blocks.next_if(|block| *block < end).is_some() {
            opens = true;
        }
        let whole = tokens(line);
        let line_number = section.line + number;
        if whole <= PART * 2 {
            parts.push(Part { start, end, line: line_number, tokens: whole, opens });
        } else {
            cut_line(line, &mut |range| {
                let text = line.get(range.clone()).unwrap_or_default();
                let (from, to) = (start + range.start, start + range.end);
                let opens = opens && range.start == 0;
                parts.push(Part { start: from, end: to, line: line_number, tokens: tokens(text), opens });
            });
        }
        start = end;
    }
    parts
}

/// Splits a long line after sentences, else between words, else between characters.
fn cut_line(line: &str, each: &mut dyn FnMut(std::ops::Range<usize>)) {
    let mut start = 0;
    let (mut sentence, mut word) = (None, None);
    let mut taken = 0.0_f64;
    let mut before = ' ';
    for (at, character) in line.char_indices() {
        let behind = at + character.len_utf8();
        if character.is_whitespace() {
            word = Some(behind);
            if matches!(before, '.' | '!' | '?' | ';' | ':') {
                sentence = Some(behind);
            }
        } else if matches!(character, '。' | '！' | '？') {
            sentence = Some(behind);
        }
        // Rough estimate: each part is counted again.
        taken += if character.is_ascii_alphanumeric() || character.is_whitespace() { 0.25 } else { 1.0 };
        before = character;
        #[expect(clippy::cast_precision_loss, reason = "a small constant")]
        if taken >= PART as f64 {
            let end = sentence.or(word).unwrap_or(behind);
            each(start..end);
            start = end;
            taken = 0.0;
            (sentence, word) = (None, None);
        }
    }
    if start < line.len() {
        each(start..line.len());
    }
}
