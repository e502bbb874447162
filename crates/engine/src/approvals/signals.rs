//! Signals between the doors of one process: a question was answered.

use std::sync::Arc;

use tokio::sync::broadcast::error::RecvError;
use tokio::sync::broadcast::{Receiver, Sender};

/// Maximum number of signals that wait for one receiver. A receiver that missed some looks again.
const CAPACITY: usize = 64;

/// Signals that questions were answered in this process. Answers of other processes are found by
/// polling.
#[derive(Debug, Clone)]
pub(crate) struct AnswerSignals(Sender<Arc<str>>);

impl Default for AnswerSignals {
    fn default() -> Self {
        Self(Sender::new(CAPACITY))
    }
}

impl AnswerSignals {
    /// Wakes the calls that wait for the answer to this question.
    pub(super) fn send(&self, id: &str) {
        // Without a receiver, no call of this process waits.
        let _ = self.0.send(id.into());
    }

    /// Starts to receive the signals that are sent from now on.
    pub(super) fn receive(&self) -> AnswerReceiver {
        AnswerReceiver(self.0.subscribe())
    }
}

/// Receiver of the signals that were sent since its start.
pub(super) struct AnswerReceiver(Receiver<Arc<str>>);

impl AnswerReceiver {
    /// Waits until this question may have been answered in this process.
    pub(super) async fn answered(&mut self, id: &str) {
        loop {
            match self.0.recv().await {
                Ok(answered) if *answered != *id => {}
                Ok(_) | Err(RecvError::Lagged(_)) => return,
                Err(RecvError::Closed) => return std::future::pending().await,
            }
        }
    }
}
