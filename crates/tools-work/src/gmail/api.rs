//! Requests to Gmail: sends one with the login, waits for rate limits, and retries it only if it
//! reads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use fetch::address::Target;
use fetch::web::{Web, WebError, WebRequest, pause};
use fetch::{Bytes, HeaderMap, HeaderValue};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use tool::{Code, Context, EffectState, Retry, ToolError};
use tool_support::{BodyError, failure, permission};
use url::form_urlencoded::Serializer;
use vault::{SecretBytes, Vault};

use crate::gmail::errors::{Complaint, MAX_WAITS};
use crate::gmail::message::Wire;
use crate::gmail::place::Gmail;
use crate::gmail::tokens::Tokens;

/// Delays before the second and the third attempt of a request that reads.
const WAITS: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(1)];
/// Maximum number of bytes of an answer. The largest answer of Gmail is an attachment in base64:
/// Gmail accepts no message above 50 MB.
const LARGEST: u64 = 80 * 1024 * 1024;
/// Minimum time that must be left for the request itself after a wait for a limit.
const SPARE: Duration = Duration::from_secs(2);
/// Maximum number of parallel requests of one call. Gmail allows 250 units per second and user, and
/// one message costs five.
const AT_ONCE: usize = 4;

/// The requests of one call.
pub(crate) struct ApiCalls<'a> {
    context: &'a Context,
    web: Arc<Web>,
    vault: Arc<Vault>,
    gmail: &'a Gmail,
    deadline: Instant,
    /// The last token that worked.
    token: Mutex<Option<Arc<SecretBytes>>>,
    /// True while it is unknown whether a message was sent.
    began: Arc<AtomicBool>,
}

/// A reason why a request failed.
pub(crate) enum ApiRefusal {
    /// The request was certainly not carried out. The flag is true if a retry may succeed.
    Undone(ToolError, bool),
    /// The request may have been carried out.
    Lost(ToolError),
    /// Gmail refused the request, with a reason.
    Said(Complaint),
}

/// A request that can be sent repeatedly.
struct ApiRequest {
    method: fetch::Method,
    target: Target,
    body: Bytes,
    kind: Option<HeaderValue>,
}

impl<'a> ApiCalls<'a> {
    pub(crate) fn begin(context: &'a Context, gmail: &'a Gmail) -> Result<Self, ToolError> {
        Ok(Self {
            context,
            web: context.service()?,
            vault: context.service()?,
            gmail,
            deadline: Instant::now() + context.timeout,
            token: Mutex::default(),
            began: Arc::default(),
        })
    }

    pub(crate) fn context(&self) -> &'a Context {
        self.context
    }

    pub(crate) fn vault(&self) -> &Vault {
        &self.vault
    }

    pub(crate) fn began(&self) -> Arc<AtomicBool> {
        self.began.clone()
    }

    /// Returns the resource at this path. Retries if no answer came.
    pub(crate) async fn get<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &[(&str, &str)],
    ) -> Result<T, ToolError> {
        let target = self.target(path, query)?;
        let request = ApiRequest { method: fetch::Method::GET, target, body: Bytes::new(), kind: None };
        let mut waits = WAITS.iter();
        loop {
            let (error, may_pass) = match self.patiently(&request).await {
                Ok(body) => return serde_json::from_slice(&body).map_err(|error| unlike(&error)),
                Err(ApiRefusal::Said(complaint)) => {
                    let may_pass = complaint.may_pass();
                    (complaint.into(), may_pass)
                }
                Err(ApiRefusal::Undone(error, may_pass)) => (error, may_pass),
                Err(ApiRefusal::Lost(error)) => (error, true),
            };
            let wait = waits.next().copied().filter(|wait| may_pass && *wait < self.left());
            let Some(wait) = wait else { return Err(if may_pass { error.retry(Retry::Now) } else { error }) };
            pause(wait).await;
        }
    }

    /// Returns these messages, in this order and in this format.
    pub(crate) async fn messages(
        &self,
        ids: &[String],
        query: &[(&str, &str)],
    ) -> Result<Vec<Wire>, ToolError> {
        let mut found = Vec::with_capacity(ids.len());
        for some in ids.chunks(AT_ONCE) {
            self.context.stop.check()?;
            let total = u64::try_from(ids.len()).ok();
            self.context.progress.report(u64::try_from(found.len()).unwrap_or_default(), total, "messages");
            found.extend(all(some.iter().map(|id| self.message(id, query)).collect()).await?);
        }
        Ok(found)
    }

    /// Returns one message.
    pub(crate) async fn message(&self, id: &str, query: &[(&str, &str)]) -> Result<Wire, ToolError> {
        self.get(&format!("messages/{}", segment(id)), query).await
    }

    /// Sends a message exactly once.
    pub(crate) async fn upload(&self, body: Bytes, kind: HeaderValue) -> Result<Wire, ApiRefusal> {
        let undone = |error| ApiRefusal::Undone(error, false);
        let path = "upload/gmail/v1/users/me/messages/send?uploadType=multipart";
        let target = self.gmail.api().join(path).map_err(|error| undone(malformed(&error)))?;
        let request = ApiRequest { method: fetch::Method::POST, target, body, kind: Some(kind) };
        self.began.store(true, Ordering::SeqCst);
        let answer = self.patiently(&request).await;
        let is_sure = match &answer {
            Ok(_) | Err(ApiRefusal::Undone(..)) => true,
            Err(ApiRefusal::Said(complaint)) => !complaint.may_pass(),
            Err(ApiRefusal::Lost(_)) => false,
        };
        self.began.store(!is_sure, Ordering::SeqCst);
        let body = answer?;
        serde_json::from_slice(&body)
            .map_err(|error| ApiRefusal::Lost(unlike(&error).effect(EffectState::Done)))
    }

    fn target(&self, path: &str, query: &[(&str, &str)]) -> Result<Target, ToolError> {
        let mut text = format!("gmail/v1/users/me/{path}");
        if !query.is_empty() {
            text.push('?');
            text.push_str(&Serializer::new(String::new()).extend_pairs(query).finish());
        }
        self.gmail.api().join(&text).map_err(|error| malformed(&error))
    }

    pub(crate) fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Returns the body of the answer. Waits for Gmail's limits if the call has the time, and
    /// renews a refused token once. Gmail has not carried out the request in either case.
    async fn patiently(&self, request: &ApiRequest) -> Result<Vec<u8>, ApiRefusal> {
        let mut renewed = false;
        let mut attempt = 0;
        loop {
            let token = self.token(None).await?;
            let (complaint, headers) = match self.once(request, &token).await? {
                Ok(body) => return Ok(body),
                Err(refused) => refused,
            };
            if complaint.is_about_the_token() && !renewed {
                renewed = true;
                self.token(Some(&token)).await?;
                continue;
            }
            if !complaint.is_limit() {
                return Err(ApiRefusal::Said(complaint));
            }
            let now = self.context.clock.now();
            let wait = complaint.wait(&headers, now, attempt);
            match wait.filter(|wait| attempt < MAX_WAITS && *wait + SPARE < self.left()) {
                Some(wait) => {
                    self.context.progress.report(0, None, "waiting for Gmail's rate limit");
                    attempt += 1;
                    pause(wait).await;
                }
                None => return Err(ApiRefusal::Undone(complaint.limited(wait, now), false)),
            }
        }
    }

    /// Returns the token of this call, other than `refused`.
    async fn token(&self, refused: Option<&SecretBytes>) -> Result<Arc<SecretBytes>, ApiRefusal> {
        let undone = |error| ApiRefusal::Undone(error, false);
        let kept = || self.token.lock();
        let is_another = |token: &Arc<SecretBytes>| refused.is_none_or(|refused| refused[..] != token[..]);
        let known = kept().clone().filter(is_another);
        if let Some(token) = known {
            return Ok(token);
        }
        let tokens = Tokens {
            context: self.context,
            web: &self.web,
            gmail: self.gmail,
            vault: &self.vault,
            deadline: self.deadline,
        };
        let token = Arc::new(tokens.access(refused).await.map_err(undone)?);
        *kept() = Some(token.clone());
        Ok(token)
    }

    /// Sends a request once.
    async fn once(
        &self,
        request: &ApiRequest,
        token: &SecretBytes,
    ) -> Result<Result<Vec<u8>, (Complaint, HeaderMap)>, ApiRefusal> {
        let undone = |error| ApiRefusal::Undone(error, false);
        let ask = WebRequest {
            target: request.target.clone(),
            method: request.method.clone(),
            headers: headers(token, request.kind.as_ref()).map_err(undone)?,
            body: request.body.clone(),
            permission: permission(self.context, &request.target, true).map_err(undone)?,
            deadline: self.deadline,
        };
        let mut answer = self.web.send(ask).await.map_err(refused)?;
        let (status, headers) = (answer.status, answer.headers.clone());
        let garbled = |why: &dyn std::fmt::Display| {
            let message = format!("Gmail's response, of status {status}, cannot be read: {why}");
            ApiRefusal::Lost(ToolError::new(Code::Runtime, message).hint("Gmail may answer later"))
        };
        let decoder = tool_support::decoder(&answer, true, LARGEST).map_err(|error| garbled(&error))?;
        let body = tool_support::whole(&mut answer, decoder).await.map_err(|error| match error {
            BodyError::Web(error) => ApiRefusal::Lost(failure(error)),
            BodyError::Decode(error) => garbled(&error),
        })?;
        if (200..300).contains(&status) {
            return Ok(Ok(body));
        }
        Ok(Err((Complaint::read(status, &body), headers)))
    }
}

/// Awaits all futures concurrently and returns their results in order, or the first error.
async fn all<T>(futures: Vec<impl Future<Output = Result<T, ToolError>>>) -> Result<Vec<T>, ToolError> {
    let mut under_way: Vec<_> = futures.into_iter().map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|context| {
        let mut waits = false;
        for (future, done) in under_way.iter_mut().filter(|(_, done)| done.is_none()) {
            match future.as_mut().poll(context) {
                Poll::Ready(Ok(value)) => *done = Some(value),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => waits = true,
            }
        }
        if waits {
            return Poll::Pending;
        }
        Poll::Ready(Ok(under_way.iter_mut().filter_map(|(_, done)| done.take()).collect()))
    })
    .await
}

/// Encodes a path segment, so that no character in it has a special meaning.
pub(crate) fn segment(text: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_".contains(byte);
    let byte = |byte: u8| if plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(byte).collect()
}

fn headers(token: &SecretBytes, kind: Option<&HeaderValue>) -> Result<HeaderMap, ToolError> {
    let mut value = b"Bearer ".to_vec();
    value.extend_from_slice(token);
    let made = HeaderValue::from_bytes(&value);
    // The copied secret must not stay in memory that is reused.
    value.fill(0);
    let mut made = made.map_err(|_| {
        ToolError::new(Code::Unavailable, "the Gmail login has characters that a token cannot have")
            .hint("the user logs in again: `handfast login gmail`")
    })?;
    made.set_sensitive(true);
    let usual = [
        (fetch::ACCEPT, "application/json"),
        (fetch::ACCEPT_ENCODING, fetch::decode::ACCEPTED),
        (fetch::USER_AGENT, concat!("handfast/", env!("CARGO_PKG_VERSION"))),
    ];
    let mut headers: HeaderMap =
        usual.into_iter().map(|(name, value)| (name, HeaderValue::from_static(value))).collect();
    headers.extend(kind.map(|kind| (fetch::CONTENT_TYPE, kind.clone())));
    headers.insert("authorization", made);
    Ok(headers)
}

fn refused(error: WebError) -> ApiRefusal {
    let (may_have_acted, may_pass) = (error.may_have_acted(), error.may_pass());
    let error = failure(error);
    if may_have_acted { ApiRefusal::Lost(error) } else { ApiRefusal::Undone(error, may_pass) }
}

/// Returns the error for an answer that Gmail does not document.
pub(crate) fn unlike(error: &dyn std::fmt::Display) -> ToolError {
    ToolError::new(Code::Runtime, format!("Gmail's response does not match its documentation: {error}"))
        .hint("Gmail may answer later")
}

fn malformed(error: &dyn std::fmt::Display) -> ToolError {
    ToolError::internal(format!("the request has no valid URL: {error}"))
}
