//! Responses of the proxy itself to requests that it refuses.

use std::io;

use bytes::Bytes;
use tokio::io::{AsyncWrite, AsyncWriteExt};

use crate::begun::RequestRefusal;

/// Content type of a refusal.
const TEXT: &str = "text/plain; charset=utf-8";

/// A request that is not forwarded, with the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// HTTP status code.
    pub(crate) status: u16,
    /// A sentence for the client.
    pub(crate) reason: String,
    /// Answer in the client's own protocol, with its content type.
    pub(crate) answer: Option<(&'static str, Bytes)>,
}

impl Refusal {
    pub(crate) fn malformed(reason: impl Into<String>) -> Self {
        Self { status: 400, reason: reason.into(), answer: None }
    }

    pub(crate) fn denied(reason: impl Into<String>) -> Self {
        Self { status: 403, reason: reason.into(), answer: None }
    }

    pub(crate) fn late(reason: impl Into<String>) -> Self {
        Self { status: 408, reason: reason.into(), answer: None }
    }

    pub(crate) fn unreachable(reason: impl Into<String>) -> Self {
        Self { status: 502, reason: reason.into(), answer: None }
    }

    /// Converts a refusal of the gate.
    pub(crate) fn of_request(refusal: RequestRefusal) -> Self {
        match refusal.answer {
            Some((kind, body)) => {
                Self { status: 200, reason: refusal.reason, answer: Some((kind, body.into())) }
            }
            None => Self::denied(refusal.reason),
        }
    }

    fn words(&self) -> &'static str {
        match self.status {
            200 => "OK",
            400 => "Bad Request",
            403 => "Forbidden",
            408 => "Request Timeout",
            _ => "Bad Gateway",
        }
    }

    /// Returns the content type and the body of the response: the reason in one line, with control
    /// characters of the host name replaced, or the answer in the client's own protocol.
    pub(crate) fn content(&self) -> (&'static str, Bytes) {
        if let Some(answer) = &self.answer {
            return answer.clone();
        }
        let reason: String =
            self.reason.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
        (TEXT, format!("handfast: {reason}\n").into())
    }

    /// Sends the response and closes the writing side of the connection.
    pub(crate) async fn send(&self, to: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        let (kind, body) = self.content();
        let head = format!(
            "HTTP/1.1 {} {}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            self.status,
            self.words(),
            body.len()
        );
        to.write_all(&[head.as_bytes(), &body].concat()).await?;
        to.shutdown().await
    }
}
