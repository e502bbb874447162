//! Common parts of a search by words and by meaning: the terms of a question, the encoding of
//! vectors, and the fusion of the results of both.
//!
//! This crate knows no database and no model, and no text except the question.

mod codes;
mod encoding;
mod fusion;
mod query;
mod weights;
mod words;

pub use encoding::{bytes, cosine_of, numbers};
pub use fusion::{Candidate, RankedTexts, ScoredText, background, fuse};
pub use query::{Term, terms};
pub use weights::{Evidence, Weights};
