//! Model and forms of the client of a connection, up to revision 2025-11-25: `sampling/createMessage` and
//! `elicitation/create`. For later revisions see [`crate::by_retry`].

use std::sync::Arc;

use rmcp::model::ServerRequest;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tool::{BoxFuture, CallerForms, CallerModel, SampleError};

use crate::active_request::{ClientLine, ElicitAnswer, ElicitError};
use crate::client_info::ClientInfo;

/// Method of a request to the client's model.
pub(crate) const MODEL_METHOD: &str = "sampling/createMessage";

/// Method of a form.
pub(crate) const FORM_METHOD: &str = "elicitation/create";

/// Model and forms that a client offers to calls.
#[derive(Default)]
pub(crate) struct OfferedByClient {
    pub(crate) model: Option<Arc<dyn CallerModel>>,
    pub(crate) forms: Option<Arc<dyn CallerForms>>,
}

impl OfferedByClient {
    /// Returns what a client offers by requests of the server. From revision 2026-07-28 on, a server cannot send
    /// a request to its client.
    pub(crate) fn by_request(line: &ClientLine, peer: &ClientInfo, may_show_forms: bool) -> Self {
        if peer.modern {
            return Self::default();
        }
        let model = peer.capabilities.sampling.as_ref().map(|sampling| {
            let calls_tools = sampling.tools.is_some();
            Arc::new(ModelByRequest { line: line.clone(), calls_tools }) as Arc<dyn CallerModel>
        });
        let forms = (may_show_forms && peer.shows_forms())
            .then(|| Arc::new(FormsByRequest(line.clone())) as Arc<dyn CallerForms>);
        Self { model, forms }
    }
}

/// Model that a client offers, by a request of the server.
struct ModelByRequest {
    line: ClientLine,
    calls_tools: bool,
}

impl CallerModel for ModelByRequest {
    fn calls_tools(&self) -> bool {
        self.calls_tools
    }

    fn sample(&self, params: Value) -> BoxFuture<'_, Result<Value, SampleError>> {
        Box::pin(async move {
            let request: ServerRequest = request_of(MODEL_METHOD, &params)?;
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

/// Forms that a client shows for servers behind this one. Approvals have their own way.
struct FormsByRequest(ClientLine);

impl CallerForms for FormsByRequest {
    fn show(&self, form: Value) -> BoxFuture<'_, Result<Value, SampleError>> {
        Box::pin(async move {
            let request: ServerRequest = request_of(FORM_METHOD, &form)?;
            heard(self.0.ask(request).await)
        })
    }
}

/// Returns the request with these parameters, as a request of its own or in an answer.
///
/// # Errors
/// [`SampleError::Refused`] if the parameters have no form in MCP.
pub(crate) fn request_of<T: DeserializeOwned>(method: &str, params: &Value) -> Result<T, SampleError> {
    let request = json!({"method": method, "params": params});
    serde_json::from_value(request)
        .map_err(|error| SampleError::Refused(format!("the request has no form in MCP: {error}")))
}
