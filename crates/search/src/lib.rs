//! What a search by words and by meaning needs wherever it searches: the words of a question, vectors as they are kept, and one order
//! of what both ways find.
//!
//! It knows no database, no model and no text but the question.

mod kept;
mod query;
mod ranks;
mod words;

pub use kept::{bytes, cosine_of, numbers};
pub use query::{terms, words};
pub use ranks::fused;
