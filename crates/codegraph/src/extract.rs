//! Extraction: the facts of one file from its bytes, within bounds of size and time.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use tree_sitter::{ParseOptions, Parser, Tree};

use crate::builder::FactsBuilder;
use crate::facts::{FileFacts, Gap};
use crate::language::Language;
use crate::languages;
use crate::lowering::{lower, memory_lines};

/// The bounds of the extraction of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExtractLimits {
    /// Maximum size of a file, in bytes. Of a longer one only the file itself is known.
    pub bytes: usize,
    /// Maximum time of the parse of a file.
    pub time: Duration,
}

impl Default for ExtractLimits {
    /// Returns 4 MiB and 5 seconds.
    fn default() -> Self {
        Self { bytes: 4 << 20, time: Duration::from_secs(5) }
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
    let empty = |gap: Gap| {
        let mut builder = FactsBuilder::new(language, memory_lines(content));
        builder.set_gap(gap);
        builder.finish(true)
    };
    if content.len() > limits.bytes {
        return Some(empty(Gap::TooLarge));
    }
    match parse(&entry.grammar.parser, content, limits.time) {
        Some(tree) => Some(lower(entry, &tree, content)),
        None => Some(empty(Gap::TooSlow)),
    }
}

fn parse(grammar: &tree_sitter::Language, content: &[u8], time: Duration) -> Option<Tree> {
    let mut parser = Parser::new();
    parser.set_language(grammar).ok()?;
    let end = Instant::now().checked_add(time);
    let mut progress = |_: &tree_sitter::ParseState| {
        if end.is_some_and(|end| Instant::now() > end) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    };
    let options = ParseOptions::new().progress_callback(&mut progress);
    let mut read = |offset: usize, _| content.get(offset..).unwrap_or_default();
    parser.parse_with_options(&mut read, None, Some(options))
}
