//! The part of a runtime that the tools of schedules know.

use std::path::PathBuf;
use std::sync::Arc;

use dialects::Dialect;
use jobs::ScheduleBook;
use tools_agents::{JobRuntime, Models};

use crate::clock::SystemClock;
use crate::listening::serving;

/// Reason why a task in words cannot run.
const NO_MODEL: &str = "no language model is configured for an agent that carries it out: docs/MODELS.md";

/// Returns the part that the tools of schedules know of a runtime with this state folder.
pub(crate) fn job_runtime(
    book: ScheduleBook,
    state: PathBuf,
    dialect: Dialect,
    models: &Models,
) -> JobRuntime {
    let workspace = book.workspace().to_owned();
    JobRuntime {
        book,
        clock: Arc::new(SystemClock),
        dialect: dialect.as_str(),
        of_command: dialect.command_call(),
        is_served: Box::new(move || serving(&state, &workspace).is_some()),
        no_agent: (!models.has_servers()).then_some(NO_MODEL),
    }
}
