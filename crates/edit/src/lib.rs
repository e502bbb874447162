//! From a text and what should change in it to the new text: replacements, patches, and what to say where they do not fit.
//!
//! What is not replaced is kept byte for byte: line ends, a byte order mark, tabs, the end of the file.
//! A place is found exactly or not at all; where a patch may drift, it drifts only to a place that is the only one, and that
//! is told.
//!
//! This crate is pure: it reads and writes no file and knows no tools.

mod difference;
mod document;
mod line_ends;
mod nearest;
pub mod patch;
mod replace;

pub use difference::{Edited, between, unified, unified_whole};
pub use document::{Document, Unreadable, Unwritable};
pub use nearest::{Near, nearest};
pub use replace::{Count, Place, Refused, Replaced, Replacement, replace};

/// The line, counted from 1, in which the byte at `offset` lies.
pub fn line_of(text: &[u8], offset: usize) -> usize {
    memchr::memchr_iter(b'\n', &text[..offset.min(text.len())]).count() + 1
}
