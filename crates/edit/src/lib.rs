//! Computes the new text from a text and a change: replacements, patches, and reports of changes
//! that do not fit.
//!
//! Text that is not replaced is preserved byte for byte: line ends, byte order mark, tabs, end of
//! the file. A place is found exactly or not at all. A hunk of a patch may drift, but only to a
//! place that is unique, and the drift is reported.
//!
//! This crate is pure: it reads and writes no file and knows no tools.

mod changed_lines;
mod difference;
mod document;
mod line_ends;
mod nearest;
pub mod patch;
mod replace;

pub use changed_lines::changed_lines;
pub use difference::{EditedRange, between, unified, unified_whole};
pub use document::{Document, NotEncodable, ReadError};
pub use nearest::{Near, nearest};
pub use replace::{Count, Place, ReplaceError, ReplaceOutcome, Replacement, replace};

/// Returns the number, counted from 1, of the line that contains the byte at `offset`.
pub fn line_of(text: &[u8], offset: usize) -> usize {
    memchr::memchr_iter(b'\n', &text[..offset.min(text.len())]).count() + 1
}
