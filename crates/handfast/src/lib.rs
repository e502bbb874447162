//! Handfast as a library and the parts of its program.
//!
//! This crate composes everything: it is the only one that reads the configuration and the environment, and the only one that
//! names the tool families and the doors side by side.

mod cli;
pub mod commands;
mod compose;
mod config;
mod report;
mod surroundings;
mod terminal;
mod toolchains;

pub use cli::Cli;
pub use config::{ConfigError, ConfigFile, Settings};
pub use report::print_chain;
