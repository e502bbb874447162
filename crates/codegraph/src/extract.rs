//! Extraction: the facts of one file from its bytes, within bounds of size and work.

use std::cell::Cell;
use std::ops::ControlFlow;

use tree_sitter::{ParseOptions, Parser, Tree};

use crate::builder::FactsBuilder;
use crate::facts::{FileFacts, Gap};
use crate::language::Language;
use crate::languages;
use crate::lowering::{lower, memory_lines};

/// Size of the pieces of a text that a parser gets, in bytes.
const CHUNK: usize = 4096;
/// Work of 100 steps of a parser, after which it reports: about the time in which it reads so many bytes.
const WORK_OF_A_REPORT: u64 = 1000;
/// Size that the bound of the work adds to that of every text, in bytes.
const SMALL_TEXT: u64 = 4096;

/// The bounds of the extraction of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExtractLimits {
    /// Maximum size of a file, in bytes. Of a longer one only the file itself is known.
    pub bytes: usize,
    /// Maximum work of the parse of a file for each of its bytes. Reading one byte once is a work of 1, and a step
    /// of the parser one of 10. Real code takes up to 60.
    pub work_per_byte: u32,
}

impl Default for ExtractLimits {
    /// Returns 4 MiB, and a work of 200 for each byte.
    fn default() -> Self {
        Self { bytes: 4 << 20, work_per_byte: 200 }
    }
}

/// Returns true if the grammar of a language was compiled in.
pub fn is_supported(language: Language) -> bool {
    languages::entry(language).is_some()
}

/// Returns the facts of a file, or `None` if the grammar of its language was not compiled in.
///
/// Every file has facts, whatever its text is: errors are counted in [`FileFacts::parse_errors`], and a bound
/// that was reached is named in [`FileFacts::gap`].
pub fn extract(language: Language, content: &[u8], limits: &ExtractLimits) -> Option<FileFacts> {
    let entry = languages::entry(language)?;
    let empty = |gap: Gap| facts_of_the_file_alone(language, content, gap);
    if content.len() > limits.bytes {
        return Some(empty(Gap::TooLarge));
    }
    match parse(&entry.grammar.parser, content, limits.work_per_byte) {
        Some(tree) => Some(lower(entry, &tree, content)),
        None => Some(empty(Gap::TooMuchWork)),
    }
}

/// Returns the facts of a file of which nothing is known but its language and the number of its lines.
pub fn facts_of_the_file_alone(language: Language, content: &[u8], gap: Gap) -> FileFacts {
    let mut builder = FactsBuilder::new(language, memory_lines(content));
    builder.set_gap(gap);
    builder.finish(true)
}

/// Parses a text. Returns `None` if that is more work than it may be.
///
/// The bound counts work and not time, so that equal texts have equal facts, however busy the machine is.
fn parse(grammar: &tree_sitter::Language, content: &[u8], work_per_byte: u32) -> Option<Tree> {
    let mut parser = Parser::new();
    parser.set_language(grammar).ok()?;
    let size = u64::try_from(content.len()).unwrap_or(u64::MAX);
    let all = u64::from(work_per_byte).saturating_mul(size.saturating_add(SMALL_TEXT));
    let left = Cell::new(all);
    let mut progress = |_: &tree_sitter::ParseState| {
        left.set(left.get().saturating_sub(WORK_OF_A_REPORT));
        if left.get() == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let options = ParseOptions::new().progress_callback(&mut progress);
    // In chunks, because a scanner that looks ahead to the end of the text at every token asks for each again.
    let mut read = |offset: usize, _| {
        let rest = content.get(offset..).unwrap_or_default();
        let chunk = rest.get(..CHUNK.min(rest.len())).unwrap_or_default();
        left.set(left.get().saturating_sub(u64::try_from(chunk.len()).unwrap_or(u64::MAX)));
        if left.get() == 0 { &[] } else { chunk }
    };
    let tree = parser.parse_with_options(&mut read, None, Some(options));
    // A text that was cut short may have been parsed to its end; its tree is not that of the text.
    tree.filter(|_| left.get() > 0)
}
