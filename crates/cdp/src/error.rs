//! Errors of calls.

use std::time::Duration;

use crate::id::SessionId;

/// Reason why a call has no answer.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CdpError {
    /// The browser is gone, or its streams were closed. Every later call ends like this.
    #[error("the connection to the browser is closed: {reason}")]
    Closed {
        /// Reason of the end: "end of stream", or the error of the stream.
        reason: String,
    },
    /// The session was detached while the call waited: its page or frame was closed.
    #[error("the session {session} has ended")]
    SessionEnded {
        /// Session that the call was made in.
        session: SessionId,
    },
    /// The browser answered with an error.
    #[error("{method}: {message} ({code})")]
    Refused {
        /// Method of the call.
        method: &'static str,
        /// Error code of JSON-RPC.
        code: i64,
        /// Message of the browser, with the details that it gave.
        message: String,
    },
    /// The answer has another shape than the caller expects.
    #[error("{method}: the answer is not as expected: {reason}")]
    Answer {
        /// Method of the call.
        method: &'static str,
        /// Position and kind of the difference.
        reason: String,
    },
    /// The parameters cannot be written as JSON.
    #[error("{method}: the parameters are no JSON: {reason}")]
    Parameters {
        /// Method of the call.
        method: &'static str,
        /// Message of the serialiser.
        reason: String,
    },
    /// The call or its answer is larger than a message may be.
    #[error("{method}: a message of {bytes} bytes is larger than {limit}")]
    TooLarge {
        /// Method of the call.
        method: &'static str,
        /// Size of the message in bytes.
        bytes: usize,
        /// Maximum size in bytes.
        limit: usize,
    },
    /// The browser did not answer in time. The call may still take effect.
    #[error("{method}: no answer within {waited:?}")]
    TimedOut {
        /// Method of the call.
        method: &'static str,
        /// Time that the call has waited.
        waited: Duration,
    },
}

impl CdpError {
    /// Returns true if the browser itself is gone, so that no further call can succeed.
    pub fn is_closed(&self) -> bool {
        matches!(self, Self::Closed { .. })
    }

    /// Returns the message of the browser if it refused the call.
    pub fn refusal(&self) -> Option<&str> {
        match self {
            Self::Refused { message, .. } => Some(message),
            _ => None,
        }
    }
}
