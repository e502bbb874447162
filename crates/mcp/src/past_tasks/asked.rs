//! What the client of a task is asked while its call runs.
//!
//! Nobody knows on which of its streams a client listens for a task, so the task says that it needs something, and its question goes
//! to the client on the way to the answer of a `tasks/result`, which is what a client sends then. Whoever has the user's token, or
//! sits at the machine, is asked meanwhile as ever, and the first answer counts.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::model::{ElicitRequest, ElicitRequestParams, JsonObject, ServerRequest};
use rmcp::task_manager::current_timestamp;
use serde_json::json;
use tokio::sync::oneshot;

use super::{RELATED, State, Task, WORKING};
use crate::turn::{Heard, Line, Unsaid};

/// What a client is told that does not wait for the result yet.
pub(super) const WAIT_TO_BE_ASKED: &str =
    "the user is to be asked: send tasks/result, on which the question comes";

type Said = Result<Heard, Unsaid>;

/// What the client is to be asked.
pub(super) struct Question {
    form: ElicitRequestParams,
    /// Where its answer goes, until there is one.
    said: Mutex<Option<oneshot::Sender<Said>>>,
}

impl Question {
    fn answer(&self, said: Said) {
        if let Some(asker) = self.said.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // Whoever asked may have given up.
            let _ = asker.send(said);
        }
    }
}

/// The question that a task waits for. It goes on without, or ends, when this is dropped.
struct Open<'a>(&'a Task);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.waits_for(None);
    }
}

impl Task {
    /// Asks whoever waits for the result of this task, or comes to wait for it in time.
    ///
    /// # Errors
    /// Why there is no answer.
    pub(crate) async fn ask(&self, mut form: ElicitRequestParams, patience: Duration) -> Said {
        if let ElicitRequestParams::FormElicitationParams { meta, .. } = &mut form {
            let related = (RELATED.to_owned(), json!({ "taskId": self.name }));
            *meta = Some(JsonObject::from_iter([related]).into());
        }
        let (said, heard) = oneshot::channel();
        self.waits_for(Some(Arc::new(Question { form, said: Mutex::new(Some(said)) })));
        let _open = Open(self);
        tokio::select! {
            said = heard => said.map_err(|_| Unsaid::Gone)?,
            () = tokio::time::sleep(patience) => Err(Unsaid::Late(patience)),
        }
    }

    fn waits_for(&self, question: Option<Arc<Question>>) {
        self.state.send_if_modified(|state: &mut State| {
            let goes_on = state.outcome.is_none();
            if goes_on {
                state.status = if question.is_some() { "input_required" } else { WORKING };
                state.changed = current_timestamp();
                state.question = question;
            }
            goes_on
        });
    }

    /// Puts what is asked to the client on this line, for as long as it waits there. Of several that wait one is asked, and the next
    /// when that waits no more.
    pub(super) async fn show(&self, line: &Line) -> Infallible {
        let _listener = self.listener.lock().await;
        let mut state = self.state.subscribe();
        loop {
            let asked = state.wait_for(|state| state.question.is_some()).await;
            let Some(question) = asked.ok().and_then(|state| state.question.clone()) else {
                // The sender is in the task.
                return std::future::pending().await;
            };
            let is_over =
                |state: &State| state.question.as_ref().is_none_or(|other| !Arc::ptr_eq(other, &question));
            let request = ServerRequest::ElicitRequest(ElicitRequest::new(question.form.clone()));
            let said = tokio::select! {
                said = line.ask(request) => Some(said),
                // Somebody else has answered, or nobody has in time.
                () = async { drop(state.wait_for(is_over).await) } => None,
            };
            match said {
                // This request is given up at once, and the next one that waits is asked.
                Some(Err(Unsaid::Gone)) => return std::future::pending().await,
                Some(said) => question.answer(said),
                None => {}
            }
            // The sender is in the task.
            drop(state.wait_for(is_over).await);
        }
    }
}
