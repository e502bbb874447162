//! Tools that answer questions about the code of the workspace from its graph.
//!
//! `lib.rs` is only the list of tools; each tool is one file.

mod graphs;
mod listing;
mod view;

pub use graphs::CodeGraphs;
