//! Requests to Linear: sends one with the key, waits for rate limits, and retries it only if that
//! creates nothing twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fetch::address::Target;
use fetch::web::{Web, WebError, WebRequest, pause};
use fetch::{HeaderMap, HeaderValue};
use serde_json::{Value, json};
use tool::{Code, Context, Effect, EffectState, Retry, ToolError};
use tool_support::{BodyError, EndpointError, failure, permission};

use crate::linear::errors::{Complaint, limited, wait_asked_for};

/// Delays before the second and the third attempt of a request without an answer.
const WAITS: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(1)];
/// Maximum number of bytes of an answer; a hundred issues take a tenth of this.
const LARGEST: u64 = 8 * 1024 * 1024;
/// Minimum time that must be left for the request itself after a wait for a limit.
const SPARE: Duration = Duration::from_secs(2);
/// Prefix of an OAuth token, which is sent as a bearer token. A personal key is sent without a
/// scheme.
const OAUTH: &[u8] = b"lin_oauth_";
/// Name of the header for the key.
const AUTHORIZATION: &str = "authorization";

/// The endpoint of Linear, and the name of its secret.
#[derive(Debug, Clone)]
pub struct Linear {
    endpoint: Target,
    secret: String,
}

impl Linear {
    /// Linear's own endpoint (its API documentation, "Endpoint").
    pub const ENDPOINT: &str = "https://api.linear.app/graphql";
    /// Default name of the secret in the vault.
    pub const SECRET: &str = "linear_api_key";

    /// Creates a client for this URL and this secret.
    ///
    /// # Errors
    /// [`EndpointError`].
    pub fn at(endpoint: &str, secret: &str) -> Result<Self, EndpointError> {
        let endpoint = tool_support::endpoint(endpoint)?;
        Ok(Self { endpoint, secret: secret.to_owned() })
    }

    /// Returns the effects of a call beyond this machine. `does` describes a call that changes
    /// something. All GraphQL requests are POST, so the effect states explicitly which ones only
    /// read.
    pub(crate) fn effects(&self, does: Option<String>) -> Vec<Effect> {
        let host = self.endpoint.host().to_string();
        let connect = Effect::Connect {
            host: host.clone(),
            port: self.endpoint.port(),
            method: Some("POST".to_owned()),
            only_asks: does.is_none(),
        };
        let act = does.map(|what| Effect::Act { host: host.clone(), what });
        let secret = Effect::UseSecret { name: self.secret.clone(), host: host.clone() };
        [connect].into_iter().chain(act).chain([secret]).collect()
    }
}

/// The requests of one call.
pub(crate) struct ApiCalls<'a> {
    context: &'a Context,
    web: Arc<Web>,
    linear: &'a Linear,
    deadline: Instant,
    /// True if a request that may change something was sent without an answer.
    began: Arc<AtomicBool>,
}

/// A reason why a request has no data.
pub(crate) enum ApiRefusal {
    /// The request certainly did not arrive. The flag is true if a retry may succeed.
    Unsent(ToolError, bool),
    /// The request may have been carried out, but its answer did not arrive.
    Lost(ToolError),
    /// Linear refused the request, with a reason.
    Said(Complaint),
}

/// The creation of an object under an id that the client chooses.
pub(crate) struct Creation<'a> {
    /// Mutation and its variables.
    pub(crate) document: &'a str,
    pub(crate) variables: Value,
    /// Path of the created object in the answer.
    pub(crate) at: &'a str,
    /// Query that finds the object by `$id`, and its path in that answer.
    pub(crate) finding: &'a str,
    pub(crate) found_at: &'a str,
    pub(crate) id: &'a str,
}

impl<'a> ApiCalls<'a> {
    pub(crate) fn begin(context: &'a Context, linear: &'a Linear) -> Result<Self, ToolError> {
        let deadline = Instant::now() + context.timeout;
        Ok(Self { context, web: context.service()?, linear, deadline, began: Arc::default() })
    }

    pub(crate) fn began(&self) -> Arc<AtomicBool> {
        self.began.clone()
    }

    /// Returns the data of a query. Retries if no answer came.
    pub(crate) async fn query(&self, document: &str, variables: Value) -> Result<Value, ToolError> {
        self.ask(document, &variables).await?.map_err(Into::into)
    }

    /// Returns the data of a query, or Linear's refusal as a value. Retries if no answer came.
    pub(crate) async fn ask(
        &self,
        document: &str,
        variables: &Value,
    ) -> Result<Result<Value, Complaint>, ToolError> {
        let mut waits = WAITS.iter();
        loop {
            let error = match self.patiently(document, variables).await {
                Ok(data) => return Ok(Ok(data)),
                Err(ApiRefusal::Said(complaint)) if !complaint.may_pass() => return Ok(Err(complaint)),
                Err(ApiRefusal::Said(complaint)) => complaint.into(),
                Err(ApiRefusal::Unsent(error, false)) => return Err(error),
                Err(ApiRefusal::Unsent(error, true) | ApiRefusal::Lost(error)) => error.retry(Retry::Now),
            };
            match self.next(&mut waits) {
                Some(wait) => pause(wait).await,
                None => return Err(error),
            }
        }
    }

    /// Sends a change and returns its data. The change may be sent twice, because it sets absolute
    /// values.
    pub(crate) async fn change(&self, document: &str, variables: &Value) -> Result<Value, ToolError> {
        self.began.store(true, Ordering::SeqCst);
        let answer = self.ask(document, variables).await;
        let answer = answer.map_err(|error| self.unsure(error))?;
        self.began.store(false, Ordering::SeqCst);
        answer.map_err(Into::into)
    }

    /// Creates an object and returns it, with a flag that is true if this call created it. After a
    /// lost answer or a refusal, the object is searched for by its id before another attempt, so
    /// that it is created once.
    pub(crate) async fn make(&self, making: &Creation<'_>) -> Result<(Value, bool), ToolError> {
        let mut waits = WAITS.iter();
        let mut lost = false;
        loop {
            self.began.store(true, Ordering::SeqCst);
            let refused = match self.patiently(making.document, &making.variables).await {
                Ok(data) => return made(data, making.at).map(|made| (made, true)),
                Err(refused) => refused,
            };
            self.began.store(lost, Ordering::SeqCst);
            let (error, may_pass) = match refused {
                ApiRefusal::Unsent(error, may_pass) => (error, may_pass),
                ApiRefusal::Lost(error) => {
                    lost = true;
                    self.began.store(true, Ordering::SeqCst);
                    (error, true)
                }
                ApiRefusal::Said(complaint) => {
                    lost |= complaint.may_pass();
                    self.began.store(lost, Ordering::SeqCst);
                    if complaint.is_about_input() || complaint.may_pass() {
                        match self.find(making).await {
                            Ok(Some(found)) => return Ok((found, lost)),
                            Ok(None) => {}
                            Err(error) if lost => {
                                return Err(self.unsure(error.data(json!({"id": making.id}))));
                            }
                            Err(error) => return Err(error),
                        }
                    }
                    let may_pass = complaint.may_pass();
                    (ToolError::from(complaint), may_pass)
                }
            };
            let wait = self.next(&mut waits).filter(|_| may_pass);
            let Some(wait) = wait else {
                let error = if lost { error.data(json!({"id": making.id})) } else { error };
                return Err(self.unsure(error));
            };
            pause(wait).await;
            if lost && let Ok(Some(found)) = self.find(making).await {
                return Ok((found, true));
            }
        }
    }

    async fn find(&self, making: &Creation<'_>) -> Result<Option<Value>, ToolError> {
        let mut data = Box::pin(self.query(making.finding, json!({"id": making.id}))).await?;
        let nodes = data.pointer_mut(&format!("/{}/nodes", making.found_at)).and_then(Value::as_array_mut);
        Ok(nodes.and_then(Vec::pop))
    }

    /// Returns the next delay, if the call has the time for it.
    fn next(&self, waits: &mut std::slice::Iter<'_, Duration>) -> Option<Duration> {
        waits.next().copied().filter(|wait| *wait < self.left())
    }

    fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Marks an error after which something may have changed.
    fn unsure(&self, error: ToolError) -> ToolError {
        if !self.began.load(Ordering::SeqCst) {
            return error;
        }
        let error = error.effect(EffectState::Maybe).retry(Retry::Never);
        error.hint("check with `list_issues` whether it exists; with an `idempotency_key`, the same call can be repeated")
    }

    /// Returns the data of the answer. Waits for Linear's limits if the call has the time.
    async fn patiently(&self, document: &str, variables: &Value) -> Result<Value, ApiRefusal> {
        loop {
            let (complaint, headers) = match self.once(document, variables).await? {
                Ok(data) => return Ok(data),
                Err(refused) => refused,
            };
            if !complaint.is_rate_limit() {
                return Err(ApiRefusal::Said(complaint));
            }
            let wait = wait_asked_for(&headers, self.context.clock.now());
            match wait.filter(|wait| *wait + SPARE < self.left()) {
                Some(wait) => {
                    self.context.progress.report(0, None, "waiting for Linear's rate limit");
                    pause(wait).await;
                }
                None => {
                    return Err(ApiRefusal::Unsent(limited(&headers, wait, self.context.clock.now()), false));
                }
            }
        }
    }

    /// Sends a request once.
    async fn once(
        &self,
        document: &str,
        variables: &Value,
    ) -> Result<Result<Value, (Complaint, HeaderMap)>, ApiRefusal> {
        let unsent = |error| ApiRefusal::Unsent(error, false);
        let endpoint = &self.linear.endpoint;
        let body = json!({"query": document, "variables": variables}).to_string();
        let ask = WebRequest {
            target: endpoint.clone(),
            method: fetch::Method::POST,
            headers: self.headers().map_err(unsent)?,
            body: body.into(),
            permission: permission(self.context, endpoint, true).map_err(unsent)?,
            deadline: self.deadline,
        };
        let mut answer = self.web.send(ask).await.map_err(refused)?;
        let (status, headers) = (answer.status, answer.headers.clone());
        let garbled = |why: &dyn std::fmt::Display| {
            let message = format!("Linear's response, of status {status}, cannot be read: {why}");
            ApiRefusal::Lost(ToolError::new(Code::Runtime, message).hint("Linear may answer later"))
        };
        let decoder = tool_support::decoder(&answer, true, LARGEST).map_err(|error| garbled(&error))?;
        let body = tool_support::whole(&mut answer, decoder).await.map_err(|error| match error {
            BodyError::Web(error) => ApiRefusal::Lost(failure(error)),
            BodyError::Decode(error) => garbled(&error),
        })?;
        let mut said: Value = match serde_json::from_slice(&body) {
            Ok(said) => said,
            Err(_) if (300..500).contains(&status) => {
                return Ok(Err((Complaint::of_status(status), headers)));
            }
            Err(error) => return Err(garbled(&error)),
        };
        if let Some(complaint) = Complaint::read(status, &said) {
            return Ok(Err((complaint, headers)));
        }
        match said.get_mut("data").map(Value::take) {
            Some(data @ Value::Object(_)) => Ok(Ok(data)),
            _ => Err(garbled(&"no data")),
        }
    }

    fn headers(&self) -> Result<HeaderMap, ToolError> {
        let host = self.linear.endpoint.host().to_string();
        let key = tool_support::secret(
            self.context,
            &self.linear.secret,
            &host,
            tool_support::RequestPart::Header,
        )?;
        let mut value = if key.starts_with(OAUTH) { b"Bearer ".to_vec() } else { Vec::new() };
        value.extend_from_slice(&key);
        let made = HeaderValue::from_bytes(&value);
        // The copied secret must not stay in memory that is reused.
        value.fill(0);
        let mut made = made.map_err(|_| {
            let message =
                format!("the secret {} has characters that a Linear key cannot have", self.linear.secret);
            ToolError::new(Code::Unavailable, message).hint("the user stores the key as Linear shows it")
        })?;
        made.set_sensitive(true);
        let usual = [
            (fetch::ACCEPT, "application/json"),
            (fetch::ACCEPT_ENCODING, fetch::decode::ACCEPTED),
            (fetch::CONTENT_TYPE, "application/json"),
            (fetch::USER_AGENT, concat!("handfast/", env!("CARGO_PKG_VERSION"))),
        ];
        let mut headers: HeaderMap =
            usual.into_iter().map(|(name, value)| (name, HeaderValue::from_static(value))).collect();
        headers.insert(AUTHORIZATION, made);
        Ok(headers)
    }
}

fn refused(error: WebError) -> ApiRefusal {
    let (may_have_acted, may_pass) = (error.may_have_acted(), error.may_pass());
    let error = failure(error);
    if may_have_acted { ApiRefusal::Lost(error) } else { ApiRefusal::Unsent(error, may_pass) }
}

/// Returns the object that a mutation created or changed.
pub(crate) fn made(mut data: Value, at: &str) -> Result<Value, ToolError> {
    let (root, field) = at.split_once('/').unwrap_or((at, ""));
    let payload = data.get_mut(root).map(Value::take).unwrap_or_default();
    let thing = payload.get(field).cloned().filter(|_| payload["success"] == true);
    thing.filter(Value::is_object).ok_or_else(|| {
        ToolError::new(Code::Runtime, format!("Linear reports without a reason that {root} failed"))
            .effect(EffectState::Maybe)
            .hint("check the current state with `list_issues`")
    })
}
