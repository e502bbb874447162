//! Requests that servers send themselves: a model's answer, a form, and the roots. Everything else is refused.
//!
//! A server's request belongs to one call that runs at its connection. A request within a result names its call
//! ([`CallRequests`]); any other belongs to the only call, or to the only one whose server does not wait for an answer
//! already. With none or several of them, nobody knows on whose behalf it asks, so it is refused.

use std::sync::Arc;

use mcp_client::{Abilities, Listener, Notice, Refusal, ServerRequests};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tool::BoxFuture;

use crate::form;
use crate::running_call::{RunningCall, Waiting};
use crate::sampling::{self, Sampling};
use crate::settings::ServerSettings;

/// Number of requests to a model during one call.
const MOST_SAMPLES: u32 = 4;
/// Number of forms during one call.
const MOST_FORMS: u32 = 4;

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

/// Mark that a call runs, until it is dropped.
pub(crate) struct Entered<'a>(&'a OwnCalls, Arc<RunningCall>);

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.0.running.lock().retain(|call| !Arc::ptr_eq(call, &self.1));
        self.1.end();
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

    /// Returns the call that a request belongs to.
    fn asking_call(&self) -> Result<Waiting, Refusal> {
        let running = self.running.lock();
        let mut free = running.iter().filter(|call| !call.is_waiting());
        match (running.as_slice(), free.next(), free.next()) {
            ([only], ..) | (_, Some(only), None) => Ok(only.wait()),
            _ => Err(Refusal::new("a request to the caller must come during exactly one call")),
        }
    }

    async fn show_form(&self, call: Waiting, params: Value) -> Result<Value, Refusal> {
        if call.count_form() >= MOST_FORMS {
            return Err(Refusal::new(format!("a call may show {MOST_FORMS} forms")));
        }
        let form = form::shown(&self.server, &params)?;
        // A user who has seen no form has not declined it, and neither has a program that could not show it.
        let cancelled = || Ok(json!({"action": "cancel"}));
        let Some(forms) = call.forms.clone() else { return cancelled() };
        match call.unless_ended(forms.show(form.clone())).await {
            Some(Ok(answer)) => form::answered(&form, &answer),
            Some(Err(_)) | None => cancelled(),
        }
    }

    async fn ask_model(&self, call: Waiting, params: Value) -> Result<Value, Refusal> {
        if call.count_sample() >= MOST_SAMPLES {
            return Err(Refusal::new(format!("a call may ask a model {MOST_SAMPLES} times")));
        }
        let Some(inner) = call.inner.clone() else { return Err(Refusal::new("no model is offered")) };
        let asked = Sampling::read(&self.server, &params, call.offers_model)?;
        let made = inner.call(sampling::TOOL.to_owned(), asked.arguments.clone());
        match call.unless_ended(made).await {
            Some(Ok(result)) => asked.answered(result),
            Some(Err(_)) | None => Err(Refusal::new("the call has ended")),
        }
    }
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
        Box::pin(async move { self.ask_model(self.asking_call()?, params).await })
    }

    fn elicit(&self, params: Value) -> BoxFuture<'_, Result<Value, Refusal>> {
        Box::pin(async move { self.show_form(self.asking_call()?, params).await })
    }

    fn roots(&self) -> BoxFuture<'_, Result<Value, Refusal>> {
        let roots: Vec<Value> =
            self.root.iter().map(|uri| json!({"uri": uri, "name": "workspace"})).collect();
        Box::pin(std::future::ready(Ok(json!({"roots": roots}))))
    }
}

/// Requests within the results of one call.
pub(crate) struct CallRequests {
    pub(crate) calls: Arc<OwnCalls>,
    pub(crate) call: Arc<RunningCall>,
}

impl ServerRequests for CallRequests {
    fn abilities(&self) -> Abilities {
        self.calls.abilities()
    }

    fn sample(&self, params: Value) -> BoxFuture<'_, Result<Value, Refusal>> {
        Box::pin(self.calls.ask_model(self.call.wait(), params))
    }

    fn elicit(&self, params: Value) -> BoxFuture<'_, Result<Value, Refusal>> {
        Box::pin(self.calls.show_form(self.call.wait(), params))
    }

    fn roots(&self) -> BoxFuture<'_, Result<Value, Refusal>> {
        self.calls.roots()
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
    use jiff::Timestamp;
    use tokio::sync::Notify;
    use tool::{
        AnyTool, ByteReservation, CallId, CallResult, CallerForms, InnerCalls, Meta, Outcome, Presentation,
        SampleError, ToolError,
    };

    use super::*;

    /// Calls that repeat their arguments as the answer of a model.
    struct Echo;

    impl InnerCalls for Echo {
        fn tools(&self) -> Arc<[Arc<dyn AnyTool>]> {
            Arc::default()
        }

        fn call(&self, tool: String, arguments: Value) -> BoxFuture<'_, Result<CallResult, ToolError>> {
            let data = json!({"response": arguments.to_string(), "model_used": tool, "truncated": false});
            let meta = Meta::arrived(CallId("c1".to_owned()), Timestamp::UNIX_EPOCH);
            let outcome = Outcome::Ok(data.into());
            let result = CallResult {
                outcome,
                presentation: Presentation::Record,
                meta,
                held: ByteReservation::default(),
            };
            Box::pin(std::future::ready(Ok(result)))
        }
    }

    /// User who fills each form in, after the release if there is one.
    #[derive(Default)]
    struct Willing(Option<Arc<Notify>>);

    impl CallerForms for Willing {
        fn show(&self, form: Value) -> BoxFuture<'_, Result<Value, SampleError>> {
            assert!(form["message"].as_str().unwrap().starts_with("The MCP server s asks"));
            Box::pin(async move {
                if let Some(release) = &self.0 {
                    release.notified().await;
                }
                Ok(json!({"action": "accept", "content": {"a": "x"}}))
            })
        }
    }

    /// Program that shows no form although it says so.
    struct Broken;

    impl CallerForms for Broken {
        fn show(&self, _: Value) -> BoxFuture<'_, Result<Value, SampleError>> {
            Box::pin(std::future::ready(Err(SampleError::Refused("unknown method".to_owned()))))
        }
    }

    /// Returns the caller's side for a server of a configuration.
    fn configured(configuration: &str) -> Arc<OwnCalls> {
        let entries: Value = serde_json::from_str(configuration).unwrap();
        let settings = crate::ServersSettings::read(entries.as_object().unwrap());
        OwnCalls::new(&settings.servers[0], false, None)
    }

    fn both() -> Arc<OwnCalls> {
        configured(r#"{"s": {"command": "x", "sampling": true, "elicitation": true}}"#)
    }

    fn with_model() -> Arc<RunningCall> {
        RunningCall::new(Some(Arc::new(Echo)), false, None)
    }

    fn with_forms(forms: impl CallerForms + 'static) -> Arc<RunningCall> {
        RunningCall::new(None, false, Some(Arc::new(forms)))
    }

    fn form() -> Value {
        json!({"message": "?", "requestedSchema": {"properties": {"a": {"type": "string"}}}})
    }

    fn request() -> Value {
        json!({"messages": [{"role": "user", "content": {"type": "text", "text": "Say hello."}}]})
    }

    #[tokio::test]
    async fn a_server_asks_a_model_during_one_call_and_not_for_ever() {
        let calls = both();
        assert!(calls.sample(request()).await.is_err(), "no call runs");
        let call = with_model();
        let entered = calls.enter(call.clone());
        assert_eq!(call.warnings(), [""; 0]);
        for _ in 0..MOST_SAMPLES {
            let said = calls.sample(request()).await.unwrap();
            assert!(said["content"]["text"].as_str().unwrap().contains("Say hello."), "{said}");
        }
        assert!(calls.sample(request()).await.unwrap_err().message.contains("4 times"));
        assert_eq!(call.warnings(), ["asked for a model 5 times"]);
        drop(entered);
        let _entered = calls.enter(RunningCall::new(None, false, None));
        assert!(calls.sample(request()).await.unwrap_err().message.contains("no model"));
        assert!(!configured(r#"{"s": {"command": "x"}}"#).abilities().sampling);
    }

    #[tokio::test]
    async fn a_server_shows_a_few_forms_and_none_where_nobody_sees_them() {
        let calls = both();
        assert!(
            calls.abilities().forms && !OwnCalls::abilities(&configured(r#"{"s": {"command": "x"}}"#)).forms
        );
        assert!(calls.elicit(form()).await.unwrap_err().message.contains("exactly one call"));
        let call = with_forms(Willing::default());
        let entered = calls.enter(call.clone());
        for _ in 0..MOST_FORMS {
            let answer = calls.elicit(form()).await.unwrap();
            assert_eq!(answer, json!({"action": "accept", "content": {"a": "x"}}));
        }
        assert!(calls.elicit(form()).await.unwrap_err().message.contains("4 forms"));
        assert_eq!(call.warnings(), ["asked to show forms to the user"]);
        drop(entered);
        for unseen in [RunningCall::new(None, false, None), with_forms(Broken)] {
            let _entered = calls.enter(unseen);
            assert_eq!(calls.elicit(form()).await.unwrap(), json!({"action": "cancel"}));
        }
    }

    #[tokio::test]
    async fn a_request_belongs_to_the_only_call_that_does_not_wait_already() {
        let (calls, release) = (both(), Arc::new(Notify::new()));
        let left = with_forms(Willing(Some(release.clone())));
        let entered = calls.enter(left.clone());
        let first = tokio::spawn({
            let calls = calls.clone();
            async move { calls.elicit(form()).await }
        });
        while !left.is_waiting() {
            tokio::task::yield_now().await;
        }
        let next = calls.enter(with_forms(Willing::default()));
        assert_eq!(calls.elicit(form()).await.unwrap()["action"], "accept", "the new call asks");
        let third = with_forms(Willing::default());
        let _third = calls.enter(third.clone());
        assert!(calls.elicit(form()).await.unwrap_err().message.contains("exactly one call"));
        // A request within a result names its call.
        let named = CallRequests { calls: calls.clone(), call: third };
        assert_eq!(named.elicit(form()).await.unwrap()["action"], "accept");
        drop(next);
        drop(entered);
        // The end of a call withdraws its form.
        assert_eq!(first.await.unwrap().unwrap(), json!({"action": "cancel"}));
        assert!(!left.is_waiting());
        release.notify_one();
    }
}
