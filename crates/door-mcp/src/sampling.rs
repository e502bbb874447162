//! Model of the client of a connection, up to revision 2025-11-25: `sampling/createMessage`.

use rmcp::model::ServerRequest;
use serde_json::{Value, json};
use tool::{BoxFuture, CallerModel, SampleError};

use crate::active_request::{ClientLine, ElicitError};
use crate::client_info::ClientInfo;

/// Model that a client offers.
pub(crate) struct ClientModel {
    line: ClientLine,
    calls_tools: bool,
}

impl ClientModel {
    /// Returns the model of a client, if it offers one. From revision 2026-07-28 on, a server cannot send a
    /// request to its client, and sampling is deprecated there.
    pub(crate) fn of(line: &ClientLine, peer: &ClientInfo) -> Option<Self> {
        let sampling = peer.capabilities.sampling.as_ref().filter(|_| !peer.modern)?;
        Some(Self { line: line.clone(), calls_tools: sampling.tools.is_some() })
    }
}

impl CallerModel for ClientModel {
    fn calls_tools(&self) -> bool {
        self.calls_tools
    }

    fn sample(&self, params: Value) -> BoxFuture<'_, Result<Value, SampleError>> {
        Box::pin(async move {
            let request = json!({"method": "sampling/createMessage", "params": params});
            let request: ServerRequest = serde_json::from_value(request)
                .map_err(|error| SampleError::Refused(format!("the request has no form in MCP: {error}")))?;
            // The deadline of the call bounds the wait, because models take their time.
            let answer = self.line.ask_for(request, None);
            match answer.await {
                Ok(answer) => Ok(answer.said),
                Err(error @ ElicitError::Refused(_)) => Err(SampleError::Refused(error.to_string())),
                Err(error) => Err(SampleError::Failed(error.to_string())),
            }
        })
    }
}
