//! Interface to the HTTP connections of the caller.
//!
//! This crate opens none. The caller dials, checks addresses, adds the credentials of the server, and decides
//! on proxies and certificates.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tool::BoxFuture;

/// Sender of HTTP requests.
///
/// Dropping the future, or the body of the answer, must close the connection or cancel the stream: that is how
/// a request is withdrawn. A redirection is an answer, and is not followed.
pub trait HttpTransport: Send + Sync {
    /// Sends a request, and returns the answer as soon as its head is there.
    fn send(&self, request: HttpRequest) -> BoxFuture<'_, Result<HttpAnswer, HttpFailure>>;
}

/// Endpoint of a server.
pub struct HttpEndpoint {
    /// URL of the endpoint.
    pub url: String,
    /// Headers of every request, with names in lower case. Credentials may be among them, or come from the transport.
    pub headers: Vec<(String, String)>,
    /// Sender of the requests.
    pub transport: Arc<dyn HttpTransport>,
}

/// Method of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpMethod {
    /// GET.
    Get,
    /// POST.
    Post,
    /// DELETE.
    Delete,
}

/// Request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpRequest {
    /// Method.
    pub method: HttpMethod,
    /// URL.
    pub url: String,
    /// Headers, with names in lower case. The transport adds those of HTTP itself.
    pub headers: Vec<(String, String)>,
    /// Body, which may be empty.
    pub body: Bytes,
}

/// Answer, whose body is still to come.
pub struct HttpAnswer {
    /// Status.
    pub status: u16,
    /// Headers. The case of names does not matter.
    pub headers: Vec<(String, String)>,
    /// Body, without its transfer and content encodings.
    pub body: Box<dyn HttpBody>,
}

/// Body of an answer.
pub trait HttpBody: Send {
    /// Returns the next piece of the body; `None` at its end.
    fn piece(&mut self) -> BoxFuture<'_, Result<Option<Bytes>, HttpFailure>>;
}

/// Failure of a connection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct HttpFailure {
    /// Cause, in one line.
    pub message: String,
}

impl HttpAnswer {
    /// Returns the value of a header, whose name is given in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(own, _)| own.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// Returns true if the answer is a success with a stream of events.
    pub(crate) fn is_event_stream(&self) -> bool {
        (200..300).contains(&self.status) && self.media_type() == "text/event-stream"
    }

    /// Returns the media type of the body, in lower case and without parameters.
    pub(crate) fn media_type(&self) -> String {
        let value = self.header("content-type").unwrap_or_default();
        value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
    }

    /// Returns the value of `Retry-After` in seconds, up to a day.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        let seconds: u64 = self.header("retry-after")?.trim().parse().ok()?;
        Some(Duration::from_secs(seconds.min(86_400)))
    }

    /// Reads the body up to `limit` bytes; `None` if it is longer.
    ///
    /// # Errors
    /// The failure of the connection.
    pub(crate) async fn read(&mut self, limit: usize) -> Result<Option<Vec<u8>>, HttpFailure> {
        let mut body = Vec::new();
        while let Some(piece) = self.body.piece().await? {
            if body.len().saturating_add(piece.len()) > limit {
                return Ok(None);
            }
            body.extend_from_slice(&piece);
        }
        Ok(Some(body))
    }
}
