//! One question to Linear at a time: sent with the key, waited for where Linear wants to be left alone, and asked again only where
//! that makes nothing twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fetch::address::Target;
use fetch::web::{Ask, Web, WebError, pause};
use fetch::{HeaderMap, HeaderValue};
use outgoing::{BodyError, EndpointError, failure, permission};
use serde_json::{Value, json};
use tool::{Code, Context, Effect, EffectState, Retry, ToolError};

use crate::linear::errors::{Complaint, limited, wait_asked_for};

/// What is waited before a question without an answer is put a second and a third time.
const WAITS: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(1)];
/// Bytes of an answer at most: a hundred issues have a tenth of that.
const LARGEST: u64 = 8 * 1024 * 1024;
/// What is left of a call's time after waiting for a limit, at the least, for the question itself.
const SPARE: Duration = Duration::from_secs(2);
/// With what a token of OAuth begins, which is sent as a bearer's; a personal key stands alone.
const OAUTH: &[u8] = b"lin_oauth_";
/// The header that has it.
const AUTHORIZATION: &str = "authorization";

/// Where Linear is, and which secret opens it.
#[derive(Debug, Clone)]
pub struct Linear {
    endpoint: Target,
    secret: String,
}

impl Linear {
    /// The endpoint of Linear itself (its documentation of the API, "Endpoint").
    pub const ENDPOINT: &str = "https://api.linear.app/graphql";
    /// The secret's name in the vault.
    pub const SECRET: &str = "linear_api_key";

    /// The one at this URL, with this secret.
    ///
    /// # Errors
    /// [`EndpointError`].
    pub fn at(endpoint: &str, secret: &str) -> Result<Self, EndpointError> {
        let endpoint = outgoing::endpoint(endpoint)?;
        Ok(Self { endpoint, secret: secret.to_owned() })
    }

    /// What each call does beyond this machine, where it does more than asking with what it does. Every question of GraphQL is a
    /// POST, so it is said here which ones only ask.
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

/// One call's questions.
pub(crate) struct Asking<'a> {
    context: &'a Context,
    web: Arc<Web>,
    linear: &'a Linear,
    deadline: Instant,
    /// Whether a question has gone out that may have changed something, and was not answered.
    began: Arc<AtomicBool>,
}

/// Why there is no data.
pub(crate) enum Refused {
    /// The question cannot have arrived.
    Unsent(ToolError, bool),
    /// It may have been answered, and the answer did not arrive.
    Lost(ToolError),
    /// Linear says why.
    Said(Complaint),
}

/// Something that is made under an id which is chosen here.
pub(crate) struct Making<'a> {
    /// The mutation and its variables.
    pub(crate) document: &'a str,
    pub(crate) variables: Value,
    /// Where the answer has what was made.
    pub(crate) at: &'a str,
    /// The query that finds it by `$id`, and where its answer has it.
    pub(crate) finding: &'a str,
    pub(crate) found_at: &'a str,
    pub(crate) id: &'a str,
}

impl<'a> Asking<'a> {
    pub(crate) fn begin(context: &'a Context, linear: &'a Linear) -> Result<Self, ToolError> {
        let deadline = Instant::now() + context.timeout;
        Ok(Self { context, web: context.service()?, linear, deadline, began: Arc::default() })
    }

    pub(crate) fn began(&self) -> Arc<AtomicBool> {
        self.began.clone()
    }

    /// The data of a query, which is put again where no answer came.
    pub(crate) async fn query(&self, document: &str, variables: Value) -> Result<Value, ToolError> {
        self.ask(document, &variables).await?.map_err(Into::into)
    }

    /// The same; what Linear says against it is an answer.
    pub(crate) async fn ask(
        &self,
        document: &str,
        variables: &Value,
    ) -> Result<Result<Value, Complaint>, ToolError> {
        let mut waits = WAITS.iter();
        loop {
            let error = match self.patiently(document, variables).await {
                Ok(data) => return Ok(Ok(data)),
                Err(Refused::Said(complaint)) if !complaint.may_pass() => return Ok(Err(complaint)),
                Err(Refused::Said(complaint)) => complaint.into(),
                Err(Refused::Unsent(error, false)) => return Err(error),
                Err(Refused::Unsent(error, true) | Refused::Lost(error)) => error.retry(Retry::Now),
            };
            match self.next(&mut waits) {
                Some(wait) => pause(wait).await,
                None => return Err(error),
            }
        }
    }

    /// What was changed. A change that sets something to what it shall be may come twice.
    pub(crate) async fn change(&self, document: &str, variables: &Value) -> Result<Value, ToolError> {
        self.began.store(true, Ordering::SeqCst);
        let answer = self.ask(document, variables).await;
        let answer = answer.map_err(|error| self.unsure(error))?;
        self.began.store(false, Ordering::SeqCst);
        answer.map_err(Into::into)
    }

    /// What was made, and whether this call has made it. Where an answer is lost, or Linear refuses, it is looked for by its id
    /// before anything is sent again, so that it is there once.
    pub(crate) async fn make(&self, making: &Making<'_>) -> Result<(Value, bool), ToolError> {
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
                Refused::Unsent(error, may_pass) => (error, may_pass),
                Refused::Lost(error) => {
                    lost = true;
                    self.began.store(true, Ordering::SeqCst);
                    (error, true)
                }
                Refused::Said(complaint) => {
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

    async fn find(&self, making: &Making<'_>) -> Result<Option<Value>, ToolError> {
        let mut data = Box::pin(self.query(making.finding, json!({"id": making.id}))).await?;
        let nodes = data.pointer_mut(&format!("/{}/nodes", making.found_at)).and_then(Value::as_array_mut);
        Ok(nodes.and_then(Vec::pop))
    }

    /// The next wait that the call has time for.
    fn next(&self, waits: &mut std::slice::Iter<'_, Duration>) -> Option<Duration> {
        waits.next().copied().filter(|wait| *wait < self.left())
    }

    fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// The error, where something may have changed.
    fn unsure(&self, error: ToolError) -> ToolError {
        if !self.began.load(Ordering::SeqCst) {
            return error;
        }
        let error = error.effect(EffectState::Maybe).retry(Retry::Never);
        error.hint("look with `list_issues` whether it is there; with an `idempotency_key`, the same call can be made again")
    }

    /// The answer, waited for where Linear's limits are used up and the call has the time.
    async fn patiently(&self, document: &str, variables: &Value) -> Result<Value, Refused> {
        loop {
            let (complaint, headers) = match self.once(document, variables).await? {
                Ok(data) => return Ok(data),
                Err(refused) => refused,
            };
            if !complaint.is_rate_limit() {
                return Err(Refused::Said(complaint));
            }
            let wait = wait_asked_for(&headers, self.context.clock.now());
            match wait.filter(|wait| *wait + SPARE < self.left()) {
                Some(wait) => {
                    self.context.progress.report(0, None, "waiting for Linear's rate limit");
                    pause(wait).await;
                }
                None => {
                    return Err(Refused::Unsent(limited(&headers, wait, self.context.clock.now()), false));
                }
            }
        }
    }

    /// One question, once.
    async fn once(
        &self,
        document: &str,
        variables: &Value,
    ) -> Result<Result<Value, (Complaint, HeaderMap)>, Refused> {
        let unsent = |error| Refused::Unsent(error, false);
        let endpoint = &self.linear.endpoint;
        let body = json!({"query": document, "variables": variables}).to_string();
        let ask = Ask {
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
            let message = format!("Linear's answer, of status {status}, cannot be read: {why}");
            Refused::Lost(ToolError::new(Code::Runtime, message).hint("Linear may answer later"))
        };
        let decoder = outgoing::decoder(&answer, true, LARGEST).map_err(|error| garbled(&error))?;
        let body = outgoing::whole(&mut answer, decoder).await.map_err(|error| match error {
            BodyError::Web(error) => Refused::Lost(failure(error)),
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
            _ => Err(garbled(&"it has no data")),
        }
    }

    fn headers(&self) -> Result<HeaderMap, ToolError> {
        let host = self.linear.endpoint.host().to_string();
        let key = outgoing::secret(self.context, &self.linear.secret, &host, outgoing::Position::Header)?;
        let mut value = if key.starts_with(OAUTH) { b"Bearer ".to_vec() } else { Vec::new() };
        value.extend_from_slice(&key);
        let made = HeaderValue::from_bytes(&value);
        // What was copied on the way here must not stay in memory that is used again.
        value.fill(0);
        let mut made = made.map_err(|_| {
            let message =
                format!("the secret {} has characters that no key of Linear has", self.linear.secret);
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

fn refused(error: WebError) -> Refused {
    let (may_have_acted, may_pass) = (error.may_have_acted(), error.may_pass());
    let error = failure(error);
    if may_have_acted { Refused::Lost(error) } else { Refused::Unsent(error, may_pass) }
}

/// What a mutation has made.
pub(crate) fn made(mut data: Value, at: &str) -> Result<Value, ToolError> {
    let (root, field) = at.split_once('/').unwrap_or((at, ""));
    let payload = data.get_mut(root).map(Value::take).unwrap_or_default();
    let thing = payload.get(field).cloned().filter(|_| payload["success"] == true);
    thing.filter(Value::is_object).ok_or_else(|| {
        ToolError::new(Code::Runtime, format!("Linear says of {root} that it did not succeed, and not why"))
            .effect(EffectState::Maybe)
            .hint("look with `list_issues` what is there")
    })
}
