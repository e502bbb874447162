//! Handfast as a library, and the parts of its program. [`Runtime`] offers every tool in one workspace.
//!
//! This crate composes all others. No other crate reads the configuration and the environment, and
//! no other crate names both the tool families and the doors.

#![cfg_attr(
    not(feature = "cli"),
    expect(dead_code, reason = "the program's commands use parts that a library without them does not")
)]

mod agent_runtime;
mod at_start;
mod bounded_run;
mod browser_program;
#[cfg(feature = "cli")]
mod chat;
#[cfg(feature = "cli")]
mod cli;
#[cfg(feature = "cli")]
mod cli_agents;
#[cfg(feature = "cli")]
mod cli_approvals;
#[cfg(feature = "cli")]
mod cli_attach;
#[cfg(feature = "cli")]
mod cli_audit;
#[cfg(feature = "cli")]
mod cli_browser;
#[cfg(feature = "cli")]
mod cli_config;
#[cfg(feature = "cli")]
mod cli_graph;
#[cfg(feature = "cli")]
mod cli_login;
#[cfg(feature = "cli")]
mod cli_options;
#[cfg(feature = "cli")]
mod cli_packages;
#[cfg(feature = "cli")]
mod cli_plugin;
#[cfg(feature = "cli")]
mod cli_schedule;
#[cfg(feature = "cli")]
mod cli_setup;
mod cli_values;
#[cfg(feature = "cli")]
mod cli_vault;
mod clock;
#[cfg(feature = "cli")]
mod commands;
mod compose;
mod config;
mod configuration;
mod embeddings;
mod exec_log;
mod failure;
#[cfg(feature = "cli")]
mod hidden_line;
mod host_environment;
mod identity;
mod job_runtime;
mod labels;
mod languages;
mod listening;
mod mcp_options;
mod mcp_servers;
mod models;
mod moment;
#[cfg(feature = "cli")]
mod mounts;
mod notify;
mod out_of_reach;
mod own_projects;
mod packages;
#[cfg(feature = "cli")]
mod pager;
mod places;
mod plugin_facts;
mod plugin_places;
mod plugin_tools;
#[cfg(feature = "cli")]
mod program;
mod reload;
mod report;
mod run_options;
mod run_secrets;
mod runtime;
#[cfg(feature = "cli")]
mod scheduler;
#[cfg(feature = "cli")]
mod screen;
#[cfg(feature = "cli")]
mod signals;
#[cfg(feature = "cli")]
mod terminal;
#[cfg(feature = "cli")]
mod tokens;
mod toolchains;
mod toolset;
mod traces;
#[cfg_attr(not(feature = "work"), path = "without_work.rs")]
mod work;

pub use dialects::{CatalogueKind, Dialect};
pub use engine::{
    Answer, Approval, ApprovalError, Approvals, Asker, Ceiling, EffectKind, EffectKinds, Grant, GrantResult,
    NoAsker, Offer, PolicyCheck, Scope, Secrets, StoredQuestion, UndoOutcome,
};
pub use policy::{ListEntry, Mode, ProfileSource};
pub use roots::Roots;
pub use runtime::{BuildError, Builder, Call, Runtime};
pub use store_api::StoreError;
/// The vocabulary of tools.
#[doc(inline)]
pub use tool;
/// Secrets, and the hosts and places that they are bound to.
#[doc(inline)]
pub use vault;
/// Times, and the JSON Schemas of arguments, as tools use them.
pub use {jiff, schemars};

#[cfg(feature = "cli")]
#[doc(hidden)]
pub use program::main;
