//! Catalogues and dialects: which tools callers see, under which names, and with which schemas.
//!
//! A catalogue selects the tools that a list contains. A dialect is a table in one file: outside
//! names and schemas, mappings of arguments and answers to the canonical form, and the source's
//! settings. The engine treats a canonical tool behind a row of the table like any other tool.
//!
//! This crate makes no calls and no decisions.

mod adapter;
mod catalogue;
pub mod content_tools;
mod csp1;
mod csp1_browser;
mod csp1_cron;
mod csp1_operation;
mod dialect;
mod dry_run_only;
mod elophanto;
mod elophanto_browser;
mod elophanto_gmail;
mod msc;
mod sage;
mod sluagh;
mod table;
mod tool_call;

pub use catalogue::CatalogueKind;
pub use dialect::{Dialect, Programs, Settings, SettledLimits};
pub use dry_run_only::DryRunOnly;
pub use tool_call::ToolCall;
