//! A base of knowledge in markdown: its files cut into chunks, and found by their words and by their meaning.
//!
//! The files are the only truth. What is kept of them (chunks, words, vectors) lies in one SQLite file, can be made again at any time, and
//! is made again where it is damaged, or of another format. Vectors are kept by the hash of their text and that of the model, so that
//! those of two models are never compared, and a text that moves or comes back keeps its own.
//!
//! A file's chunks change in one transaction: a process that is killed leaves the old or the new ones, and several processes may
//! index at once.
//!
//! This crate opens no file of the base itself: its caller's [`Shelf`] does, and says which of them may be read, when they are indexed and
//! again when they are found.

mod chunk;
mod decoding;
mod embedding;
mod error;
mod file;
mod find;
mod hash;
mod held;
mod open;
mod ranked;
mod scope;
mod sections;
mod shelf;
mod sync;
mod words;

pub use chunk::{Chunk, chunks};
pub use embed::{OpenModel, Opened};
pub use embedding::Embedded;
pub use error::IndexError;
pub use find::{Found, Hit, Mode, Score, Sought};
pub use hash::Hash;
pub use open::Index;
pub use scope::Scope;
pub use shelf::{Listed, Shelf, ShelfError, Stamp};
pub use sync::{Left, Synced, Wanted};
