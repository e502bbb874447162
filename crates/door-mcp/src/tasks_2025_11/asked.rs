//! Questions to the client of a task while its call runs.
//!
//! The server cannot know on which of its streams the client listens for a task. So the task has
//! status `input_required`, and its question is sent before the response to a `tasks/result`, which
//! the client then requests. Holders of the user's token, and users at the machine, can answer
//! meanwhile as usual. The first answer counts.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rmcp::model::{ElicitRequest, ElicitRequestParams, JsonObject, ServerRequest};
use rmcp::task_manager::current_timestamp;
use serde_json::json;
use tokio::sync::oneshot;

use super::{RELATED, State, Task, WORKING};
use crate::active_request::{ClientLine, ElicitAnswer, ElicitError};

/// Status message for a client that does not wait for the result yet.
pub(super) const WAIT_TO_BE_ASKED: &str = "the user must be asked: send tasks/result to receive the question";

type FormResult = Result<ElicitAnswer, ElicitError>;

/// A question for the client.
pub(super) struct Question {
    form: ElicitRequestParams,
    /// Sender for the answer, until it is answered.
    said: Mutex<Option<oneshot::Sender<FormResult>>>,
}

impl Question {
    fn answer(&self, said: FormResult) {
        if let Some(asker) = self.said.lock().take() {
            // The task that asked may have given up.
            let _ = asker.send(said);
        }
    }
}

/// The open question of a task. Drop clears it, so that the task continues or ends without it.
struct OpenTaskQuestion<'a>(&'a Task);

impl Drop for OpenTaskQuestion<'_> {
    fn drop(&mut self) {
        self.0.waits_for(None);
    }
}

impl Task {
    /// Asks the client through a request that waits for the result of this task, now or within `patience`.
    ///
    /// # Errors
    /// The reason why there is no answer.
    pub(crate) async fn ask(&self, mut form: ElicitRequestParams, patience: Duration) -> FormResult {
        if let ElicitRequestParams::FormElicitationParams { meta, .. } = &mut form {
            let related = (RELATED.to_owned(), json!({ "taskId": self.name }));
            *meta = Some(JsonObject::from_iter([related]).into());
        }
        let (said, heard) = oneshot::channel();
        self.waits_for(Some(Arc::new(Question { form, said: Mutex::new(Some(said)) })));
        let _open = OpenTaskQuestion(self);
        tokio::select! {
            said = heard => said.map_err(|_| ElicitError::Gone)?,
            () = tokio::time::sleep(patience) => Err(ElicitError::Late(patience)),
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

    /// Puts the task's questions to the client on this line, for as long as the client waits there.
    /// Of several waiting requests, one is used at a time; the next one follows when it ends.
    pub(super) async fn show(&self, line: &ClientLine) -> Infallible {
        let _listener = self.listener.lock().await;
        let mut state = self.state.subscribe();
        loop {
            let asked = state.wait_for(|state| state.question.is_some()).await;
            let Some(question) = asked.ok().and_then(|state| state.question.clone()) else {
                // The task owns the sender, so the channel stays open.
                return std::future::pending().await;
            };
            let is_over =
                |state: &State| state.question.as_ref().is_none_or(|other| !Arc::ptr_eq(other, &question));
            let request = ServerRequest::ElicitRequest(ElicitRequest::new(question.form.clone()));
            let said = tokio::select! {
                said = line.ask(request) => Some(said),
                // The question was answered elsewhere, or timed out.
                () = async { drop(state.wait_for(is_over).await) } => None,
            };
            match said {
                // This request is about to be cancelled, and the next waiting one takes over.
                Some(Err(ElicitError::Gone)) => return std::future::pending().await,
                Some(said) => question.answer(said),
                None => {}
            }
            // The task owns the sender, so the channel stays open.
            drop(state.wait_for(is_over).await);
        }
    }
}
