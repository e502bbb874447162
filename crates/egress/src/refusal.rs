//! Responses of the proxy itself to requests that it refuses.

use std::io;

use tokio::io::{AsyncWrite, AsyncWriteExt};

/// A request that is not forwarded, with the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// HTTP status code.
    pub(crate) status: u16,
    /// A sentence for the client.
    pub(crate) reason: String,
}

impl Refusal {
    pub(crate) fn malformed(reason: impl Into<String>) -> Self {
        Self { status: 400, reason: reason.into() }
    }

    pub(crate) fn denied(reason: impl Into<String>) -> Self {
        Self { status: 403, reason: reason.into() }
    }

    pub(crate) fn late(reason: impl Into<String>) -> Self {
        Self { status: 408, reason: reason.into() }
    }

    pub(crate) fn unreachable(reason: impl Into<String>) -> Self {
        Self { status: 502, reason: reason.into() }
    }

    fn words(&self) -> &'static str {
        match self.status {
            400 => "Bad Request",
            403 => "Forbidden",
            408 => "Request Timeout",
            _ => "Bad Gateway",
        }
    }

    /// Returns the reason in one line, with control characters of the host name replaced.
    pub(crate) fn body(&self) -> String {
        let reason: String =
            self.reason.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
        format!("handfast: {reason}\n")
    }

    /// Sends the response and closes the writing side of the connection.
    pub(crate) async fn send(&self, to: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        let body = self.body();
        let head = format!(
            "HTTP/1.1 {} {}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            self.status,
            self.words(),
            body.len()
        );
        to.write_all(format!("{head}{body}").as_bytes()).await?;
        to.shutdown().await
    }
}
