//! The memory of agents: texts of a store, ranked by words, and by meaning if a model is set up.
//!
//! This crate knows no tool and no caller, and names no agent. The store keeps the rows.

mod agent;
mod batch;
mod question;
mod search;
mod worker;

pub use agent::{AgentMemory, Memories, MemoryError};
pub use retrieval::embedder::OpenModel;
pub use search::SearchResult;
pub use store_api::{Memory, MemoryCaller, MemoryVersion};

#[cfg(test)]
mod fake;
