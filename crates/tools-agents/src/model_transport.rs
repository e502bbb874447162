//! Requests of models through the client of the runtime: to checked addresses, with the key of the provider.

use std::sync::Arc;
use std::time::Instant;

use fetch::address::Target;
use fetch::dial::Permission;
use fetch::web::{Answer, Web, WebRequest, pause};
use fetch::{Bytes, HeaderMap, HeaderName, HeaderValue, Method};
use llm::{Body, HttpRequest, HttpResponse, Transport, TransportError};
use tool::{BoxFuture, Timer, ToolError};
use vault::SecretBytes;

/// Sender of the requests of one call to one provider.
pub(crate) struct CallTransport {
    pub(crate) web: Arc<Web>,
    pub(crate) permission: Permission,
    pub(crate) key: Option<SecretBytes>,
    /// Time by which the answer must have arrived.
    pub(crate) deadline: Instant,
}

impl CallTransport {
    fn request(&self, request: HttpRequest) -> Result<WebRequest, TransportError> {
        let failed = |what: &dyn std::fmt::Display| TransportError { message: what.to_string() };
        let mut headers = HeaderMap::new();
        for (name, value) in request.headers {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        if let Some(key) = &self.key {
            let text = [request.key.prefix.as_bytes(), &key[..]].concat();
            let mut value = HeaderValue::from_bytes(&text)
                .map_err(|_| failed(&"the key has characters that no header can have"))?;
            value.set_sensitive(true);
            headers.insert(HeaderName::from_static(request.key.name), value);
        }
        Ok(WebRequest {
            target: Target::parse(&request.url).map_err(|error| failed(&error))?,
            method: Method::POST,
            headers,
            body: request.body,
            permission: self.permission.clone(),
            deadline: self.deadline,
        })
    }
}

impl Transport for CallTransport {
    fn send(&self, request: HttpRequest) -> BoxFuture<'_, Result<HttpResponse, TransportError>> {
        Box::pin(async move {
            let request = self.request(request)?;
            let answer = self.web.send(request).await.map_err(failed)?;
            let headers = answer.headers.iter();
            let headers = headers
                .map(|(name, value)| {
                    (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned())
                })
                .collect();
            Ok(HttpResponse { status: answer.status, headers, body: Box::new(AnswerBody(answer)) })
        })
    }
}

struct AnswerBody(Answer);

impl Body for AnswerBody {
    fn piece(&mut self) -> BoxFuture<'_, Result<Option<Bytes>, TransportError>> {
        Box::pin(async move { self.0.piece().await.map_err(failed) })
    }
}

/// Converts a failure of the client, with its hint.
fn failed(error: fetch::web::WebError) -> TransportError {
    let ToolError { message, hint, .. } = tool_support::failure(error);
    let hint = hint.map(|hint| format!("; {hint}")).unwrap_or_default();
    TransportError { message: format!("{message}{hint}") }
}

/// Timer on the clock of the client's runtime.
pub(crate) struct WebTimer;

impl Timer for WebTimer {
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn sleep_until(&self, moment: Instant) -> BoxFuture<'static, ()> {
        Box::pin(async move { pause(moment.saturating_duration_since(Instant::now())).await })
    }
}
