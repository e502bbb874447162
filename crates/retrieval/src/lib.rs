//! Parts of a search by words and by meaning: the terms of a question, the interface of a model
//! that makes vectors, the encoding of vectors, the search for the nearest of them, and the fusion
//! of the results of both ways.
//!
//! This crate knows no database and implements no model. It reads no text except the question.

mod codes;
pub mod embedder;
mod encoding;
mod fusion;
pub mod nearest;
mod query;
mod weights;
mod words;

pub use encoding::{bytes, cosine_of, numbers};
pub use fusion::{Candidate, RankedTexts, ScoredText, background, fuse};
pub use query::{Term, terms};
pub use weights::{Evidence, Weights};
