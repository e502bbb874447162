//! Interface to the connections of the caller.
//!
//! This crate opens none. The caller dials, checks addresses, adds the key, and decides on time limits
//! until the head of the response; see [`Transport`].

use bytes::Bytes;
use tool::BoxFuture;

/// Sender of requests.
///
/// Dropping the future, or the body of the response, must close the connection or cancel the stream: that is
/// how a request is cancelled.
pub trait Transport: Send + Sync {
    /// Sends a request, and returns the response as soon as its head is there. A redirection is not
    /// followed, since it could lead the key to another server.
    fn send(&self, request: HttpRequest) -> BoxFuture<'_, Result<HttpResponse, TransportError>>;
}

/// Request by POST.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpRequest {
    /// URL.
    pub url: String,
    /// Headers, with names in lower case. The transport adds those of HTTP itself.
    pub headers: Vec<(&'static str, &'static str)>,
    /// Header into which the transport puts the key, if the caller has one for this server.
    pub key: KeyHeader,
    /// Body, which is JSON.
    pub body: Bytes,
}

/// Header for a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyHeader {
    /// Name in lower case.
    pub name: &'static str,
    /// Text before the key in the value.
    pub prefix: &'static str,
}

/// Response, whose body is still to come.
pub struct HttpResponse {
    /// Status code.
    pub status: u16,
    /// Headers. The case of names does not matter.
    pub headers: Vec<(String, String)>,
    /// Body, without its transfer and content encodings.
    pub body: Box<dyn Body>,
}

impl HttpResponse {
    /// Returns the value of a header, whose name is given in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(own, _)| own.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }
}

/// Body of a response.
pub trait Body: Send {
    /// Returns the next piece of the body; `None` at its end.
    fn piece(&mut self) -> BoxFuture<'_, Result<Option<Bytes>, TransportError>>;
}

/// Failure of a connection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct TransportError {
    /// Cause, in one line.
    pub message: String,
}
