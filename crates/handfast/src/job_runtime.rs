//! The part of a runtime that the tools of schedules know.

use std::path::PathBuf;
use std::sync::Arc;

use dialects::Dialect;
use jobs::ScheduleBook;
use tools_agents::JobRuntime;

use crate::clock::SystemClock;
use crate::listening::serving;

/// Reason why a task in words cannot run.
pub(crate) const NO_AGENT: &str = "this version of Handfast has no agent that carries out a task in words";

/// Returns the part that the tools of schedules know of a runtime with this state folder.
pub(crate) fn job_runtime(book: ScheduleBook, state: PathBuf, dialect: Dialect) -> JobRuntime {
    let workspace = book.workspace().to_owned();
    JobRuntime {
        book,
        clock: Arc::new(SystemClock),
        dialect: dialect.as_str(),
        of_command: dialect.command_call(),
        is_served: Box::new(move || serving(&state, &workspace).is_some()),
        no_agent: Some(NO_AGENT),
    }
}
