//! Who answers the `check` of a call: the client of this connection, in the way of its era.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use engine::{Answer, Approval, Asker};
use rmcp::model::{ElicitRequest, ElicitRequestParams, InputRequest, ServerRequest};
use rmcp::task_manager::TaskContext;
use tool::BoxFuture;

use crate::past_tasks::Task;
use crate::question::{self, Choice, Elicitation};
use crate::turn::{Heard, Later, Line, Turn, Unsaid};

/// Why a client that shows no forms cannot be asked.
const NO_FORMS: &str = "this client shows no forms";

/// Asks by `elicitation/create`, up to the revision of 2025-11-25.
pub(crate) struct ByRequest {
    pub(crate) way: Way,
    pub(crate) shows_forms: bool,
    pub(crate) allowed: Elicitation,
    pub(crate) by: String,
}

/// Where a question goes.
pub(crate) enum Way {
    /// To the client, on the way to the answer of its request.
    Line(Line),
    /// To whoever waits for the result of this task, for at most as long.
    Task(Arc<Task>, Duration),
}

impl Way {
    async fn ask(&self, form: ElicitRequestParams) -> Result<Heard, Unsaid> {
        match self {
            Self::Line(line) => line.ask(ServerRequest::ElicitRequest(ElicitRequest::new(form))).await,
            Self::Task(task, patience) => task.ask(form, *patience).await,
        }
    }
}

impl Asker for ByRequest {
    fn ask<'a>(&'a self, approval: &'a Approval) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            match self.question(approval).await {
                Ok(answer) => answer,
                Err(hint) => Answer::Nobody { hint },
            }
        })
    }
}

impl ByRequest {
    async fn question(&self, approval: &Approval) -> Result<Answer, String> {
        if !self.shows_forms {
            return Err(NO_FORMS.to_owned());
        }
        let form = question::form(approval, self.allowed)?;
        match self.way.ask(form).await {
            Ok(said) => Ok(understood(said, approval, self.allowed, &self.by)),
            // It was shown for as long as a call waits.
            Err(unsaid @ Unsaid::Late(_)) => Ok(Answer::Unanswered { hint: unsaid.to_string() }),
            Err(unsaid) => Err(unsaid.to_string()),
        }
    }
}

/// Says what the client's answer to a form means.
fn understood(heard: Heard, approval: &Approval, allowed: Elicitation, by: &str) -> Answer {
    let Ok(result) = serde_json::from_value(heard.said) else {
        return Answer::Unanswered { hint: "the client's answer was no answer to a form".to_owned() };
    };
    let choice = question::choice(&result, &question::offered(approval, allowed), heard.after);
    question::answer(choice, approval, by)
}

/// Asks by ending the call with the question, from the revision of 2026-07-28 on.
///
/// The client repeats the call with the user's answer. Where the call has become a task meanwhile, it goes on once that is answered.
pub(crate) struct ByRetry {
    shows_forms: bool,
    allowed: Elicitation,
    /// Who answers.
    by: String,
    task: Later,
    /// How long the question of a task waits for its answer.
    patience: Duration,
    /// What the user said to which plan, where this is the repeated call.
    said: Mutex<Option<Said>>,
    /// What is to be asked.
    open: Mutex<Option<Approval>>,
}

/// What the user said, and to what.
pub(crate) struct Said {
    /// The digest of the plan that was shown.
    pub(crate) digest: String,
    /// What the user chose.
    pub(crate) choice: Choice,
    /// Who that is.
    pub(crate) by: String,
}

impl ByRetry {
    pub(crate) fn new(turn: &Turn, allowed: Elicitation, said: Option<Said>) -> Self {
        Self {
            shows_forms: turn.peer.shows_forms(),
            allowed,
            by: turn.peer.by.clone(),
            task: turn.later.clone(),
            patience: turn.line.patience,
            said: Mutex::new(said),
            open: Mutex::default(),
        }
    }

    /// The same for a call that nobody is to be asked about.
    pub(crate) fn without_forms(self) -> Self {
        Self { shows_forms: false, ..self }
    }

    /// The approval that the client is to be asked about, where the call could not be made without.
    pub(crate) fn open_question(&self) -> Option<Approval> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).take()
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
            (Ok(form), Some(task)) => self.ask_in(task, form, approval).await,
            (Ok(_), None) => {
                *self.open.lock().unwrap_or_else(PoisonError::into_inner) = Some(approval.clone());
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
            // No key may come twice in a task, and no approval does.
            said = task.request_input(approval.id.clone(), request) => {
                let said = said.map_err(|_| "the task was given up".to_owned())?;
                Ok(understood(Heard { said, after: asked.elapsed() }, approval, self.allowed, &self.by))
            }
            () = tokio::time::sleep(self.patience) => {
                Ok(Answer::Unanswered { hint: Unsaid::Late(self.patience).to_string() })
            }
        }
    }

    /// What the user said to this question, where this is the repeated call.
    fn said_before(&self, approval: &Approval) -> Option<Answer> {
        // One answer is for one question: a call that asks twice is asked about twice.
        if let Some(said) = self.said.lock().unwrap_or_else(PoisonError::into_inner).take() {
            return Some(if said.digest == approval.digest {
                question::answer(said.choice, approval, &said.by)
            } else {
                Answer::Denied {
                    by: "Handfast".to_owned(),
                    message: Some(
                        "the answer was given to another call than this one; make the call again without it"
                            .to_owned(),
                    ),
                }
            });
        }
        None
    }
}

impl Asker for ByRetry {
    fn ask<'a>(&'a self, approval: &'a Approval) -> BoxFuture<'a, Answer> {
        Box::pin(self.decide(approval))
    }
}

/// Nobody is asked, and no question is kept for others: what a client wants while its user types is not worth one.
pub(crate) struct Unasked;

impl Asker for Unasked {
    fn ask<'a>(&'a self, _approval: &'a Approval) -> BoxFuture<'a, Answer> {
        Box::pin(async { Answer::Nobody { hint: String::new() } })
    }

    fn knows_the_answer(&self) -> bool {
        true
    }
}
