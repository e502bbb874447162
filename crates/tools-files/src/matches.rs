//! Matches of a search in one file, and their excerpts.

use std::io::{self, Read};

use grep_matcher::Matcher;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{Searcher, Sink, SinkContext, SinkContextKind, SinkMatch};
use schemars::JsonSchema;
use serde::Serialize;
use tool::{Context, ToolError};

#[derive(Serialize, JsonSchema)]
pub(crate) struct Match {
    /// Path of the file.
    path: String,
    /// Line, from 1.
    pub(crate) line: u64,
    /// Column in characters, from 1.
    column: u64,
    /// Text of the line around the match.
    text: String,
    /// Lines before the match.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    before: Vec<String>,
    /// Lines after the match.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    after: Vec<String>,
}

/// Maximum number of shown bytes per line.
const SHOWN_LINE_BYTES: usize = 500;
/// Bytes that are shown before a match in a longer line.
const SHOWN_BEFORE_BYTES: usize = 150;

/// A search pattern.
pub(crate) struct Pattern<'a> {
    pub(crate) text: &'a str,
    /// True if the text is literal, and not a regular expression.
    pub(crate) literal: bool,
    pub(crate) case_sensitive: bool,
}

/// Maximum memory for a compiled pattern, and for its execution (ripgrep's defaults are 100 MB and
/// 1 GB).
const PATTERN_BYTES: usize = 10 << 20;

impl Pattern<'_> {
    /// Compiles the argument `field`.
    pub(crate) fn compile(&self, field: &str) -> Result<RegexMatcher, ToolError> {
        let mut builder = RegexMatcherBuilder::new();
        builder
            .case_insensitive(!self.case_sensitive)
            .fixed_strings(self.literal)
            // `$` also matches before `\r
            // `, as at the end of the shown text. `\r` must stay searchable, so only `
            // ` ends a line.
            .multi_line(true)
            .crlf(true)
            .line_terminator(Some(b'\n'))
            .size_limit(PATTERN_BYTES)
            .dfa_size_limit(PATTERN_BYTES);
        builder.build(self.text).map_err(|error| {
            let at = |kind: &dyn std::fmt::Display, column| format!("{kind} at character {column}");
            let problem = match regex_syntax::Parser::new().parse(self.text) {
                Err(regex_syntax::Error::Parse(fault)) if !self.literal => {
                    at(fault.kind(), fault.span().start.column)
                }
                Err(regex_syntax::Error::Translate(fault)) if !self.literal => {
                    at(fault.kind(), fault.span().start.column)
                }
                _ => error.to_string(),
            };
            ToolError::validation(field, problem).hint("`literal: true` treats the pattern as plain text")
        })
    }
}

/// A file whose reads fail when the call is stopped.
pub(crate) struct StoppableFile<'a> {
    pub(crate) file: std::fs::File,
    pub(crate) context: &'a Context,
}

impl Read for StoppableFile<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.context.stop.requested().is_some() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.file.read(buffer)
    }
}

/// The matches of one file.
pub(crate) struct Hits<'a> {
    matcher: &'a RegexMatcher,
    /// Path of the file as shown in the answer.
    pub(crate) path: String,
    /// Number of lines that the previous page covered.
    passed: u64,
    /// Number of matches that still fit on the page.
    room: usize,
    /// Bytes of text that still fit on the page.
    pub(crate) bytes_left: usize,
    pub(crate) found: Vec<Match>,
    /// Context lines before the next match.
    before: Vec<String>,
    /// True if there are more matches than fit on the page.
    pub(crate) full: bool,
    pub(crate) binary: bool,
}

impl<'a> Hits<'a> {
    pub(crate) fn new(
        matcher: &'a RegexMatcher,
        path: String,
        passed: u64,
        room: usize,
        bytes_left: usize,
    ) -> Self {
        let (found, before) = (Vec::new(), Vec::new());
        Self { matcher, path, passed, room, bytes_left, found, before, full: false, binary: false }
    }
}

impl Sink for Hits<'_> {
    type Error = io::Error;

    fn matched(&mut self, _searcher: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        let line = found.line_number().unwrap_or_default();
        if line <= self.passed {
            self.before.clear();
            return Ok(true);
        }
        if self.found.len() >= self.room || self.bytes_left == 0 {
            self.full = true;
            return Ok(false);
        }
        let bytes = without_line_end(found.bytes());
        let start = self.matcher.find(bytes).ok().flatten().map_or(0, |found| found.start());
        let (before, text) = (std::mem::take(&mut self.before), excerpt(bytes, start));
        self.bytes_left =
            self.bytes_left.saturating_sub(text.len() + before.iter().map(String::len).sum::<usize>());
        self.found.push(Match {
            path: self.path.clone(),
            line,
            column: characters(&bytes[..start]) + 1,
            text,
            before,
            after: Vec::new(),
        });
        Ok(true)
    }

    fn context(&mut self, _searcher: &Searcher, context: &SinkContext<'_>) -> io::Result<bool> {
        let text = excerpt(without_line_end(context.bytes()), 0);
        match context.kind() {
            SinkContextKind::Before => self.before.push(text),
            SinkContextKind::After => {
                if let Some(last) = self.found.last_mut() {
                    self.bytes_left = self.bytes_left.saturating_sub(text.len());
                    last.after.push(text);
                }
            }
            SinkContextKind::Other => {}
        }
        Ok(true)
    }

    fn binary_data(&mut self, _searcher: &Searcher, _offset: u64) -> io::Result<bool> {
        self.binary = true;
        Ok(false)
    }
}

fn without_line_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Returns the line, or the part around `at` if the line is long.
fn excerpt(line: &[u8], at: usize) -> String {
    if line.len() <= SHOWN_LINE_BYTES {
        return String::from_utf8_lossy(line).into_owned();
    }
    let inside = |byte: &u8| byte & 0b1100_0000 == 0b1000_0000;
    let mut start = at.saturating_sub(SHOWN_BEFORE_BYTES).min(line.len() - SHOWN_LINE_BYTES);
    start += line[start..].iter().take(3).take_while(|byte| inside(byte)).count();
    let mut end = (start + SHOWN_LINE_BYTES).min(line.len());
    if end < line.len() {
        end -= line[..=end].iter().rev().take(3).take_while(|byte| inside(byte)).count();
    }
    let ellipsis = |cut| if cut { "…" } else { "" };
    let shown = String::from_utf8_lossy(&line[start..end]);
    format!("{}{shown}{}", ellipsis(start > 0), ellipsis(end < line.len()))
}

fn characters(bytes: &[u8]) -> u64 {
    let count = bytes.iter().filter(|byte| **byte & 0b1100_0000 != 0b1000_0000).count();
    u64::try_from(count).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_is_cut_between_characters_around_its_match() {
        assert_eq!(excerpt(b"short", 3), "short");
        let long = format!("{}MATCH{}", "é".repeat(400), "ü".repeat(400));
        for at in [0, 1, 400, 799, 800, 805, 1600, 1604] {
            let shown = excerpt(long.as_bytes(), at);
            assert!(!shown.contains('\u{fffd}'), "{at}: {shown}");
            assert!(shown.len() <= SHOWN_LINE_BYTES + 2 * "…".len(), "{at}: {}", shown.len());
        }
        let shown = excerpt(long.as_bytes(), 800);
        assert!(shown.starts_with("…é") && shown.contains("MATCH") && shown.ends_with("ü…"), "{shown}");
        assert_eq!(excerpt(&[0xff; 600], 300).chars().filter(|c| *c == '\u{fffd}').count(), 500);
    }
}
