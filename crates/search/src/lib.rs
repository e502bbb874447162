//! What a search by words and by meaning needs wherever it searches: the terms of a question, vectors as they are kept, and one order
//! of what both ways find.
//!
//! It knows no database, no model and no text but the question.

mod codes;
mod fusion;
mod kept;
mod query;
mod weights;
mod words;

pub use fusion::{Candidate, Fused, Scored, background, fuse};
pub use kept::{bytes, cosine_of, numbers};
pub use query::{Term, terms};
pub use weights::{Evidence, Weights};
