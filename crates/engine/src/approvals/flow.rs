//! The flow of one approval, from the question to its outcome.
//!
//! A call first takes an answer that was given before: an approval of the same plan, or an exact
//! lease. Otherwise its question becomes a row, and everybody who can answer is asked at once. The
//! states of a question are those of [`State`]; the first answer counts. An approved call then
//! checks that everything that the answer is bound to is unchanged.
//!
//! The flow knows no engine. It does not build questions, and it runs no call.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use store_api::{
    AnswerOutcome, ApprovalAnswer, ApprovalRow, ApprovalState, AuditRow, Durability, EarlierAnswer, Kind,
    Store, StoreError, Watch,
};
use tool::{BoxFuture, CallId, Clock, Code, Retry, SessionId, Stop, StopReason, ToolError};

use super::Binding;
use super::audit::fill;
use super::leases::{after, made_by, use_exact};
use super::question::{Answer, Approval, Asker, BoundItem, Scope};
use super::signals::AnswerSignals;
use super::stored::stored;
use crate::redact::Redactor;
use crate::request::Door;
use crate::stopping::requested;

/// Time for which a question can be answered: one day.
const OPEN_FOR: SignedDuration = SignedDuration::from_hours(24);

/// Maximum number of turns. Calls that ask about one plan at once take the answers to it in turn
/// and do not wait for ever.
const MAX_TURNS: usize = 8;

/// Periods of a flow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Periods {
    /// Interval at which a waiting call checks for answers of other processes.
    pub(crate) poll: Duration,
    /// Time for which a call waits if its own asker has nobody to ask but somebody watches new
    /// questions.
    pub(crate) patience: Duration,
}

impl Default for Periods {
    fn default() -> Self {
        Self { poll: Duration::from_millis(100), patience: Duration::from_mins(10) }
    }
}

/// Flow of one approval.
pub(crate) struct ApprovalFlow<'a> {
    pub(crate) store: &'a Arc<dyn Store>,
    pub(crate) clock: &'a dyn Clock,
    pub(crate) redactor: &'a Redactor,
    pub(crate) signals: &'a AnswerSignals,
    pub(crate) workspace: &'a Path,
    pub(crate) periods: Periods,
    pub(crate) caller: AskingCall<'a>,
}

/// Call that needs an approval.
#[derive(Clone, Copy)]
pub(crate) struct AskingCall<'a> {
    pub(crate) id: &'a CallId,
    pub(crate) session: &'a SessionId,
    pub(crate) door: Door,
    pub(crate) dialect: &'static str,
    pub(crate) asker: &'a dyn Asker,
    pub(crate) stop: &'a Stop,
}

/// Question that is ready to be asked.
pub(crate) struct ReadyQuestion {
    pub(crate) approval: Approval,
    /// Digest of the request that the question is about.
    pub(crate) request: String,
    /// Shape of the call, by which calls of one kind are counted.
    pub(crate) shape: String,
}

/// Source of the parts of a flow that depend on the call.
pub(crate) trait QuestionSource: Send {
    /// Builds the question. Called only if no earlier answer covers the call.
    fn question(&mut self) -> BoxFuture<'_, Result<ReadyQuestion, ToolError>>;

    /// Inspects again everything that the answer is bound to. Called only for an approved call.
    fn bound_now(&mut self) -> BoxFuture<'_, Result<Vec<BoundItem>, ToolError>>;
}

/// Outcome of a flow.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ApprovalOutcome {
    /// Approval, given by this person.
    Approved { by: String },
    /// Denial, by this person.
    Denied { by: String, message: Option<String> },
    /// Question without an answer, which can still be answered under this id.
    Open { id: String, hint: String },
    /// Question that ended without an answer.
    Closed { hint: String, retry: Retry },
    /// Change, since the question was asked, of something that the answer is bound to.
    Drifted { what: String },
}

/// State of a question.
enum State {
    /// The question is to be stored as a row.
    Unstored,
    /// The row is stored, and everybody who can answer is asked.
    Asked,
    /// The call's own asker has answered.
    Answered(Answer),
    /// The row has an answer, or has ended without one.
    Settled(Box<ApprovalRow>),
    /// Another call has used the answer.
    UsedByAnother,
    Ended(ApprovalOutcome),
}

impl ApprovalFlow<'_> {
    /// Finds or asks for the approval of a call. `is_leasable`: an exact lease may cover the call.
    ///
    /// # Errors
    /// Fails if the state cannot be used, or if the call was stopped.
    pub(crate) async fn approve(
        &self,
        binding: &Binding,
        is_leasable: bool,
        source: &mut dyn QuestionSource,
    ) -> Result<ApprovalOutcome, ToolError> {
        let outcome = match self.given_before(binding, is_leasable).await? {
            Some(outcome) => outcome,
            None => self.ask(source.question().await?).await?,
        };
        let ApprovalOutcome::Approved { by } = outcome else { return Ok(outcome) };
        // The approval covers what was shown. A later change makes it another call.
        let now = source.bound_now().await?;
        Ok(match Binding::drift(&binding.bound, &now) {
            Some(what) => ApprovalOutcome::Drifted { what },
            None => ApprovalOutcome::Approved { by },
        })
    }

    /// Takes an answer that was given before.
    async fn given_before(
        &self,
        binding: &Binding,
        is_leasable: bool,
    ) -> Result<Option<ApprovalOutcome>, ToolError> {
        let (workspace, plan, request, now) =
            (self.workspace.to_owned(), binding.plan.clone(), binding.request.clone(), self.clock.now());
        let earlier =
            stored(self.store, move |store| store.approvals().earlier(&workspace, &plan, &request, now));
        let by = |row: &mut ApprovalRow| row.answered_by.take().unwrap_or_default();
        Ok(match earlier.await? {
            EarlierAnswer::Approved(mut row) => {
                self.note("approval_use", &row.id, None).await?;
                Some(ApprovalOutcome::Approved { by: by(&mut row) })
            }
            EarlierAnswer::Denied(mut row) => {
                Some(ApprovalOutcome::Denied { by: by(&mut row), message: row.message })
            }
            EarlierAnswer::Drifted(row) => {
                let before: Option<Approval> = serde_json::from_str(&row.question).ok();
                let what = before.and_then(|before| Binding::drift(&before.bound, &binding.bound));
                let what = what.unwrap_or_else(|| "the state that the call would find".to_owned());
                Some(ApprovalOutcome::Drifted { what })
            }
            // An approval with a wider reach came with one for this call, which is used first.
            EarlierAnswer::None if is_leasable => self.leased(&binding.effects).await?,
            EarlierAnswer::None => None,
        })
    }

    async fn leased(&self, effects: &str) -> Result<Option<ApprovalOutcome>, ToolError> {
        let (session, now) = (self.caller.session, self.clock.now());
        let by = use_exact(self.store, session, self.workspace, now, effects).await?;
        Ok(by.map(|by| ApprovalOutcome::Approved { by }))
    }

    /// Puts the question to everybody who could answer it, and waits for the first answer.
    ///
    /// # Errors
    /// Fails if the state cannot be used, or if the call was stopped.
    pub(crate) async fn ask(&self, question: ReadyQuestion) -> Result<ApprovalOutcome, ToolError> {
        let ReadyQuestion { mut approval, request, shape } = question;
        if self.caller.asker.knows_the_answer() {
            return Ok(known(self.caller.asker.ask(&approval).await));
        }
        let (mut state, mut turns) = (State::Unstored, 0);
        loop {
            state = match state {
                State::Unstored if turns == MAX_TURNS => {
                    let hint = "other calls with the same plan have used every answer; repeat the call";
                    State::Ended(ApprovalOutcome::Closed { hint: hint.to_owned(), retry: Retry::Now })
                }
                State::Unstored => {
                    turns += 1;
                    self.store_question(&mut approval, &request, &shape).await?;
                    State::Asked
                }
                State::Asked => self.first_answer(&approval).await?,
                State::Answered(answer) => self.record(&approval, answer).await?,
                State::Settled(row) => self.settle(*row).await?,
                // If the answer granted a lease, it covers this call as well. Otherwise this call
                // asks anew.
                State::UsedByAnother => {
                    let leased =
                        if approval.once_only { None } else { self.leased(&approval.effects_digest).await? };
                    approval.id = format!("a{}", crate::new_call_id(self.clock));
                    leased.map_or(State::Unstored, State::Ended)
                }
                State::Ended(outcome) => return Ok(outcome),
            };
        }
    }

    /// Stores a question that no call waits for. Returns the id of the question.
    ///
    /// # Errors
    /// Fails if the state cannot be used.
    pub(crate) async fn leave(&self, question: ReadyQuestion) -> Result<String, ToolError> {
        let ReadyQuestion { mut approval, request, shape } = question;
        self.store_question(&mut approval, &request, &shape).await?;
        Ok(approval.id)
    }

    /// Stores the question. If the same question waits already, the call joins it.
    async fn store_question(
        &self,
        approval: &mut Approval,
        request: &str,
        shape: &str,
    ) -> Result<(), ToolError> {
        let now = self.clock.now();
        let question = serde_json::to_string(approval)
            .map_err(|error| ToolError::internal("the question cannot be recorded").because(error))?;
        self.redactor.refresh();
        let row = ApprovalRow {
            id: approval.id.clone(),
            call: self.caller.id.0.clone(),
            session: self.caller.session.0.clone(),
            door: self.caller.door.as_str().to_owned(),
            workspace: self.workspace.to_owned(),
            tool: approval.tool.clone(),
            level: approval.level.to_string(),
            plan: approval.digest.clone(),
            request: request.to_owned(),
            shape: self.redactor.text(shape).unwrap_or_else(|| shape.to_owned()),
            question,
            asked_at: now,
            expires_at: now + OPEN_FOR,
            state: ApprovalState::Waiting,
            changes: None,
            scope: None,
            answered_at: None,
            answered_by: None,
            message: None,
        };
        let row = stored(self.store, move |store| store.approvals().ask(&row)).await?;
        if row.id == approval.id {
            self.note("approval_ask", &row.id, None).await?;
            let AskingCall { door, session, id, .. } = self.caller;
            let workspace = tool::path_text(self.workspace);
            self.signals.tell(|| {
                approval.for_listeners(serde_json::json!({
                    "call": id.0, "session": session.0, "door": door.as_str(), "workspace": workspace,
                }))
            });
        }
        approval.id = row.id;
        Ok(())
    }

    /// Asks the call's own asker and watches for answers from elsewhere at the same time.
    async fn first_answer(&self, approval: &Approval) -> Result<State, ToolError> {
        let AskingCall { asker, stop, id, .. } = self.caller;
        let here = async {
            let answer = asker.ask(approval).await;
            if matches!(answer, Answer::Nobody { .. }) && self.is_watched().await {
                asker.waits_for_others(approval, self.periods.patience);
                self.while_watched().await;
            }
            answer
        };
        let (asked, caller) = (approval.id.clone(), id.0.clone());
        let _waiting = stored(self.store, move |store| store.wait_for(&asked, &caller)).await?;
        tokio::select! {
            biased;
            row = self.answered_elsewhere(&approval.id) => Ok(State::Settled(Box::new(row))),
            answer = here => Ok(State::Answered(answer)),
            reason = requested(stop) => Err(self.given_up(approval, reason).await),
        }
    }

    /// Returns true if somebody who can answer watches the questions of this workspace.
    async fn is_watched(&self) -> bool {
        let workspace = self.workspace.to_owned();
        stored(self.store, move |store| Ok(store.has_attention(&workspace))).await.unwrap_or(false)
    }

    /// Waits as long as somebody watches the questions, but no longer than a call is patient.
    async fn while_watched(&self) {
        let looking = async {
            while self.store.has_attention(self.workspace) {
                tokio::time::sleep(self.periods.poll).await;
            }
        };
        // The asker's wait ends without an answer here, whether the watching or the time has ended.
        let _ = tokio::time::timeout(self.periods.patience, looking).await;
    }

    /// Withdraws the question of a call that its caller ends, if nobody will repeat the call: a
    /// call of the command line.
    async fn given_up(&self, approval: &Approval, reason: StopReason) -> ToolError {
        if self.caller.door == Door::CommandLine {
            let answer = ApprovalAnswer {
                approved: false,
                scope: None,
                by: "the caller".to_owned(),
                message: Some("the caller gave up the call".to_owned()),
                expires_at: self.clock.now(),
                lease: None,
            };
            let (id, now) = (approval.id.clone(), self.clock.now());
            // A failure is harmless: the question stays open until it expires.
            let _ = stored(self.store, move |store| store.approvals().answer(&id, &answer, now)).await;
            self.signals.send(&approval.id);
        }
        reason.into()
    }

    /// Waits until somebody elsewhere has answered: in this process, which sends a signal, or in
    /// another one, whose answer is found by polling.
    async fn answered_elsewhere(&self, id: &str) -> ApprovalRow {
        let mut signals = self.signals.receive();
        let mut poll = tokio::time::interval(self.periods.poll);
        poll.tick().await;
        let mut watch = None;
        loop {
            let (owned, now, before) = (id.to_owned(), self.clock.now(), watch.take());
            let looked = stored(self.store, move |store| look_for_answer(store, &owned, now, before)).await;
            match looked {
                Ok((Some(row), _)) => return row,
                Ok((None, seen)) => watch = Some(seen),
                // A state that is busy now can be read later, and the call's own asker can answer meanwhile.
                Err(_) => {}
            }
            tokio::select! {
                () = signals.answered(id) => {}
                _ = poll.tick() => {}
            }
        }
    }

    /// Records the answer of the call's own asker. The answer that counts may be another one, which
    /// came earlier.
    async fn record(&self, approval: &Approval, answer: Answer) -> Result<State, ToolError> {
        let now = self.clock.now();
        let (scope, by, lease) = match answer {
            Answer::Nobody { hint } | Answer::Unanswered { hint } => return self.left(approval, hint).await,
            Answer::Later => return self.left(approval, "the client's user is asked".to_owned()).await,
            Answer::Denied { by, message } => {
                let expires_at = now + OPEN_FOR;
                let no =
                    ApprovalAnswer { approved: false, scope: None, by, message, expires_at, lease: None };
                return self.answer(&approval.id, no).await;
            }
            // An asker that returns an offer which was not made has approved this call only.
            Answer::Lease { offer, by } if approval.offers.contains(&offer) => {
                let owner = (self.caller.session.0.as_str(), self.workspace);
                let lease = made_by(approval, owner, &offer, &by, self.clock);
                (offer.scope, by, lease)
            }
            Answer::Once { by } | Answer::Lease { by, .. } => (Scope::Once, by, None),
        };
        let yes = ApprovalAnswer {
            approved: true,
            scope: Some(scope.as_str().to_owned()),
            by,
            message: None,
            expires_at: after(now, Scope::Once.lasts()),
            lease,
        };
        self.answer(&approval.id, yes).await
    }

    /// Ends a question that the call's own asker has left open, unless somebody elsewhere has
    /// answered while the asker was leaving.
    async fn left(&self, approval: &Approval, hint: String) -> Result<State, ToolError> {
        let (id, now) = (approval.id.clone(), self.clock.now());
        let row = stored(self.store, move |store| store.approvals().find(&id, now)).await?;
        Ok(match row.filter(|row| row.state != ApprovalState::Waiting) {
            Some(row) => State::Settled(Box::new(row)),
            None => State::Ended(ApprovalOutcome::Open { id: approval.id.clone(), hint }),
        })
    }

    async fn answer(&self, id: &str, answer: ApprovalAnswer) -> Result<State, ToolError> {
        let (owned, given, now) = (id.to_owned(), answer.clone(), self.clock.now());
        let answered = stored(self.store, move |store| store.approvals().answer(&owned, &given, now)).await?;
        let row = match answered {
            AnswerOutcome::First(row) => {
                self.signals.send(id);
                self.note("approval_answer", id, Some(&answer)).await?;
                row
            }
            AnswerOutcome::Before(row) => row,
        };
        Ok(State::Settled(Box::new(row)))
    }

    /// Uses the answer of a row. Among all calls that ask about one plan, one uses an approval.
    async fn settle(&self, row: ApprovalRow) -> Result<State, ToolError> {
        let (id, now, by) = (row.id.clone(), self.clock.now(), row.answered_by.unwrap_or_default());
        Ok(match row.state {
            ApprovalState::Approved => {
                if stored(self.store, move |store| store.approvals().use_up(&id, now)).await? {
                    self.note("approval_use", &row.id, None).await?;
                    State::Ended(ApprovalOutcome::Approved { by })
                } else {
                    State::UsedByAnother
                }
            }
            ApprovalState::Denied => {
                stored(self.store, move |store| store.approvals().set_answer_received(&id)).await?;
                State::Ended(ApprovalOutcome::Denied { by, message: row.message })
            }
            ApprovalState::Expired => {
                let hint = "the question has expired; repeat the call to ask again".to_owned();
                State::Ended(ApprovalOutcome::Closed { hint, retry: Retry::Now })
            }
            ApprovalState::Used | ApprovalState::Waiting => State::UsedByAnother,
        })
    }

    /// Writes an audit row about an approval.
    pub(super) async fn note(
        &self,
        what: &str,
        id: &str,
        answer: Option<&ApprovalAnswer>,
    ) -> Result<(), ToolError> {
        let AskingCall { door, dialect, session, id: call, .. } = self.caller;
        let note = crate::new_call_id(self.clock);
        let mut row = AuditRow::new(Kind::Call, self.clock.now(), &note.0, door.as_str(), dialect, what);
        row.session = Some(session.0.clone());
        fill(&mut row, (id, &call.0, self.workspace), answer);
        self.store.audit().append(row, Durability::Committed).await.map_err(|error| {
            let message = format!("the audit cannot be written, so nothing was done: {error}");
            ToolError::new(Code::Runtime, message).because(error)
        })
    }
}

/// Converts an answer that was known without asking, for which no question is stored.
fn known(answer: Answer) -> ApprovalOutcome {
    match answer {
        Answer::Once { by } | Answer::Lease { by, .. } => ApprovalOutcome::Approved { by },
        Answer::Denied { by, message } => ApprovalOutcome::Denied { by, message },
        Answer::Nobody { hint } | Answer::Unanswered { hint } => {
            ApprovalOutcome::Closed { hint, retry: Retry::Never }
        }
        Answer::Later => ApprovalOutcome::Closed { hint: String::new(), retry: Retry::Never },
    }
}

/// Checks for an answer if anything has been written since `before`. Returns the answered question,
/// if there is one, and the watch for the next check.
fn look_for_answer(
    store: &dyn Store,
    id: &str,
    now: Timestamp,
    before: Option<Watch>,
) -> Result<(Option<ApprovalRow>, Watch), StoreError> {
    let (mut watch, is_first) = match before {
        Some(watch) => (watch, false),
        None => (store.watch()?, true),
    };
    if !watch.has_changed().unwrap_or(true) && !is_first {
        return Ok((None, watch));
    }
    // A read that fails now is repeated after the next change.
    let row = store.approvals().find(id, now).ok().flatten();
    Ok((row.filter(|row| row.state != ApprovalState::Waiting), watch))
}

#[cfg(test)]
mod tests;
