//! The exchange of one call with servers: follows redirections, retries transient failures, bounds
//! bodies.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fetch::address::Target;
use fetch::decode::{ACCEPTED, DecodeError, Decoder};
use fetch::web::{Answer, Web, WebError, WebRequest, pause};
use fetch::{Bytes, HeaderMap, HeaderName, HeaderValue};
use serde_json::json;
use tool::{Code, Context, Effect, EffectState, Hosts, Retry, ToolError};
use tool_support::{BodyError, failure, permission};

use crate::answer::Head;
use crate::fetch_url::{Args, Method, body_and_type};
use crate::placeholders::CallerHeaders;
use crate::secret_template::FilledParts;

/// Maximum number of redirections; browsers follow twenty.
const MAX_REDIRECTS: usize = 10;
/// Delays before the second and the third attempt of a request that only reads.
const WAITS: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(1)];
/// Maximum delay that a server can request.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// Caller's headers that are sent to another origin too. Any other header may be a credential.
const KEPT_ELSEWHERE: [&str; 4] = ["accept", "accept-language", "user-agent", "content-type"];

/// Headers with which a caller requests a part of a resource, or only a changed one.
const CONDITIONS: [HeaderName; 6] = [
    fetch::RANGE,
    fetch::IF_RANGE,
    fetch::IF_MATCH,
    fetch::IF_NONE_MATCH,
    fetch::IF_MODIFIED_SINCE,
    fetch::IF_UNMODIFIED_SINCE,
];

/// One exchange, from the first request to the last byte.
pub(crate) struct Exchange<'a> {
    context: &'a Context,
    web: Arc<Web>,
    hosts: Arc<Arc<dyn Hosts>>,
    given: CallerHeaders,
    filling: FilledParts,
    method: Method,
    body: Bytes,
    body_type: Option<&'static str>,
    target: Target,
    /// True after a redirection to another origin.
    elsewhere: bool,
    redirected_from: Vec<String>,
    follows: bool,
    /// True if the body is requested without compression, so that a part of it can be requested
    /// later.
    identity: bool,
    deadline: Instant,
    began: Arc<AtomicBool>,
}

impl<'a> Exchange<'a> {
    pub(crate) fn begin(context: &'a Context, args: &Args) -> Result<Self, ToolError> {
        let (body, body_type) = body_and_type(args.body.as_ref())?;
        let target = args.target()?;
        Ok(Self {
            context,
            web: context.service()?,
            hosts: context.service()?,
            given: CallerHeaders::read(&args.headers)?,
            method: args.method,
            body,
            body_type,
            filling: FilledParts::read(args, &target)?,
            target,
            elsewhere: false,
            redirected_from: Vec::new(),
            follows: args.follow_redirects,
            identity: args.save_to.is_some(),
            deadline: Instant::now() + context.timeout,
            began: Arc::default(),
        })
    }

    /// Returns the flag that is true once a request has begun that may change something on a
    /// server.
    pub(crate) fn began(&self) -> Arc<AtomicBool> {
        self.began.clone()
    }

    pub(crate) fn method(&self) -> Method {
        self.method
    }

    /// Returns the URL of the last answer.
    pub(crate) fn url(&self) -> String {
        self.target.to_string()
    }

    pub(crate) fn redirected_from(&self) -> &[String] {
        &self.redirected_from
    }

    /// Returns the URL of the last answer, with secrets by name.
    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    /// Returns true if the caller requests a part, or only a changed resource.
    pub(crate) fn is_conditional(&self) -> bool {
        CONDITIONS.iter().any(|name| self.given.has(name))
    }

    /// Returns true if the next request contains a secret.
    fn holds_secret(&self) -> bool {
        !self.elsewhere && (self.given.names().next().is_some() || self.filling.names().next().is_some())
    }

    /// Returns the first answer that is no redirection. Sends these headers besides the caller's.
    pub(crate) async fn answer(&mut self, beside: &HeaderMap) -> Result<Answer, ToolError> {
        loop {
            let answer = self.patiently(beside).await?;
            let location = answer.header(fetch::LOCATION).map(str::to_owned);
            let Some(location) = location.filter(|_| self.follows && is_redirection(answer.status)) else {
                return Ok(answer);
            };
            self.follow(answer.status, &location).map_err(|error| {
                let error = error.data(json!({"status": answer.status, "location": location}));
                self.unsure(error)
            })?;
        }
    }

    /// Follows a redirection if the policy allows the call to connect there.
    fn follow(&mut self, status: u16, location: &str) -> Result<(), ToolError> {
        if self.redirected_from.len() >= MAX_REDIRECTS {
            let message = format!("the server redirects more than {MAX_REDIRECTS} times");
            return Err(ToolError::new(Code::Runtime, message)
                .hint("`follow_redirects: false` shows the first target"));
        }
        let next = self.target.join(location).map_err(|error| {
            ToolError::new(Code::Permission, format!("the server redirects to a URL that {error}"))
        })?;
        let method = match (status, self.method) {
            (303, method) if method != Method::Head => Method::Get,
            (301 | 302, Method::Post) => Method::Get,
            (_, method) => method,
        };
        let elsewhere = self.elsewhere || !next.has_origin_of(&self.target);
        if elsewhere {
            self.holds_nothing(location, &next)?;
        }
        let host = next.host().to_string();
        let mut effects = vec![Effect::Connect {
            host: host.clone(),
            port: next.port(),
            method: Some(method.as_str().to_owned()),
            only_asks: false,
        }];
        let in_body: &[String] = if method == self.method { self.filling.names_in_body() } else { &[] };
        if elsewhere && !in_body.is_empty() {
            let message = format!("the server redirects to {}, but the body has a secret", shown(&next));
            return Err(ToolError::new(Code::Permission, message)
                .hint("a secret is not sent to another origin; if intended, request that URL directly"));
        }
        if !elsewhere {
            let secret = |name: &str| Effect::UseSecret { name: name.to_owned(), host: host.clone() };
            let names: BTreeSet<&str> =
                self.given.names().chain(in_body.iter().map(String::as_str)).collect();
            effects.extend(names.into_iter().map(secret));
        }
        self.hosts.may_also(method.level(), &effects).map_err(|mut error| {
            error.message = format!("the server redirects to {}: {}", shown(&next), error.message);
            error
        })?;
        if method != self.method {
            (self.body, self.body_type) = (Bytes::new(), None);
            self.filling.without_body();
        }
        self.redirected_from.push(self.url());
        (self.method, self.elsewhere, self.target) = (method, elsewhere, next);
        Ok(())
    }

    /// Refuses a redirection to another origin if a server has put a secret into its URL.
    fn holds_nothing(&self, location: &str, next: &Target) -> Result<(), ToolError> {
        let covering = tool_support::covering(self.context)?;
        if covering.text(location).is_none() && covering.text(&next.to_string()).is_none() {
            return Ok(());
        }
        let message = "the server redirects to another origin, but the URL has a secret";
        Err(ToolError::new(Code::Permission, message)
            .hint("a secret is not sent to another origin; if intended, request that URL directly"))
    }

    /// Returns the answer to a request. Retries a request that only reads after a transient
    /// failure.
    async fn patiently(&self, beside: &HeaderMap) -> Result<Answer, ToolError> {
        let mut waits = WAITS.iter();
        loop {
            let sent = self.once(beside).await;
            let left = self.deadline.saturating_duration_since(Instant::now());
            let wait = waits.next().filter(|_| self.method.is_safe()).and_then(|wait| match &sent {
                Ok(answer) => asked_to_wait(answer, *wait),
                Err(ExchangeError::Web(error)) if error.may_pass() => Some(*wait),
                Err(_) => None,
            });
            match wait.filter(|wait| *wait < left) {
                Some(wait) => pause(wait).await,
                None => return sent.map_err(|failed| self.outward(failed)),
            }
        }
    }

    async fn once(&self, beside: &HeaderMap) -> Result<Answer, ExchangeError> {
        let host = self.target.host().to_string();
        let mut headers = if self.elsewhere {
            self.given.plain(&KEPT_ELSEWHERE)
        } else {
            self.given.filled(self.context, &host)?
        };
        let encoding = if self.identity { "identity" } else { ACCEPTED };
        let usual = [
            (fetch::ACCEPT, Some("*/*")),
            (fetch::ACCEPT_ENCODING, Some(encoding)),
            (fetch::USER_AGENT, Some(concat!("handfast/", env!("CARGO_PKG_VERSION")))),
            (fetch::CONTENT_TYPE, self.body_type),
        ];
        for (name, value) in usual {
            if let Some(value) = value {
                headers.entry(name).or_insert(HeaderValue::from_static(value));
            }
        }
        if self.method.is_safe() {
            // A redirection to a request that only reads drops the body.
            headers.remove(fetch::CONTENT_TYPE);
        }
        headers.extend(beside.clone());
        // The URL of a redirection is the server's own text, so a `$NAME` in it is no placeholder.
        let target = if self.redirected_from.is_empty() {
            self.filling.query(self.context, &self.target)?
        } else {
            self.target.clone()
        };
        let body = self.filling.body(self.context, &host)?.unwrap_or_else(|| self.body.clone());
        self.began.fetch_or(!self.method.is_safe(), Ordering::SeqCst);
        let method = fetch::Method::from_bytes(self.method.as_str().as_bytes());
        let ask = WebRequest {
            target,
            method: method.map_err(|error| ToolError::internal("the method is invalid").because(error))?,
            headers,
            body,
            permission: permission(self.context, &self.target, self.holds_secret())?,
            deadline: self.deadline,
        };
        Ok(self.web.send(ask).await?)
    }

    /// Reads the whole body, decoded, of at most `limit` bytes.
    pub(crate) async fn body(&self, mut answer: Answer, limit: u64) -> Result<(Head, Vec<u8>), ToolError> {
        let head = Head::of(&answer);
        let too_large = |error| self.unsure(of_body(error, &head));
        let decoder = self.decoder(&answer, limit).map_err(too_large)?;
        let body = tool_support::whole(&mut answer, decoder).await.map_err(|error| match error {
            BodyError::Web(error) => self.outward(error.into()),
            BodyError::Decode(error) => too_large(error),
        })?;
        Ok((head, body))
    }

    /// Creates the decoder of the answer's body.
    pub(crate) fn decoder(&self, answer: &Answer, limit: u64) -> Result<Decoder, DecodeError> {
        tool_support::decoder(answer, self.method != Method::Head, limit)
    }

    /// Converts an error for callers.
    pub(crate) fn outward(&self, failed: ExchangeError) -> ToolError {
        let error = match failed {
            ExchangeError::Tool(error) => return error,
            ExchangeError::Web(error) => error,
        };
        let may_have_acted = error.may_have_acted();
        let retry = if error.may_pass() && self.method.is_safe() { Retry::Now } else { Retry::Never };
        let made = failure(error).retry(retry);
        if may_have_acted { self.unsure(made) } else { made }
    }

    /// Marks the error if a request was sent that may have changed something.
    pub(crate) fn unsure(&self, error: ToolError) -> ToolError {
        if self.began.load(Ordering::SeqCst) { error.effect(EffectState::Maybe) } else { error }
    }
}

/// A reason why a request has no answer.
pub(crate) enum ExchangeError {
    Web(WebError),
    Tool(ToolError),
}

impl From<WebError> for ExchangeError {
    fn from(error: WebError) -> Self {
        Self::Web(error)
    }
}

impl From<ToolError> for ExchangeError {
    fn from(error: ToolError) -> Self {
        Self::Tool(error)
    }
}

/// Returns the error of a body that cannot be read.
pub(crate) fn of_body(error: DecodeError, head: &Head) -> ToolError {
    let message = match &error {
        DecodeError::Broken { source, .. } => format!("{error}: {source}"),
        error => error.to_string(),
    };
    let (code, hint) = match &error {
        DecodeError::Large { .. } => (Code::Quota, "raise `max_bytes`, or save the body with `save_to`"),
        DecodeError::Unknown { .. } | DecodeError::Broken { .. } => {
            (Code::Runtime, "repeat the request with the header `Accept-Encoding: identity`")
        }
    };
    let data = json!({"status": head.status, "headers": head.headers});
    ToolError::new(code, message).hint(hint).data(data).because(error)
}

fn is_redirection(status: u16) -> bool {
    [301, 302, 303, 307, 308].contains(&status)
}

/// Returns the URL of a target without the part after its host, which may contain a secret from the
/// server.
fn shown(target: &Target) -> String {
    let scheme = if target.is_tls() { "https" } else { "http" };
    format!("{scheme}://{}/", target.authority())
}

/// Returns the delay that a busy server requests, unless it is too long.
fn asked_to_wait(answer: &Answer, usual: Duration) -> Option<Duration> {
    if ![429, 502, 503, 504].contains(&answer.status) {
        return None;
    }
    let Some(said) = answer.header(fetch::RETRY_AFTER) else {
        // A server that answers 429 without a delay counts requests, so a retry makes the limit
        // worse.
        return (answer.status != 429).then_some(usual);
    };
    said.trim().parse().ok().map(Duration::from_secs).filter(|wait| *wait <= LONGEST_WAIT)
}
