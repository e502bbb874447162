//! Errors of requests for resources and prompts.

use mcp_client::ClientError;
use tool::{Code, ToolError};

use crate::connection::Connection;
use crate::failure;

/// Code of an unknown resource, in revisions up to 2025-11-25.
const UNKNOWN_RESOURCE: i64 = -32_002;
/// Code of parameters that a server does not accept, in JSON-RPC.
const WRONG_PARAMETERS: i64 = -32_602;

/// Converts the failure of a request for a resource or a prompt. `of_refusal` is the code of a refusal that the
/// protocol has for an unknown resource, or for a wrong argument of a prompt.
pub(crate) async fn of_content(
    server: &str,
    error: ClientError,
    connection: &Connection,
    of_refusal: Code,
) -> ToolError {
    let is_unknown = matches!(error, ClientError::Refused { code: UNKNOWN_RESOURCE | WRONG_PARAMETERS, .. });
    let mut failed = failure::of_client(server, error, false);
    if is_unknown {
        failed.code = of_refusal;
    }
    let words = connection.final_words().await;
    if !words.is_empty() {
        failed.message = format!("{}; it printed: {words}", failed.message);
    }
    failed
}
