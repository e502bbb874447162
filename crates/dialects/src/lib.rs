//! What callers see of the tools: which are listed, and by which names and in which shapes they are called.
//!
//! A catalogue says which tools stand in a list.
//! A dialect is a table, one file each: outside name and schema, how arguments and answers map to the canonical ones, and what its
//! source settles. A canonical tool behind a row of it is a tool like any other for the engine.
//!
//! This crate makes no call and decides nothing.

mod adapter;
mod catalogue;
mod csp1;
mod dialect;
mod elophanto;
mod elophanto_gmail;
mod msc;
mod sage;
mod sluagh;
mod table;
mod tool_call;
mod tried;

pub use catalogue::CatalogueKind;
pub use dialect::{Dialect, Programs, Settings, SettledLimits};
pub use tool_call::ToolCall;
pub use tried::OnlyTried;
