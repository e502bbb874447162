//! The questions of calls that wait for an answer in the chat.

use std::collections::VecDeque;

use engine::{Answer, Approval, Asker, Offer};
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tool::BoxFuture;

use crate::terminal::WAIT_FOR_ANSWER;

/// Name of the answering party in the audit.
const BY: &str = "the user, in the chat";

/// An asker whose questions wait here until somebody answers them, the oldest first.
#[derive(Default)]
pub(crate) struct Questions(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    next: u64,
    questions: VecDeque<Question>,
}

struct Question {
    number: u64,
    approval: Approval,
    answer: oneshot::Sender<Answer>,
}

/// Answer of the user.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Reply {
    Once,
    No,
    Lease(Offer),
}

impl Questions {
    /// Returns the number and the content of the oldest question that still waits, and how many there are.
    pub(super) fn first(&self) -> Option<(u64, Approval, usize)> {
        let mut waiting = self.0.lock();
        // A question whose call has ended, or that somebody else has answered, is withdrawn.
        waiting.questions.retain(|question| !question.answer.is_closed());
        let count = waiting.questions.len();
        waiting.questions.front().map(|first| (first.number, first.approval.clone(), count))
    }

    /// Returns the number of the oldest question that still waits.
    pub(super) fn first_number(&self) -> Option<(u64, usize)> {
        let mut waiting = self.0.lock();
        waiting.questions.retain(|question| !question.answer.is_closed());
        waiting.questions.front().map(|first| (first.number, waiting.questions.len()))
    }

    /// Answers a question, if it still waits.
    pub(super) fn answer(&self, number: u64, reply: Reply) {
        let mut waiting = self.0.lock();
        let Some(place) = waiting.questions.iter().position(|question| question.number == number) else {
            return;
        };
        let by = BY.to_owned();
        let answer = match reply {
            Reply::Once => Answer::Once { by },
            Reply::No => Answer::Denied { by, message: None },
            Reply::Lease(offer) => Answer::Lease { offer, by },
        };
        if let Some(question) = waiting.questions.remove(place) {
            let _withdrawn = question.answer.send(answer);
        }
    }
}

impl Asker for Questions {
    fn ask<'a>(&'a self, approval: &'a Approval) -> BoxFuture<'a, Answer> {
        let (answer, answered) = oneshot::channel();
        {
            let mut waiting = self.0.lock();
            let number = waiting.next;
            waiting.next += 1;
            waiting.questions.push_back(Question { number, approval: approval.clone(), answer });
        }
        Box::pin(async move {
            match tokio::time::timeout(WAIT_FOR_ANSWER, answered).await {
                Ok(Ok(answer)) => answer,
                Ok(Err(_)) => Answer::Nobody { hint: "the chat was closed before an answer came".to_owned() },
                Err(_) => {
                    let minutes = WAIT_FOR_ANSWER.as_secs() / 60;
                    Answer::Unanswered { hint: format!("nobody answered within {minutes} minutes") }
                }
            }
        })
    }
}
