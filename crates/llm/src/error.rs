//! Errors of models, by what a caller does about them.

use std::time::Duration;

use tool::StopReason;

use crate::usage::Usage;

/// Maximum length of a server's message within an error, in bytes.
const LONGEST_MESSAGE: usize = 600;

/// Failure of one request to one model.
///
/// The messages come from the server, cut to 600 bytes. They may repeat parts of the request, so a caller
/// covers secrets in them before anybody sees them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// The server does not accept the key, or the key may not use the model.
    #[error("the server refuses the key: {message}")]
    Auth {
        /// Message of the server.
        message: String,
    },
    /// The account has no credit or quota left. Waiting does not help.
    #[error("the account has no credit left: {message}")]
    NoCredit {
        /// Message of the server.
        message: String,
    },
    /// The caller sends too much for now.
    #[error("the server limits the rate of requests: {message}")]
    RateLimited {
        /// Time after which the server wants to be asked again, if it says one.
        retry_after: Option<Duration>,
        /// Message of the server.
        message: String,
    },
    /// The server fails or is overloaded.
    #[error("the server fails ({status}): {message}")]
    Overloaded {
        /// HTTP status; 200 if the failure was reported within the stream.
        status: u16,
        /// Time after which the server wants to be asked again, if it says one.
        retry_after: Option<Duration>,
        /// Message of the server.
        message: String,
    },
    /// No answer came, because the connection failed.
    #[error("the server cannot be reached: {message}")]
    Unreachable {
        /// Message of the transport.
        message: String,
    },
    /// The server, or this crate before it, refuses the request as it is.
    #[error("the request is invalid: {message}")]
    Invalid {
        /// Message of the server, or of this crate.
        message: String,
    },
    /// The request is longer than the model's context.
    #[error("the request is too long for the model: {message}")]
    ContextTooLong {
        /// Message of the server.
        message: String,
    },
    /// The model or a filter of its provider refuses the content.
    #[error("the content was refused: {message}")]
    Refused {
        /// Explanation of the provider.
        message: String,
        /// Tokens that the refused answer took.
        usage: Usage,
    },
    /// The answer began and cannot be used.
    #[error("the answer broke off: {fault}")]
    Broken {
        /// Reason why it cannot be used.
        fault: StreamFault,
        /// Tokens that were spent until then.
        usage: Usage,
    },
    /// The caller stopped the request. Its connection is closed.
    #[error("the request was stopped")]
    Cancelled {
        /// Reason for the stop.
        reason: StopReason,
        /// Tokens that were spent until then.
        usage: Usage,
    },
}

/// Fault of a stream that carries an answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StreamFault {
    /// The stream ended before the answer did.
    #[error("it ended midway")]
    Ended,
    /// The connection failed.
    #[error("its connection failed: {0}")]
    Connection(String),
    /// Silence of the server lasted too long.
    #[error("nothing came for {} seconds", .0.as_secs())]
    Idle(Duration),
    /// The answer took too long as a whole.
    #[error("it did not end within {} seconds", .0.as_secs())]
    Late(Duration),
    /// A part of the stream is larger than its limit.
    #[error("its {what} is larger than {limit} bytes")]
    TooLarge {
        /// Part of the stream.
        what: &'static str,
        /// Limit in bytes.
        limit: usize,
    },
    /// The answer contains more tool calls than the limit.
    #[error("it contains more than {limit} tool calls")]
    TooManyCalls {
        /// Limit, a number of calls.
        limit: usize,
    },
    /// An event came that may not come at this point.
    #[error("an event is out of order: {0}")]
    Order(String),
    /// An event is not what the protocol describes.
    #[error("an event is malformed: {0}")]
    Malformed(String),
}

/// Step after an error, for a caller that has several models.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Another attempt: the same model may work later, another one now.
    Retry {
        /// Time that the server asked for.
        after: Option<Duration>,
    },
    /// Attempt with another model.
    Next,
    /// No attempt: another model would do no better.
    End,
}

impl ModelError {
    /// Returns what may help after this error. A model that answers nonsense is not asked again, and a
    /// wrong key, an invalid request and refused content end the attempts, because another model would
    /// hide them.
    pub fn step(&self) -> Step {
        match self {
            Self::RateLimited { retry_after, .. } | Self::Overloaded { retry_after, .. } => {
                Step::Retry { after: *retry_after }
            }
            Self::Unreachable { .. } => Step::Retry { after: None },
            Self::Broken { fault, .. } => match fault {
                StreamFault::Ended | StreamFault::Connection(_) | StreamFault::Idle(_) => {
                    Step::Retry { after: None }
                }
                _ => Step::Next,
            },
            Self::NoCredit { .. } => Step::Next,
            Self::Auth { .. }
            | Self::Invalid { .. }
            | Self::ContextTooLong { .. }
            | Self::Refused { .. }
            | Self::Cancelled { .. } => Step::End,
        }
    }

    /// Returns the tokens that the failed request took; `None` if the server began no answer, so that
    /// nothing is charged.
    pub fn usage(&self) -> Option<Usage> {
        match self {
            Self::Refused { usage, .. } | Self::Broken { usage, .. } | Self::Cancelled { usage, .. } => {
                Some(*usage)
            }
            _ => None,
        }
    }

    /// Returns the error with these tokens, if it is of a kind that has any.
    #[must_use]
    pub(crate) fn spending(mut self, spent: Usage) -> Self {
        if let Self::Refused { usage, .. } | Self::Broken { usage, .. } | Self::Cancelled { usage, .. } =
            &mut self
        {
            *usage = spent;
        }
        self
    }
}

impl From<StreamFault> for ModelError {
    fn from(fault: StreamFault) -> Self {
        Self::Broken { fault, usage: Usage::default() }
    }
}

/// Creates the error of a request that this crate does not send.
pub(crate) fn invalid(message: impl Into<String>) -> ModelError {
    ModelError::Invalid { message: message.into() }
}

/// Creates the error of an event that is not what the protocol describes.
pub(crate) fn malformed(message: impl AsRef<str>) -> ModelError {
    StreamFault::Malformed(shorten(message.as_ref())).into()
}

/// Creates the error of an event that may not come at this point.
pub(crate) fn out_of_order(message: impl AsRef<str>) -> ModelError {
    StreamFault::Order(shorten(message.as_ref())).into()
}

/// Returns the beginning of a message that comes from outside, without characters that nobody sees.
pub(crate) fn shorten(message: &str) -> String {
    let message = message.trim();
    let end = message.floor_char_boundary(LONGEST_MESSAGE);
    let (beginning, rest) = message.split_at(end);
    let visible = beginning.split_whitespace().collect::<Vec<_>>().join(" ");
    let visible: String = visible.chars().filter(|character| !character.is_control()).collect();
    if rest.is_empty() { visible } else { format!("{visible}...") }
}
