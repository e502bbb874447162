//! Requests without credentials, and the parts that every request over HTTP needs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fetch::address::Target;
use fetch::dial::Permission;
use fetch::web::{Answer, Web, WebRequest};
use fetch::{HeaderMap, HeaderName, HeaderValue, Method};
use mcp_client::{HttpAnswer, HttpBody, HttpFailure, HttpMethod, HttpRequest, HttpTransport};
use tool::BoxFuture;

/// Longest exchange. The client's own limits are shorter.
const LONGEST: Duration = Duration::from_mins(10);

/// Adds the headers of a request to those of its call.
///
/// # Errors
/// [`HttpFailure`] for a header that HTTP does not have.
pub(crate) fn add_headers(headers: &mut HeaderMap, more: &[(String, String)]) -> Result<(), HttpFailure> {
    let failed = |message: String| HttpFailure { message };
    for (name, value) in more {
        let name = HeaderName::try_from(name.as_str()).map_err(|error| failed(error.to_string()))?;
        let value = HeaderValue::try_from(value.as_str()).map_err(|error| failed(error.to_string()))?;
        headers.insert(name, value);
    }
    Ok(())
}

/// Sends a request. No redirection is followed.
pub(crate) async fn sent(
    web: &Web,
    target: Target,
    headers: HeaderMap,
    request: &HttpRequest,
    permission: Permission,
) -> Result<Answer, HttpFailure> {
    let now = Instant::now();
    let ask = WebRequest {
        target,
        method: match request.method {
            HttpMethod::Get => Method::GET,
            HttpMethod::Post => Method::POST,
            HttpMethod::Delete => Method::DELETE,
        },
        headers,
        body: request.body.clone(),
        permission,
        deadline: now.checked_add(LONGEST).unwrap_or(now),
    };
    web.send(ask).await.map_err(|error| HttpFailure { message: error.to_string() })
}

pub(crate) fn read(answer: Answer) -> HttpAnswer {
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let headers =
        answer.headers.iter().map(|(name, value)| (name.as_str().to_owned(), text(value))).collect();
    HttpAnswer { status: answer.status, headers, body: Box::new(Body(answer)) }
}

/// Function that permits the addresses of a target; `None` if nothing may be sent there.
pub type Permit = Box<dyn Fn(&Target) -> Option<Permission> + Send + Sync>;

/// Sender of requests without credentials, for the steps of a login.
pub struct PlainTransport {
    web: Arc<Web>,
    permit: Permit,
}

impl PlainTransport {
    /// Creates a sender of requests to the targets that `permit` names.
    pub fn new(web: Arc<Web>, permit: Permit) -> Self {
        Self { web, permit }
    }

    async fn exchange(&self, request: HttpRequest) -> Result<HttpAnswer, HttpFailure> {
        let failed = |message: String| HttpFailure { message };
        let target = Target::parse(&request.url).map_err(|error| failed(error.to_string()))?;
        let permission = (self.permit)(&target);
        let permission = permission.ok_or_else(|| failed(format!("nothing is sent to {}", target.host())))?;
        let mut headers = HeaderMap::new();
        add_headers(&mut headers, &request.headers)?;
        Ok(read(sent(&self.web, target, headers, &request, permission).await?))
    }
}

impl HttpTransport for PlainTransport {
    fn send(&self, request: HttpRequest) -> BoxFuture<'_, Result<HttpAnswer, HttpFailure>> {
        Box::pin(self.exchange(request))
    }
}

/// Body of an answer. Dropping it closes its connection.
struct Body(Answer);

impl HttpBody for Body {
    fn piece(&mut self) -> BoxFuture<'_, Result<Option<bytes::Bytes>, HttpFailure>> {
        Box::pin(async { self.0.piece().await.map_err(|error| HttpFailure { message: error.to_string() }) })
    }
}
