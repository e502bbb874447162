//! Model and forms of the client of a connection, up to revision 2025-11-25: `sampling/createMessage` and
//! `elicitation/create`.

use rmcp::model::ServerRequest;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tool::{BoxFuture, CallerForms, CallerModel, SampleError};

use crate::active_request::{ClientLine, ElicitAnswer, ElicitError};
use crate::client_info::ClientInfo;

/// Model that a client offers up to revision 2025-11-25, by a request of the server.
pub(crate) struct SampleByRequest {
    line: ClientLine,
    calls_tools: bool,
}

impl SampleByRequest {
    /// Returns the model of a client, if it offers one. From revision 2026-07-28 on, a server cannot send a
    /// request to its client; see [`crate::suspended`].
    pub(crate) fn of(line: &ClientLine, peer: &ClientInfo) -> Option<Self> {
        let sampling = peer.capabilities.sampling.as_ref().filter(|_| !peer.modern)?;
        Some(Self { line: line.clone(), calls_tools: sampling.tools.is_some() })
    }
}

impl CallerModel for SampleByRequest {
    fn calls_tools(&self) -> bool {
        self.calls_tools
    }

    fn sample(&self, params: Value) -> BoxFuture<'_, Result<Value, SampleError>> {
        Box::pin(async move {
            let request: ServerRequest = request_of(&params)?;
            // The deadline of the call bounds the wait, because models take their time.
            heard(self.line.ask_for(request, None).await)
        })
    }
}

fn heard(answer: Result<ElicitAnswer, ElicitError>) -> Result<Value, SampleError> {
    match answer {
        Ok(answer) => Ok(answer.said),
        Err(error @ ElicitError::Refused(_)) => Err(SampleError::Refused(error.to_string())),
        Err(error) => Err(SampleError::Failed(error.to_string())),
    }
}

/// Forms that a client shows up to revision 2025-11-25, for servers behind this one. Approvals have their own way.
pub(crate) struct FormsByRequest(ClientLine);

impl FormsByRequest {
    /// Returns the forms of a client, if it shows any.
    pub(crate) fn of(line: &ClientLine, peer: &ClientInfo) -> Option<Self> {
        (peer.shows_forms() && !peer.modern).then(|| Self(line.clone()))
    }
}

impl CallerForms for FormsByRequest {
    fn show(&self, form: Value) -> BoxFuture<'_, Result<Value, SampleError>> {
        Box::pin(async move {
            let request = serde_json::from_value(json!({"method": "elicitation/create", "params": form}));
            let request: ServerRequest = request
                .map_err(|error| SampleError::Refused(format!("the form has no form in MCP: {error}")))?;
            heard(self.0.ask(request).await)
        })
    }
}

/// Returns the request with these parameters, as a request of its own or in an answer.
///
/// # Errors
/// [`SampleError::Refused`] if the parameters have no form in MCP.
pub(crate) fn request_of<T: DeserializeOwned>(params: &Value) -> Result<T, SampleError> {
    let request = json!({"method": "sampling/createMessage", "params": params});
    serde_json::from_value(request)
        .map_err(|error| SampleError::Refused(format!("the request has no form in MCP: {error}")))
}
