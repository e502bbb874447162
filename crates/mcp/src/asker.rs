//! Who answers the `check` of a call: the client of this connection, in the way of its era.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use engine::{Answer, Approval, Asker};
use rmcp::model::{ClientCapabilities, ElicitRequest, RequestId, ServerJsonRpcMessage, ServerRequest};
use tool::BoxFuture;

use crate::connection::Connection;
use crate::decode::cancelled_notification;
use crate::outbox::{Message, Outbox};
use crate::question::{self, Choice, Elicitation};

/// Why a client that shows no forms cannot be asked.
const NO_FORMS: &str =
    "this client shows no forms; run the call with `handfast call` on a terminal, or change the rule";

/// Whether the client can show a form. A client that names no mode can: forms came first.
pub(crate) fn shows_forms(capabilities: Option<&ClientCapabilities>) -> bool {
    let elicitation = capabilities.and_then(|capabilities| capabilities.elicitation.as_ref());
    elicitation.is_some_and(|modes| modes.form.is_some() || modes.url.is_none())
}

/// Asks by `elicitation/create`, up to the revision of 2025-11-25.
pub(crate) struct ByRequest {
    pub(crate) connection: Arc<Connection>,
    pub(crate) outbox: Outbox,
    pub(crate) shows_forms: bool,
    pub(crate) allowed: Elicitation,
    pub(crate) patience: Duration,
    pub(crate) by: String,
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
        let request = ServerRequest::ElicitRequest(ElicitRequest::new(form));
        let (number, said) = self.connection.ask();
        let message = ServerJsonRpcMessage::request(request, RequestId::Number(number));
        self.outbox.post(Message::Ours(Box::new(message)));
        let mut open = OpenQuestion { of: self, number: Some(number) };
        let said = tokio::select! {
            said = said => said,
            () = self.outbox.failed() => return Err("the client is gone".to_owned()),
            () = tokio::time::sleep(self.patience) => {
                return Err(format!("nobody answered within {} seconds", self.patience.as_secs()));
            }
        };
        open.number = None;
        let said = said.map_err(|_| "the client is gone".to_owned())?;
        let result =
            said.map_err(|error| format!("the client did not answer the question: {}", error.message))?;
        match serde_json::from_value(result) {
            Ok(result) => {
                let choice = question::choice(&result, &question::offered(approval, self.allowed));
                Ok(question::answer(choice, approval, &self.by))
            }
            Err(_) => Err("the client's answer was no answer to a form".to_owned()),
        }
    }
}

/// Takes the question back when it is dropped unanswered: the call was cancelled, or nobody answered in time.
struct OpenQuestion<'a> {
    of: &'a ByRequest,
    number: Option<i64>,
}

impl Drop for OpenQuestion<'_> {
    fn drop(&mut self) {
        if let Some(number) = self.number.take() {
            self.of.connection.take_back(number);
            let taken_back = cancelled_notification(number, "the question is no longer open");
            self.of.outbox.post(Message::Raw(taken_back));
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::shows_forms;

    #[test]
    fn a_client_shows_forms_where_it_says_so_or_names_no_mode() {
        let shows = |capabilities| shows_forms(Some(&serde_json::from_value(capabilities).unwrap()));
        assert!(shows(json!({"elicitation": {}})));
        assert!(shows(json!({"elicitation": {"form": {}, "url": {}}})));
        assert!(!shows(json!({"elicitation": {"url": {}}})));
        assert!(!shows(json!({"sampling": {}})));
        assert!(!shows_forms(None));
    }
}
