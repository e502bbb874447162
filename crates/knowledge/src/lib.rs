//! A knowledge base of markdown files, split into chunks that are searched by words and by meaning.
//!
//! The files are the single source of truth. The derived data (chunks, words, vectors) is stored in
//! one SQLite file. The index can be rebuilt at any time, and is rebuilt if it is damaged or has
//! another format. Vectors are keyed by the hash of their text and the hash of the model. Hence
//! vectors of two models are never compared, and a text that moves or returns keeps its vector.
//!
//! The chunks of a file change in one transaction, so a killed process leaves the old or the new
//! ones. Several processes may index at the same time.
//!
//! This crate opens no file of the base: the caller's [`Shelf`] does. The shelf also decides which
//! files may be read, during indexing and again during a search.

mod bm25;
mod chunk;
mod decoding;
mod embedding;
mod error;
mod file;
mod find;
mod hash;
mod open;
mod scope;
mod sections;
mod source;
mod sync;
mod vector_cache;
mod words;

pub use chunk::{Chunk, chunks};
pub use embedding::EmbeddingResult;
pub use error::IndexError;
pub use find::{Hit, Mode, Score, SearchQuery, SearchResult};
pub use hash::Hash;
pub use open::Index;
pub use retrieval::embedder::{OpenModel, OpenedModel};
pub use scope::Scope;
pub use source::{ListedKind, Shelf, ShelfError, Stamp};
pub use sync::{SkippedFile, SyncRequest, SyncResult};
