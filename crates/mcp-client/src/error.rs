//! Errors of a connection to a foreign server, with the facts in them.

use std::time::Duration;

use serde_json::Value;

use crate::text;

/// Failure of one request to a server.
///
/// Texts of the server are cleaned and cut, and may still say anything: a caller labels them.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ClientError {
    /// The connection is closed, so the answer never comes.
    #[error("the connection is closed: {0}")]
    Closed(CloseReason),
    /// The server did not answer in time. It was told to stop.
    #[error("the server did not answer `{method}` within {} ms", .after.as_millis())]
    Timeout {
        /// Method of the request.
        method: String,
        /// Time that was allowed.
        after: Duration,
    },
    /// The server answered with an error.
    #[error("the server refuses `{method}` ({code}): {message}")]
    Refused {
        /// Method of the request.
        method: String,
        /// Code of the error in JSON-RPC.
        code: i64,
        /// Message of the server, in one line.
        message: String,
        /// Data of the error, if there is any.
        data: Option<Value>,
    },
    /// The answer does not have the form of the protocol.
    #[error("the answer to `{method}` is not valid: {problem}")]
    InvalidAnswer {
        /// Method of the request.
        method: String,
        /// Problem, in words.
        problem: String,
    },
    /// The answer is larger than its bound.
    #[error("the answer to `{method}` has more than {limit} {unit}")]
    TooMuch {
        /// Method of the request.
        method: String,
        /// Maximum number.
        limit: usize,
        /// Counted things, in the plural.
        unit: &'static str,
    },
    /// The request is longer than its bound.
    #[error("the request `{method}` has {length} bytes, and {limit} are the most")]
    RequestTooLong {
        /// Method of the request.
        method: String,
        /// Length of the message, in bytes.
        length: usize,
        /// Maximum length, in bytes.
        limit: usize,
    },
    /// The server did not say that it has this ability.
    #[error("the server does not offer {ability}")]
    NotOffered {
        /// Ability, in words.
        ability: &'static str,
    },
    /// The ability does not exist in the revision of this connection.
    #[error("revision {revision} of the protocol has no `{method}`")]
    NotInRevision {
        /// Method of the request.
        method: String,
        /// Revision of the connection.
        revision: &'static str,
    },
    /// Client and server know no revision together.
    #[error("the server speaks no known revision of the protocol (it offers {offered})")]
    NoCommonRevision {
        /// Revisions of the server, in words.
        offered: String,
    },
    /// The server asks for more input again and again.
    #[error("the server asked for more input {rounds} times during one `{method}`")]
    TooManyRounds {
        /// Method of the request.
        method: String,
        /// Number of rounds.
        rounds: u32,
    },
    /// The server wants a login.
    #[error("the server wants a login (HTTP {status})")]
    Unauthorized {
        /// HTTP status: 401, or 403 if the rights of the token do not suffice.
        status: u16,
        /// Value of `WWW-Authenticate`, for the discovery of the login.
        challenge: Option<String>,
    },
    /// The server answered with an HTTP error.
    #[error("the server answered `{method}` with HTTP {status}: {message}")]
    Http {
        /// Method of the request.
        method: String,
        /// HTTP status.
        status: u16,
        /// Beginning of the body, in one line.
        message: String,
        /// Time after which the server wants to be asked again, if it says one.
        retry_after: Option<Duration>,
    },
    /// The session of this connection is gone. A new connection begins a new one.
    #[error("the server has forgotten the session")]
    SessionLost,
    /// A connection to the server failed.
    #[error("the server cannot be reached: {message}")]
    Unreachable {
        /// Message of the transport.
        message: String,
    },
    /// The stream of the answer broke off, and could not be resumed.
    #[error("the answer to `{method}` broke off: {problem}")]
    BrokenStream {
        /// Method of the request.
        method: String,
        /// Problem, in words.
        problem: String,
    },
}

/// Reason why a connection was closed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CloseReason {
    /// The caller closed it.
    #[error("it was ended here")]
    ByCaller,
    /// The server closed its output.
    #[error("the server ended")]
    ByServer,
    /// Reading or writing failed.
    #[error("its stream failed: {0}")]
    Stream(String),
    /// A message is longer than the limit.
    #[error("the server sent a message of more than {limit} bytes")]
    MessageTooLong {
        /// Maximum length, in bytes.
        limit: usize,
    },
    /// A message has more values than the limit.
    #[error("the server sent a message of more than {limit} JSON values")]
    TooManyValues {
        /// Maximum number of values.
        limit: usize,
    },
    /// A message cannot be read, so an answer may be lost.
    #[error("the server sent a message that is not valid: {problem}")]
    Malformed {
        /// Problem, in words.
        problem: String,
    },
    /// The output of the server contains too much that is no message.
    #[error("the server wrote {lines} lines that are no messages")]
    Noise {
        /// Number of lines.
        lines: u32,
    },
    /// Too many answers belong to no request.
    #[error("the server sent {count} answers that nobody asked for")]
    StrayAnswers {
        /// Number of answers.
        count: u32,
    },
    /// The server sends notifications faster than anybody reads them.
    #[error("the server flooded the connection with {count} notifications")]
    Flood {
        /// Number of notifications that were dropped.
        count: u32,
    },
    /// The server goes on asking after many refusals.
    #[error("the server sent {count} requests of its own during one call")]
    TooManyServerRequests {
        /// Number of requests.
        count: u32,
    },
}

impl From<CloseReason> for ClientError {
    fn from(reason: CloseReason) -> Self {
        Self::Closed(reason)
    }
}

/// Makes an error about the form of an answer.
pub(crate) fn invalid(method: &str, problem: impl std::fmt::Display) -> ClientError {
    ClientError::InvalidAnswer { method: method.to_owned(), problem: line(&problem.to_string()) }
}

/// Returns a text of a server as one short line.
pub(crate) fn line(text: &str) -> String {
    text::clean_line(text, LONGEST_MESSAGE)
}

/// Maximum length of a server's message within an error, in bytes.
const LONGEST_MESSAGE: usize = 600;
