//! The part of a runtime that the tools of schedules know.

use std::sync::Arc;

use jobs::ScheduleBook;
use serde_json::Value;
use tool::Clock;

/// The part of a runtime that stores jobs, a service of the tools.
pub struct JobRuntime {
    /// Schedules of the workspace.
    pub book: ScheduleBook,
    /// Wall clock.
    pub clock: Arc<dyn Clock>,
    /// Dialect in which tools are named.
    pub dialect: &'static str,
    /// Function that turns a command into the name of a tool of the dialect and its arguments.
    pub of_command: fn(&str) -> (&'static str, Value),
    /// Function that reports whether a server runs the jobs of the workspace now.
    pub is_served: Box<dyn Fn() -> bool + Send + Sync>,
    /// Reason why no agent carries out a task here, or `None` if one does.
    pub no_agent: Option<&'static str>,
}
