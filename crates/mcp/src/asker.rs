//! Who answers the `check` of a call: the client of this connection, in the way of its era.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use engine::{Answer, Approval, Asker};
use rmcp::model::{ElicitRequest, ElicitRequestParams, ServerRequest};
use serde_json::Value;
use tool::BoxFuture;

use crate::past_tasks::Task;
use crate::question::{self, Choice, Elicitation};
use crate::turn::{Line, Unsaid};

/// Why a client that shows no forms cannot be asked.
const NO_FORMS: &str =
    "this client shows no forms; run the call with `handfast call` on a terminal, or change the rule";

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
    async fn ask(&self, form: ElicitRequestParams) -> Result<Value, Unsaid> {
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
        let said = self.way.ask(form).await.map_err(|unsaid| unsaid.to_string())?;
        match serde_json::from_value(said) {
            Ok(result) => {
                let choice = question::choice(&result, &question::offered(approval, self.allowed));
                Ok(question::answer(choice, approval, &self.by))
            }
            Err(_) => Err("the client's answer was no answer to a form".to_owned()),
        }
    }
}

/// Asks by ending the call with the question, from the revision of 2026-07-28 on.
///
/// The client repeats the call with the user's answer.
pub(crate) struct ByRetry {
    shows_forms: bool,
    allowed: Elicitation,
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
    pub(crate) fn new(shows_forms: bool, allowed: Elicitation, said: Option<Said>) -> Self {
        Self { shows_forms, allowed, said: Mutex::new(said), open: Mutex::default() }
    }

    /// The approval that the client is to be asked about, where the call could not be made without.
    pub(crate) fn open_question(&self) -> Option<Approval> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn decide(&self, approval: &Approval) -> Answer {
        // One answer is for one question: a call that asks twice is asked about twice.
        if let Some(said) = self.said.lock().unwrap_or_else(PoisonError::into_inner).take() {
            return if said.digest == approval.digest {
                question::answer(said.choice, approval, &said.by)
            } else {
                Answer::Denied {
                    by: "Handfast".to_owned(),
                    message: Some(
                        "the answer was given to another call than this one; make the call again without it"
                            .to_owned(),
                    ),
                }
            };
        }
        if !self.shows_forms {
            return Answer::Nobody { hint: NO_FORMS.to_owned() };
        }
        if let Err(hint) = question::form(approval, self.allowed) {
            return Answer::Nobody { hint };
        }
        *self.open.lock().unwrap_or_else(PoisonError::into_inner) = Some(approval.clone());
        Answer::Later
    }
}

impl Asker for ByRetry {
    fn ask<'a>(&'a self, approval: &'a Approval) -> BoxFuture<'a, Answer> {
        Box::pin(async { self.decide(approval) })
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
