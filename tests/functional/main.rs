//! The program as people and agents use it, tried on the whole binary.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::needless_pass_by_value,
    reason = "a test program: it starts processes, and what goes wrong in it ends it"
)]

#[path = "../collector.rs"]
mod collector;
#[path = "../harness.rs"]
mod harness;
#[path = "../http.rs"]
mod http;
#[path = "../https.rs"]
mod https;
#[path = "../server.rs"]
mod server;
#[path = "../shown.rs"]
mod shown;
#[path = "../specialist.rs"]
mod specialist;

mod agent;
mod agent_clients;
mod approval_prompts;
mod approvals;
mod arguments;
mod attach;
mod audit;
mod bad_input;
mod bad_patches;
mod cache;
mod call;
mod catalogues;
mod changes;
mod configuration;
mod conformance;
mod csp;
mod databases;
mod dialects;
mod doctor;
mod doors;
mod dry_runs;
mod egress;
mod fetching;
mod forms;
mod gmail;
mod gmail_doors;
mod hidden_files;
mod homes;
mod hostile_commands;
mod knowledge;
mod library;
mod linear;
mod load;
mod mcp;
mod mcp_around;
mod mcp_over_http;
mod memory;
mod official_clients;
mod openapi;
mod options;
mod over_http;
mod patches;
mod policy;
mod previews;
mod project_programs;
mod random_undo;
mod recommended;
mod screen;
mod sessions;
mod setup;
mod setup_embeddings;
mod shown_answers;
mod tool_texts;
mod traces;
mod undo;
mod undo_contents;
mod up;
mod vault;
