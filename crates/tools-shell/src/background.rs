//! Commands that continue after their call has returned.

use std::time::Duration;

use sandbox::{CellHost, CellSpec, Command, OwnedSessions, SessionError};
use tool::{Code, Context, ToolError};

use crate::missing_programs;

/// Starts a session. Returns its id, and the limits that its cell enforces.
pub(crate) fn start(
    context: &Context,
    (cell, host): (CellSpec, CellHost),
    line: &str,
    command: Command,
    at_most: Option<Duration>,
) -> Result<(String, Vec<String>), ToolError> {
    let sessions = context.service::<OwnedSessions>().map_err(|_| {
        ToolError::new(
            Code::Unavailable,
            "a background command ends with its connection, and this connection ends with the call",
        )
        .hint("omit `background`; it needs a connection that stays open, such as MCP")
    })?;
    let id = format!("sh-{}", context.call.0);
    let cell = CellSpec { overlay: None, ..cell };
    let session = sessions.start(&id, line, cell, host, command, at_most).map_err(|error| match error {
        SessionError::Start(error) => missing_programs::failed(context, error),
        error => ToolError::new(Code::Quota, error.to_string())
            .hint("close one with shell_session, then try again; the user can change `limits.sessions` of the profile")
            .because(error),
    })?;
    let mut facts = session.enforcement().map(|enforced| enforced.summary()).unwrap_or_default();
    facts.push("undoable:no".to_owned());
    Ok((id, facts))
}
