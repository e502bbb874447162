//! Asker whose questions wait for an answer from elsewhere.

use std::time::Duration;

use engine::{Answer, Approval, Asker};
use tool::BoxFuture;

use crate::report::note;

/// Time that a question waits for a human who answers it elsewhere.
const FOR_HUMAN: Duration = Duration::from_hours(1);

/// Asker of agents below a caller whom nobody can ask any more when the agent asks: the client's request has
/// ended by then. The question waits for whoever answers it elsewhere.
pub(crate) struct WaitingAsker;

impl Asker for WaitingAsker {
    fn ask<'a>(&'a self, approval: &'a Approval) -> BoxFuture<'a, Answer> {
        note(&format!("an agent waits for an answer: {}; `handfast approvals`", approval.id));
        Box::pin(async {
            tokio::time::sleep(FOR_HUMAN).await;
            Answer::Nobody {
                hint: "answer it with `handfast approvals`; then the agent can try again".to_owned(),
            }
        })
    }
}
