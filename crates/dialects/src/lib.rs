//! What callers see of the tools: which are listed, and by which names and in which shapes they are called.
//!
//! A catalogue says which tools stand in a list.
//! This crate makes no call and decides nothing: it names tools, and the engine knows what they are.

mod catalogue;
mod tool_call;

pub use catalogue::CatalogueKind;
pub use tool_call::ToolCall;
