//! Shared parts of the answers of the scheduling tools.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use jobs::{BookError, ScheduleBook, ScheduleFilter, ScheduleRow, ScheduleState};
use schemars::JsonSchema;
use serde::Serialize;
use tool::{Code, ToolError, nearest};

/// Numbers of the schedules of a workspace.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Counts {
    /// Number of schedules.
    pub(crate) total: u32,
    /// Number of those that fire.
    pub(crate) active: u32,
    /// Number of those that are paused.
    pub(crate) paused: u32,
}

impl Counts {
    /// Counts the schedules of a book.
    pub(crate) fn in_book(book: &ScheduleBook) -> Result<Self, ToolError> {
        let (active, paused) = book.counts().map_err(failed)?;
        Ok(Self { total: active + paused, active, paused })
    }
}

/// Finds a schedule by its name or id.
pub(crate) fn find(book: &ScheduleBook, named: &str) -> Result<ScheduleRow, ToolError> {
    let found = book.find(named);
    let Err(BookError::Missing(_)) = found else { return found.map_err(failed) };
    let rows = book.list(ScheduleFilter::All).map_err(failed)?;
    let error = ToolError::new(Code::NotFound, format!("there is no schedule {named}"));
    Err(match nearest(named, rows.iter().map(|row| row.name.as_str())) {
        Some(name) => error.hint(format!("did you mean {name}?")),
        None => error.hint("schedule_list lists all"),
    })
}

/// Converts an error to that of a call.
pub(crate) fn failed(error: BookError) -> ToolError {
    match &error {
        BookError::Times(problem) => ToolError::validation("schedule", problem),
        BookError::Name => ToolError::validation("name", &error),
        BookError::Taken(_) => ToolError::new(Code::Conflict, error.to_string())
            .hint("choose another name, or remove that one with schedule_update"),
        BookError::Full => {
            ToolError::new(Code::Quota, error.to_string()).hint("remove some with schedule_update")
        }
        BookError::Missing(_) => ToolError::new(Code::NotFound, error.to_string()),
        BookError::Zone => ToolError::new(Code::Unavailable, error.to_string())
            .hint("set TZ to the name of a zone, such as Europe/Berlin"),
        BookError::Over => ToolError::new(Code::Conflict, error.to_string())
            .hint("remove it, and make a new one with schedule_task"),
        BookError::Json(_) | BookError::Store(_) => {
            ToolError::new(Code::Runtime, error.to_string()).because(error)
        }
    }
}

/// Returns an instant in a zone, RFC 3339.
pub(crate) fn told(at: Timestamp, zone: &TimeZone) -> String {
    at.to_zoned(zone.clone()).strftime("%Y-%m-%dT%H:%M:%S%:z").to_string()
}

/// Returns the zone of a schedule, or UTC if this machine does not know the zone.
pub(crate) fn zone(row: &ScheduleRow) -> TimeZone {
    TimeZone::get(&row.zone).unwrap_or(TimeZone::UTC)
}

/// Returns the word for a state.
pub(crate) fn status(state: ScheduleState) -> &'static str {
    match state {
        ScheduleState::Active => "active",
        ScheduleState::Paused => "paused",
        ScheduleState::Ended => "ended",
    }
}
