//! Signals within one process: a question was asked or answered.

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;

use tokio::sync::broadcast::error::RecvError;
use tokio::sync::broadcast::{Receiver, Sender};

/// Maximum number of signals that wait for one receiver. A receiver that missed some looks again.
const CAPACITY: usize = 64;

/// Function that is told of a new question as JSON. It must not block.
pub type QuestionListener = Box<dyn Fn(&Value) + Send + Sync>;

/// Signals that questions were asked or answered in this process. Answers of other processes are found
/// by polling.
#[derive(Clone)]
pub(crate) struct AnswerSignals {
    answered: Sender<Arc<str>>,
    listeners: Arc<Mutex<Vec<QuestionListener>>>,
}

impl Default for AnswerSignals {
    fn default() -> Self {
        Self { answered: Sender::new(CAPACITY), listeners: Arc::default() }
    }
}

impl AnswerSignals {
    /// Wakes the calls that wait for the answer to this question.
    pub(super) fn send(&self, id: &str) {
        // Without a receiver, no call of this process waits.
        let _ = self.answered.send(id.into());
    }

    /// Starts to receive the signals that are sent from now on.
    pub(super) fn receive(&self) -> AnswerReceiver {
        AnswerReceiver(self.answered.subscribe())
    }

    /// Adds a listener to the questions that are asked from now on.
    pub(super) fn listen(&self, listener: QuestionListener) {
        self.listeners.lock().push(listener);
    }

    /// Tells the listeners of a new question. `question` builds the question's JSON if there is a
    /// listener.
    pub(super) fn tell(&self, question: impl FnOnce() -> Value) {
        let listeners = self.listeners.lock();
        if !listeners.is_empty() {
            let question = question();
            listeners.iter().for_each(|listener| listener(&question));
        }
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
