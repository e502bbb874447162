//! Calls that wait for their answers.

use std::collections::HashMap;

use serde_json::value::RawValue;
use tokio::sync::oneshot;

use crate::id::SessionId;
use crate::message::Refusal;

/// End of a call, as it comes from the reader.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The browser answered.
    Answer(Box<RawValue>),
    /// The browser answered with an error.
    Refused(Refusal),
    /// The answer was larger than a message may be.
    TooLarge { bytes: usize },
    /// The session of the call has ended.
    SessionEnded,
}

/// The calls that wait, by their ids. A call ends with a receive error if the connection ends.
#[derive(Debug, Default)]
pub(crate) struct PendingCalls {
    calls: HashMap<u64, (Option<SessionId>, oneshot::Sender<Outcome>)>,
}

impl PendingCalls {
    pub(crate) fn add(&mut self, id: u64, session: Option<SessionId>) -> oneshot::Receiver<Outcome> {
        let (sender, receiver) = oneshot::channel();
        self.calls.insert(id, (session, sender));
        receiver
    }

    pub(crate) fn remove(&mut self, id: u64) {
        self.calls.remove(&id);
    }

    /// Ends a call. An answer to no waiting call is ignored: its caller has stopped waiting.
    pub(crate) fn end(&mut self, id: u64, outcome: Outcome) {
        if let Some((_, sender)) = self.calls.remove(&id) {
            // The caller may be gone, which is no error.
            let _ = sender.send(outcome);
        }
    }

    /// Ends the calls of a session.
    pub(crate) fn end_session(&mut self, session: &SessionId) {
        let of_session = self.calls.extract_if(|_, (of, _)| of.as_ref() == Some(session));
        for (_, (_, sender)) in of_session {
            let _ = sender.send(Outcome::SessionEnded);
        }
    }

    /// Ends all calls.
    pub(crate) fn clear(&mut self) {
        self.calls.clear();
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.calls.len()
    }
}
