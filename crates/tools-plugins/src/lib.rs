//! Tools that are plugins: programs of the user, each run in the cell of its call.
//!
//! A plugin's tool obeys what every tool obeys. Its cell has the rights of the profile, met with those that the
//! plugin declares: without a declared write nothing can be changed, without a declared host there is no network.

mod cell;
mod conversation;
mod outcome;
mod plugin_tool;
mod plugin_trial;
mod processes;
mod provider_schema;

pub use processes::PluginProcesses;

use std::sync::Arc;

use plugins::PluginTrials;
use tool::{AnyTool, ErasedTool};

pub use plugin_tool::{PluginTool, Unusable};
pub use plugin_trial::PluginTrial;
pub use provider_schema::check_provider_schema;

/// Returns the tools of this family that are there without any plugin, in listing order. `trials` has the new plugins
/// that are being tested.
pub fn tools(trials: &Arc<PluginTrials>) -> Vec<Arc<dyn AnyTool>> {
    vec![ErasedTool::tool(PluginTrial(trials.clone()))]
}
