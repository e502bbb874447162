//! The reader of SCIP indexes: what a compiler found at which place of which file.
//!
//! An index is a stranger's file. It is read in a stream, one document at a time, and a length in it is never
//! believed: memory is bounded by the limits of [`ScipLimits`] and by the bytes that are there. The crate opens no
//! file, and knows no graph and no language.

#![forbid(unsafe_code)]

mod document;
mod error;
mod fit;
mod positions;
mod stream;

pub use document::{Document, Occurrence, Occurrences};
pub use error::ScipError;
pub use fit::{Fit, Named};
pub use positions::{Encoding, Lines, Place};
pub use stream::{IndexReader, Metadata, ScipLimits};
