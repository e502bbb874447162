//! A request whose body has begun to arrive, as a gate judges it.

use std::sync::Arc;

use bytes::Bytes;

/// The head of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestHead {
    /// Method.
    pub method: String,
    /// Path and query.
    pub target: String,
    /// Headers that the server will get, before placeholders in them are replaced.
    pub headers: Vec<(String, Vec<u8>)>,
    /// Length of the body, if the request states one.
    pub length: Option<u64>,
}

/// A request, with its body as far as it is needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BegunRequest {
    /// Head.
    pub head: Arc<RequestHead>,
    /// First bytes of the body, without chunks.
    pub body: Bytes,
    /// True if `body` is the whole body.
    pub is_whole: bool,
}

/// Decision of a gate on a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestVerdict {
    /// The request goes on.
    Passed,
    /// The gate needs this many bytes of the body, or the whole body if it is shorter. The number
    /// must be greater than that of the bytes at hand.
    NeedsMore(usize),
    /// The request is refused.
    Refused(RequestRefusal),
}

/// The refusal of a request, which the gate has recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestRefusal {
    /// A sentence for the client.
    pub reason: String,
    /// Answer in the client's own protocol, with its content type. It is sent as a success, because
    /// some clients print it and no other one.
    pub answer: Option<(&'static str, Vec<u8>)>,
}
