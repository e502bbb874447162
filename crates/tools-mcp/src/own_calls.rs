//! Requests that servers send themselves: a model's answer, and the roots. Everything else is refused.
//!
//! A server's request belongs to the one call that runs at its connection. With several calls or none, nobody
//! knows on whose behalf it asks, so it is refused.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use mcp_client::{Abilities, Listener, Notice, Refusal, ServerRequests};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tool::{BoxFuture, CallerModel, SampleError};

/// Number of requests to the caller's model during one call.
const MOST_SAMPLES: u32 = 4;
/// Maximum number of tokens of one answer of the model.
const MOST_TOKENS: u64 = 4_096;
/// Maximum length of one request to the model, in bytes.
const LONGEST_REQUEST: usize = 256 * 1024;

/// The caller's side of a connection.
pub(crate) struct OwnCalls {
    may_sample: bool,
    /// URI of the workspace, if the server sees it.
    root: Option<String>,
    running: Mutex<Vec<Arc<RunningCall>>>,
    /// True if the server said that its list of tools changed.
    lists_changed: Mutex<bool>,
}

/// Call that runs at a connection.
pub(crate) struct RunningCall {
    model: Option<Arc<dyn CallerModel>>,
    samples: AtomicU32,
}

impl RunningCall {
    pub(crate) fn new(model: Option<Arc<dyn CallerModel>>) -> Arc<Self> {
        Arc::new(Self { model, samples: AtomicU32::new(0) })
    }

    /// Returns the number of requests to the model.
    pub(crate) fn samples(&self) -> u32 {
        self.samples.load(Ordering::SeqCst)
    }
}

/// Mark that a call runs, until it is dropped.
pub(crate) struct Entered<'a>(&'a OwnCalls, Arc<RunningCall>);

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.0.running.lock().retain(|call| !Arc::ptr_eq(call, &self.1));
    }
}

impl OwnCalls {
    pub(crate) fn new(may_sample: bool, root: Option<String>) -> Arc<Self> {
        Arc::new(Self { may_sample, root, running: Mutex::default(), lists_changed: Mutex::default() })
    }

    pub(crate) fn enter(&self, call: Arc<RunningCall>) -> Entered<'_> {
        self.running.lock().push(call.clone());
        Entered(self, call)
    }

    /// Returns true if the list of tools changed since the last call of this method.
    pub(crate) fn take_change(&self) -> bool {
        std::mem::take(&mut *self.lists_changed.lock())
    }

    async fn ask_model(&self, params: Value) -> Result<Value, Refusal> {
        let call = match self.running.lock().as_slice() {
            [only] => only.clone(),
            _ => return Err(Refusal::new("a request for a model must come during exactly one call")),
        };
        let Some(model) = call.model.clone() else {
            return Err(Refusal::new("the caller offers no model"));
        };
        if call.samples.fetch_add(1, Ordering::SeqCst) >= MOST_SAMPLES {
            return Err(Refusal::new(format!("a call may ask a model {MOST_SAMPLES} times")));
        }
        let request = bounded(&params)?;
        model.sample(request).await.map_err(|error| match error {
            SampleError::Refused(_) => Refusal::new("the user refused the request"),
            SampleError::Failed(_) => Refusal::new("no answer came"),
        })
    }
}

/// Returns the parts of a request that a server may decide about. Tools and the context of other servers are not
/// among them.
fn bounded(params: &Value) -> Result<Value, Refusal> {
    if params.to_string().len() > LONGEST_REQUEST {
        return Err(Refusal::new(format!("a request has at most {LONGEST_REQUEST} bytes")));
    }
    let mut request = json!({"includeContext": "none"});
    for field in ["messages", "systemPrompt", "temperature", "stopSequences"] {
        if let Some(value) = params.get(field).filter(|value| !value.is_null()) {
            request[field] = value.clone();
        }
    }
    let wanted = params.get("maxTokens").and_then(Value::as_u64).unwrap_or(MOST_TOKENS);
    request["maxTokens"] = wanted.min(MOST_TOKENS).into();
    Ok(request)
}

impl ServerRequests for OwnCalls {
    fn abilities(&self) -> Abilities {
        Abilities { sampling: self.may_sample, roots: self.root.is_some(), ..Abilities::default() }
    }

    fn sample(&self, params: Value) -> BoxFuture<'_, Result<Value, Refusal>> {
        Box::pin(self.ask_model(params))
    }

    fn roots(&self) -> BoxFuture<'_, Result<Value, Refusal>> {
        let roots: Vec<Value> =
            self.root.iter().map(|uri| json!({"uri": uri, "name": "workspace"})).collect();
        Box::pin(std::future::ready(Ok(json!({"roots": roots}))))
    }
}

impl Listener for OwnCalls {
    fn notice(&self, notice: Notice) {
        if notice == Notice::ToolsChanged {
            *self.lists_changed.lock() = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Model that repeats the number of tokens that it may use.
    struct Echo;

    impl CallerModel for Echo {
        fn calls_tools(&self) -> bool {
            false
        }

        fn sample(&self, params: Value) -> BoxFuture<'_, Result<Value, SampleError>> {
            Box::pin(std::future::ready(Ok(params)))
        }
    }

    fn ask(calls: &OwnCalls, params: Value) -> Result<Value, Refusal> {
        let tokio = tokio::runtime::Builder::new_current_thread().build().unwrap();
        tokio.block_on(calls.sample(params))
    }

    #[test]
    fn a_server_asks_the_model_of_one_call_and_not_for_ever() {
        let calls = OwnCalls::new(true, None);
        let params =
            || json!({"messages": [], "maxTokens": 1_000_000, "tools": [1], "includeContext": "allServers"});
        assert!(ask(&calls, params()).is_err(), "no call runs");
        let call = RunningCall::new(Some(Arc::new(Echo)));
        let _entered = calls.enter(call.clone());
        let asked = ask(&calls, params()).unwrap();
        assert_eq!(asked, json!({"includeContext": "none", "messages": [], "maxTokens": MOST_TOKENS}));
        for _ in 1..MOST_SAMPLES {
            ask(&calls, params()).unwrap();
        }
        assert!(ask(&calls, params()).unwrap_err().message.contains("4 times"));
        let second = calls.enter(RunningCall::new(Some(Arc::new(Echo))));
        assert!(ask(&calls, params()).unwrap_err().message.contains("exactly one call"));
        drop(second);
        assert_eq!(call.samples(), MOST_SAMPLES + 1);
    }

    #[test]
    fn a_request_without_a_model_is_refused() {
        let calls = OwnCalls::new(true, None);
        let _entered = calls.enter(RunningCall::new(None));
        assert!(ask(&calls, json!({})).unwrap_err().message.contains("no model"));
        assert!(!OwnCalls::new(false, None).abilities().sampling);
    }
}
