//! Limits of a connection. Everything that a server sends has one.

use std::time::Duration;

/// Limits of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Maximum length of one message of the server, in bytes. A file of 10 MB, which servers return twice (as text
    /// and as structured content), is about 21 MB.
    pub message: usize,
    /// Maximum length of one message to the server, in bytes.
    pub request: usize,
    /// Time for the handshake. Python servers take up to five seconds to start on a busy machine.
    pub handshake: Duration,
    /// Time for the answer to `server/discover` before an older server is assumed.
    pub discover: Duration,
    /// Time for a request whose caller names none.
    pub answer: Duration,
    /// Maximum number of pages of one list.
    pub pages: usize,
    /// Maximum number of entries of one list.
    pub entries: usize,
    /// Maximum length of all pages of one list together, in bytes.
    pub list: usize,
    /// Number of notifications that may come at once.
    pub notifications: u32,
    /// Number of notifications that may come in each second for long.
    pub notifications_per_second: u32,
    /// Number of notifications beyond these after which the connection is closed.
    pub flood: u32,
    /// Number of answers to no request after which the connection is closed.
    pub stray_answers: u32,
    /// Number of lines that are no messages after which the connection is closed.
    pub noise: u32,
    /// Number of requests of the server that are handled during one call. Further ones are refused, and four
    /// times as many close the connection.
    pub server_requests: u32,
    /// Number of requests of the server that are handled at the same time.
    pub server_requests_at_once: usize,
    /// Time for the handling of one request of the server. A human may have to answer it.
    pub server_request: Duration,
    /// Number of times that a server may ask for more input during one request (revision 2026-07-28).
    pub rounds: u32,
    /// Number of times that a stream which broke off is resumed for one answer.
    pub resumptions: u32,
    /// Time for a message to an HTTP server that needs no answer.
    pub notify: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            message: 32 * 1024 * 1024,
            request: 16 * 1024 * 1024,
            handshake: Duration::from_secs(30),
            discover: Duration::from_secs(10),
            answer: Duration::from_mins(5),
            pages: 100,
            entries: 2_000,
            list: 16 * 1024 * 1024,
            notifications: 2_000,
            notifications_per_second: 200,
            flood: 20_000,
            stray_answers: 16,
            noise: 100,
            server_requests: 16,
            server_requests_at_once: 4,
            server_request: Duration::from_mins(10),
            rounds: 8,
            resumptions: 5,
            notify: Duration::from_secs(10),
        }
    }
}
