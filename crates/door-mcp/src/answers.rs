//! Messages about one request that arrived independently.

use std::sync::{Arc, Weak};

use rmcp::model::ErrorCode;

use crate::connection::PendingRequest;
use crate::http_session::HttpSession;
use crate::outbox::OutboxReceiver;
use crate::resumable_stream::{Follower, Messages, StreamMessage};

/// Outcome of a message.
pub enum PostOutcome {
    /// The message was accepted and needs no response.
    Accepted,
    /// The message was refused.
    Refused(PostRefusal),
    /// The message is a request. Messages about it arrive over time; the last one is its response.
    Answers(Answers),
}

/// Refusal of a message.
#[derive(Debug)]
pub struct PostRefusal {
    /// HTTP status: 400 for an invalid message, 404 for an unknown session.
    pub status: u16,
    /// Error message, as JSON.
    pub text: Vec<u8>,
}

/// Messages about one request. If this is dropped before the response, the request's call is stopped.
pub struct Answers {
    mail: OutboxReceiver,
    live: Arc<HttpSession>,
    /// Request that waits for its response. A strong reference would keep its outbox open.
    pending: Option<Weak<PendingRequest>>,
    modern: bool,
    /// Id of the session that the request has opened.
    pub opened: Option<String>,
}

impl Answers {
    /// Creates the messages about a request.
    pub(crate) fn new(
        mail: OutboxReceiver,
        live: Arc<HttpSession>,
        pending: Option<&Arc<PendingRequest>>,
        modern: bool,
        opened: Option<String>,
    ) -> Self {
        let pending = pending.map(Arc::downgrade);
        Self { mail, live, pending, modern, opened }
    }

    /// Returns the next message to the client; `None` after the response, and when the session has ended.
    pub async fn next(&mut self) -> Option<StreamMessage> {
        let letter = self.mail.next().await?;
        if letter.is_answer {
            self.pending = None;
        }
        let status = match letter.code {
            Some(
                ErrorCode::PARSE_ERROR
                | ErrorCode::INVALID_REQUEST
                | ErrorCode::UNSUPPORTED_PROTOCOL_VERSION
                | ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY
                | ErrorCode::HEADER_MISMATCH,
            ) => 400,
            Some(ErrorCode::METHOD_NOT_FOUND) if self.modern => 404,
            _ => 200,
        };
        Some(StreamMessage { status, ..letter.into() })
    }

    /// Converts to a stream that the client can resume, beginning with `said`.
    ///
    /// # Errors
    /// The arguments, if the message has no session.
    pub fn follow(self, said: Option<StreamMessage>) -> Result<Follower, Box<(Self, Option<StreamMessage>)>> {
        if self.modern {
            return Err(Box::new((self, said)));
        }
        let live = self.live.clone();
        Ok(live.streams.open(self, said))
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        // The client no longer waits for the response.
        if let Some(pending) = self.pending.as_ref().and_then(Weak::upgrade) {
            pending.cancel();
        }
        self.live.touch();
    }
}

impl Messages for Answers {
    async fn next(&mut self) -> Option<StreamMessage> {
        Answers::next(self).await
    }
}
