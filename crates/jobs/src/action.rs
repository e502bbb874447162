//! Actions of jobs.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Action of a job, stored as JSON with its schedule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Action {
    /// A call of a tool.
    Call {
        /// Dialect in which the tool is named.
        dialect: String,
        /// Name of the tool.
        tool: String,
        /// Arguments, an object.
        arguments: Value,
    },
    /// A task for an agent, in words.
    Task {
        /// Dialect of the caller.
        dialect: String,
        /// The task.
        goal: String,
    },
}

impl Action {
    /// Returns the action as one line for people.
    pub fn shown(&self) -> String {
        match self {
            Self::Call { tool, arguments, .. } => format!("{tool} {arguments}"),
            Self::Task { goal, .. } => goal.clone(),
        }
    }
}
