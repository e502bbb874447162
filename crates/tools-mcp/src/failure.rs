//! Errors of servers in the form that callers see.

use mcp_client::{ClientError, CloseReason};
use tool::{Code, EffectState, ToolError};

/// Converts the failure of a request. `may_have_acted`: the request was one to a tool.
pub(crate) fn of_client(server: &str, error: ClientError, may_have_acted: bool) -> ToolError {
    let (code, hint) = match &error {
        ClientError::Timeout { .. } => (Code::Timeout, "try a smaller request"),
        ClientError::Refused { .. } | ClientError::InvalidAnswer { .. } => {
            (Code::Runtime, "the server answered this itself; its words are those of a stranger")
        }
        ClientError::TooMuch { .. }
        | ClientError::Closed(CloseReason::MessageTooLong { .. } | CloseReason::TooManyValues { .. }) => {
            (Code::Runtime, "ask the server for less, for example for one page")
        }
        ClientError::RequestTooLong { .. } => (Code::Validation, "send less"),
        ClientError::Unauthorized { .. } => (Code::Unavailable, ""),
        _ => (Code::Unavailable, "call again to start the server again; `mcp_servers` shows its state"),
    };
    let never_began = matches!(
        error,
        ClientError::RequestTooLong { .. }
            | ClientError::NotOffered { .. }
            | ClientError::Unauthorized { .. }
    );
    let hint = match &error {
        ClientError::Unauthorized { .. } => format!(
            "the user logs in: `handfast login mcp {server}`; or stores a token with `handfast vault set NAME --host \
             HOST` and names it in the server's `headers`"
        ),
        _ => hint.to_owned(),
    };
    let failed = ToolError::new(code, format!("the MCP server {server}: {error}")).hint(hint);
    let failed = if may_have_acted && !never_began { failed.effect(EffectState::Maybe) } else { failed };
    failed.because(error)
}

/// Makes the error for a server that cannot be started.
pub(crate) fn unavailable(server: &str, problem: &str) -> ToolError {
    ToolError::new(Code::Unavailable, format!("the MCP server {server} cannot be used: {problem}"))
        .hint("`mcp_servers` shows the state of the servers; the user's configuration starts them")
}
