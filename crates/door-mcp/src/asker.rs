//! Approval by the client of this connection, in the way of its protocol revision.

use std::sync::Arc;
use std::time::Duration;

use engine::{Answer, Approval, Asker};
use parking_lot::Mutex;
use rmcp::model::{ElicitRequest, ElicitRequestParams, InputRequest, ServerRequest};
use rmcp::task_manager::TaskContext;
use tool::BoxFuture;

use crate::active_request::{ActiveRequest, ClientLine, ElicitAnswer, ElicitError, TaskSlot};
use crate::question::{self, Choice, Elicitation};

/// Reason for not asking a client that shows no forms.
const NO_FORMS: &str = "this client does not support forms";

/// Asks by `elicitation/create`, up to revision 2025-11-25.
pub(crate) struct ElicitByRequest {
    pub(crate) line: ClientLine,
    pub(crate) shows_forms: bool,
    pub(crate) allowed: Elicitation,
    pub(crate) by: String,
}

impl Asker for ElicitByRequest {
    fn ask<'a>(&'a self, approval: &'a Approval) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            match self.question(approval).await {
                Ok(answer) => answer,
                Err(hint) => Answer::Nobody { hint },
            }
        })
    }

    fn can_ask(&self) -> bool {
        self.shows_forms
    }
}

impl ElicitByRequest {
    async fn question(&self, approval: &Approval) -> Result<Answer, String> {
        if !self.shows_forms {
            return Err(NO_FORMS.to_owned());
        }
        let form = question::form(approval, self.allowed)?;
        match self.line.ask(ServerRequest::ElicitRequest(ElicitRequest::new(form))).await {
            Ok(said) => Ok(understood(said, approval, self.allowed, &self.by)),
            // The form was shown for as long as a call waits.
            Err(unsaid @ ElicitError::Late(_)) => Ok(Answer::Unanswered { hint: unsaid.to_string() }),
            Err(unsaid) => Err(unsaid.to_string()),
        }
    }
}

/// Interprets the client's answer to a form.
fn understood(heard: ElicitAnswer, approval: &Approval, allowed: Elicitation, by: &str) -> Answer {
    let Ok(result) = serde_json::from_value(heard.said) else {
        return Answer::Unanswered {
            hint: "the client's result is not an answer to the form, so the question stays open".to_owned(),
        };
    };
    let choice = question::choice(&result, &question::offered(approval, allowed), heard.after);
    question::answer(choice, approval, by)
}

/// Asks by ending the call with the question, from revision 2026-07-28 on.
///
/// The client repeats the call with the user's answer. If the call has become a task meanwhile, it
/// continues once the question is answered.
pub(crate) struct ElicitByRetry {
    shows_forms: bool,
    allowed: Elicitation,
    /// Name of the user who answers.
    by: String,
    task: CurrentTask,
    /// Maximum wait for the answer to a task's question.
    patience: Duration,
    /// Earlier answer of the user, if this is the repeated call.
    said: Mutex<Option<UserAnswer>>,
    /// Question to ask.
    open: Mutex<Option<Approval>>,
}

/// Task of the newest request of a call. A call that is suspended has several requests, one after another.
#[derive(Clone)]
pub(crate) struct CurrentTask(Arc<Mutex<TaskSlot>>);

impl CurrentTask {
    /// Returns the place for the task of a call that begins with this request.
    pub(crate) fn of(turn: &ActiveRequest) -> Self {
        Self(Arc::new(Mutex::new(turn.task.clone())))
    }

    /// Makes this request the newest one.
    pub(crate) fn replace(&self, turn: &ActiveRequest) {
        *self.0.lock() = turn.task.clone();
    }

    /// Returns the task, if the request has become one.
    pub(crate) fn get(&self) -> Option<TaskContext> {
        self.0.lock().get().cloned()
    }
}

/// An answer of the user, with the plan that it belongs to.
pub(crate) struct UserAnswer {
    /// Digest of the plan that was shown.
    pub(crate) digest: String,
    /// Choice of the user.
    pub(crate) choice: Choice,
    /// Name of the user.
    pub(crate) by: String,
}

impl ElicitByRetry {
    pub(crate) fn new(
        turn: &ActiveRequest,
        task: CurrentTask,
        allowed: Elicitation,
        said: Option<UserAnswer>,
    ) -> Self {
        Self {
            shows_forms: turn.peer.shows_forms(),
            allowed,
            by: turn.peer.by.clone(),
            task,
            patience: turn.line.patience,
            said: Mutex::new(said),
            open: Mutex::default(),
        }
    }

    /// Disables questions, for a call that must not ask the user.
    pub(crate) fn without_forms(self) -> Self {
        Self { shows_forms: false, ..self }
    }

    /// Takes the approval that the client must be asked about, if the call needs one.
    pub(crate) fn open_question(&self) -> Option<Approval> {
        self.open.lock().take()
    }

    async fn decide(&self, approval: &Approval) -> Answer {
        if let Some(answer) = self.said_before(approval) {
            return answer;
        }
        if !self.shows_forms {
            return Answer::Nobody { hint: NO_FORMS.to_owned() };
        }
        let asked = match (question::form(approval, self.allowed), self.task.get()) {
            (Err(hint), _) => Err(hint),
            (Ok(form), Some(task)) => self.ask_in(&task, form, approval).await,
            (Ok(_), None) => {
                *self.open.lock() = Some(approval.clone());
                return Answer::Later;
            }
        };
        asked.unwrap_or_else(|hint| Answer::Nobody { hint })
    }

    async fn ask_in(
        &self,
        task: &TaskContext,
        form: ElicitRequestParams,
        approval: &Approval,
    ) -> Result<Answer, String> {
        let request = InputRequest::Elicitation(ElicitRequest::new(form));
        let asked = tokio::time::Instant::now();
        tokio::select! {
            // Keys must be unique within a task; approval ids are.
            said = task.request_input(approval.id.clone(), request) => {
                let said = said.map_err(|_| "the task was cancelled".to_owned())?;
                Ok(understood(ElicitAnswer { said, after: asked.elapsed() }, approval, self.allowed, &self.by))
            }
            () = tokio::time::sleep(self.patience) => {
                Ok(Answer::Unanswered { hint: ElicitError::Late(self.patience).to_string() })
            }
        }
    }

    /// Returns the user's earlier answer to this question, if this is the repeated call.
    fn said_before(&self, approval: &Approval) -> Option<Answer> {
        // One answer covers one question: a second question of the same call is asked anew.
        if let Some(said) = self.said.lock().take() {
            return Some(if said.digest == approval.digest {
                question::answer(said.choice, approval, &said.by)
            } else {
                Answer::Denied {
                    by: "Handfast".to_owned(),
                    message: Some(
                        "the answer belongs to another call; repeat the call without it".to_owned(),
                    ),
                }
            });
        }
        None
    }
}

impl Asker for ElicitByRetry {
    fn ask<'a>(&'a self, approval: &'a Approval) -> BoxFuture<'a, Answer> {
        Box::pin(self.decide(approval))
    }

    /// Returns false: the client learns of a question only when the call has ended.
    fn can_ask(&self) -> bool {
        false
    }
}

/// Denies without asking, and stores no question for other users: a completion while the user types
/// is not worth one.
pub(crate) struct NoQuestions;

impl Asker for NoQuestions {
    fn ask<'a>(&'a self, _approval: &'a Approval) -> BoxFuture<'a, Answer> {
        Box::pin(async { Answer::Nobody { hint: String::new() } })
    }

    fn can_ask(&self) -> bool {
        false
    }

    fn knows_the_answer(&self) -> bool {
        true
    }
}
