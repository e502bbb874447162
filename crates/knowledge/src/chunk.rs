//! From sections to chunks: pieces that a model reads whole, each with its place in the file.

use std::io::{self, Read};

use crate::Hash;
use crate::sections::{self, Section};
use crate::words::{tokens, tokens_upto};

/// Tokens of one chunk, with the headings that lead to it: what the usual model reads of a text (256), less its two marks.
const LARGEST: usize = 254;

/// Tokens that two neighbouring chunks of one section have in common, a fifth: what a cut would tear apart stands whole in one of them.
const OVERLAP: usize = 50;

/// Tokens of the smallest part that a line is cut into.
const PART: usize = 48;

/// One piece of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// The headings that lead to it, the outermost first, with ` > ` between them.
    pub section: String,
    /// Its lines in the file, from 1, both included.
    pub lines: (usize, usize),
    /// The text as it stands in the file.
    pub text: String,
    /// Bytes of its own heading at the beginning of the text, which is in the section's path already.
    pub heading: usize,
}

impl Chunk {
    /// What is found by its words and its meaning: the path of the headings, then the text.
    pub(crate) fn embedded(&self) -> String {
        embedded(&self.section, &self.text, self.heading)
    }

    pub(crate) fn hash(&self) -> Hash {
        Hash::of(self.embedded().as_bytes())
    }
}

/// What of a chunk becomes a vector.
pub(crate) fn embedded(section: &str, text: &str, heading: usize) -> String {
    let body = text.get(heading..).unwrap_or(text).trim();
    if section.is_empty() { body.to_owned() } else { format!("{section}\n{body}") }
}

/// Reads a markdown text in UTF-8 and hands over its chunks in their order.
///
/// # Errors
/// Where it cannot be read, or what `each` says.
pub fn chunks<E: From<io::Error>>(
    text: impl Read,
    each: &mut dyn FnMut(Chunk) -> Result<(), E>,
) -> Result<(), E> {
    sections::read(text, &mut |section: &Section<'_>| split(section, each))
}

/// A part of a section that is not cut.
struct Part {
    start: usize,
    end: usize,
    line: usize,
    tokens: usize,
    /// Whether a block begins here.
    opens: bool,
}

fn split<E>(section: &Section<'_>, each: &mut dyn FnMut(Chunk) -> Result<(), E>) -> Result<(), E> {
    let path = section.path.join(" > ");
    // However long the headings are, most of a chunk is its text.
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

/// Behind the last part of the chunk that begins with `first`: where the room ends, or at a block's beginning in its second half.
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

/// Where the next chunk begins: a little before the end of this one, and behind its beginning.
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

/// The lines of a section, long ones in several parts.
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

/// Cuts a long line behind sentences, else between words, else between characters.
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
        // Roughly: what is cut is counted again.
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
