//! Tools that are plugins: programs of the user, each run in the cell of its call.
//!
//! A plugin's tool obeys what every tool obeys. Its cell has the rights of the profile, met with those that the
//! plugin declares: without a declared write nothing can be changed, without a declared host there is no network.

mod cell;
mod conversation;
mod found_program;
mod outcome;
mod plugin_tool;
mod processes;

pub use processes::PluginProcesses;

pub use plugin_tool::{PluginTool, Unusable};
