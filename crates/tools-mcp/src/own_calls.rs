//! Requests that servers send themselves: a model's answer, a form, and the roots. Everything else is refused.
//!
//! A server's request belongs to the one call that runs at its connection. With several calls or none, nobody
//! knows on whose behalf it asks, so it is refused.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use mcp_client::{Abilities, Listener, Notice, Refusal, ServerRequests};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tool::{BoxFuture, CallerForms, CallerModel, SampleError};

use crate::form;
use crate::settings::ServerSettings;

/// Number of requests to the caller's model during one call.
const MOST_SAMPLES: u32 = 4;
/// Number of forms during one call.
const MOST_FORMS: u32 = 4;
/// Maximum number of tokens of one answer of the model.
const MOST_TOKENS: u64 = 4_096;
/// Maximum length of one request to the model, in bytes.
const LONGEST_REQUEST: usize = 256 * 1024;

/// The caller's side of a connection.
pub(crate) struct OwnCalls {
    /// Key of the server.
    server: String,
    may_sample: bool,
    may_elicit: bool,
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
    forms: Option<Arc<dyn CallerForms>>,
    /// Number of requests to show a form.
    asked: AtomicU32,
}

impl RunningCall {
    pub(crate) fn new(model: Option<Arc<dyn CallerModel>>, forms: Option<Arc<dyn CallerForms>>) -> Arc<Self> {
        Arc::new(Self { model, samples: AtomicU32::new(0), forms, asked: AtomicU32::new(0) })
    }

    /// Returns a warning about the forms that the server asked for, if it asked for any.
    pub(crate) fn warning_of_forms(&self) -> Option<&'static str> {
        let asked = self.asked.load(Ordering::SeqCst) > 0;
        asked.then_some(match self.forms {
            Some(_) => "showed forms to the user",
            None => "wanted to show a form, which the caller's program cannot show, so it was cancelled",
        })
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
    /// Creates the side of a connection. A process that serves every session asks nobody.
    pub(crate) fn new(settings: &ServerSettings, is_shared: bool, root: Option<String>) -> Arc<Self> {
        Arc::new(Self {
            server: settings.key.clone(),
            may_sample: settings.may_sample && !is_shared,
            may_elicit: settings.may_elicit && !is_shared,
            root,
            running: Mutex::default(),
            lists_changed: Mutex::default(),
        })
    }

    pub(crate) fn enter(&self, call: Arc<RunningCall>) -> Entered<'_> {
        self.running.lock().push(call.clone());
        Entered(self, call)
    }

    /// Returns true if the list of tools changed since the last call of this method.
    pub(crate) fn take_change(&self) -> bool {
        std::mem::take(&mut *self.lists_changed.lock())
    }

    fn only_call(&self) -> Result<Arc<RunningCall>, Refusal> {
        match self.running.lock().as_slice() {
            [only] => Ok(only.clone()),
            _ => Err(Refusal::new("a request to the caller must come during exactly one call")),
        }
    }

    async fn show_form(&self, params: Value) -> Result<Value, Refusal> {
        let call = self.only_call()?;
        if call.asked.fetch_add(1, Ordering::SeqCst) >= MOST_FORMS {
            return Err(Refusal::new(format!("a call may show {MOST_FORMS} forms")));
        }
        // A user who has seen no form has not declined it.
        let Some(forms) = call.forms.clone() else { return Ok(json!({"action": "cancel"})) };
        let form = form::shown(&self.server, &params)?;
        match forms.show(form.clone()).await {
            Ok(answer) => form::answered(&form, &answer),
            Err(SampleError::Refused(_)) => Ok(json!({"action": "decline"})),
            Err(SampleError::Failed(_)) => Ok(json!({"action": "cancel"})),
        }
    }

    async fn ask_model(&self, params: Value) -> Result<Value, Refusal> {
        let call = self.only_call()?;
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
        Abilities {
            sampling: self.may_sample,
            forms: self.may_elicit,
            roots: self.root.is_some(),
            ..Abilities::default()
        }
    }

    fn sample(&self, params: Value) -> BoxFuture<'_, Result<Value, Refusal>> {
        Box::pin(self.ask_model(params))
    }

    fn elicit(&self, params: Value) -> BoxFuture<'_, Result<Value, Refusal>> {
        Box::pin(self.show_form(params))
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

    /// Returns the caller's side for a server of a configuration.
    fn configured(configuration: &str) -> Arc<OwnCalls> {
        let entries: Value = serde_json::from_str(configuration).unwrap();
        let settings = crate::ServersSettings::read(entries.as_object().unwrap());
        OwnCalls::new(&settings.servers[0], false, None)
    }

    fn ask(calls: &OwnCalls, params: Value) -> Result<Value, Refusal> {
        let tokio = tokio::runtime::Builder::new_current_thread().build().unwrap();
        tokio.block_on(calls.sample(params))
    }

    #[test]
    fn a_server_asks_the_model_of_one_call_and_not_for_ever() {
        let calls = configured(r#"{"s": {"command": "x", "sampling": true}}"#);
        let params =
            || json!({"messages": [], "maxTokens": 1_000_000, "tools": [1], "includeContext": "allServers"});
        assert!(ask(&calls, params()).is_err(), "no call runs");
        let call = RunningCall::new(Some(Arc::new(Echo)), None);
        let _entered = calls.enter(call.clone());
        let asked = ask(&calls, params()).unwrap();
        assert_eq!(asked, json!({"includeContext": "none", "messages": [], "maxTokens": MOST_TOKENS}));
        for _ in 1..MOST_SAMPLES {
            ask(&calls, params()).unwrap();
        }
        assert!(ask(&calls, params()).unwrap_err().message.contains("4 times"));
        let second = calls.enter(RunningCall::new(Some(Arc::new(Echo)), None));
        assert!(ask(&calls, params()).unwrap_err().message.contains("exactly one call"));
        drop(second);
        assert_eq!(call.samples(), MOST_SAMPLES + 1);
    }

    #[test]
    fn a_request_without_a_model_is_refused() {
        let calls = configured(r#"{"s": {"command": "x", "sampling": true}}"#);
        let _entered = calls.enter(RunningCall::new(None, None));
        assert!(ask(&calls, json!({})).unwrap_err().message.contains("no model"));
        assert!(!configured(r#"{"s": {"command": "x"}}"#).abilities().sampling);
    }

    /// User who fills each form in.
    struct Willing;

    impl CallerForms for Willing {
        fn show(&self, form: Value) -> BoxFuture<'_, Result<Value, SampleError>> {
            assert!(form["message"].as_str().unwrap().starts_with("The MCP server s asks"));
            Box::pin(std::future::ready(Ok(json!({"action": "accept", "content": {"a": "x"}}))))
        }
    }

    #[test]
    fn a_server_shows_a_few_forms_and_none_where_nobody_sees_them() {
        let calls = configured(r#"{"s": {"command": "x", "elicitation": true}}"#);
        assert!(
            calls.abilities().forms && !OwnCalls::abilities(&configured(r#"{"s": {"command": "x"}}"#)).forms
        );
        let tokio = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let form = || json!({"message": "?", "requestedSchema": {"properties": {"a": {"type": "string"}}}});
        let show = || tokio.block_on(calls.elicit(form()));
        assert!(show().unwrap_err().message.contains("exactly one call"));
        let call = RunningCall::new(None, Some(Arc::new(Willing)));
        let entered = calls.enter(call.clone());
        assert_eq!(call.warning_of_forms(), None);
        for _ in 0..MOST_FORMS {
            assert_eq!(show().unwrap(), json!({"action": "accept", "content": {"a": "x"}}));
        }
        assert!(show().unwrap_err().message.contains("4 forms"));
        assert_eq!(call.warning_of_forms(), Some("showed forms to the user"));
        drop(entered);
        let unseen = RunningCall::new(None, None);
        let _entered = calls.enter(unseen.clone());
        assert_eq!(show().unwrap(), json!({"action": "cancel"}));
        assert!(unseen.warning_of_forms().unwrap().contains("cannot show"));
    }
}
