//! Storing a question as a row, asking everybody who can answer, and taking the first answer.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use store_api::{
    AnswerOutcome, ApprovalAnswer, ApprovalRow, ApprovalState, AuditRow, Durability, Kind, Store, StoreError,
    Watch,
};
use tool::{Retry, StopReason, ToolError};

use super::offer::after;
use super::question::{Answer, Approval, Scope};
use crate::Engine;
use crate::call::Call;
use crate::stopping::requested;

/// Time for which a question can be answered: one day.
const OPEN_FOR: SignedDuration = SignedDuration::from_hours(24);

/// Time for which a call waits if its own asker has nobody to ask but somebody watches new
/// questions.
const SCREEN_PATIENCE: Duration = Duration::from_mins(10);

/// Interval at which a waiting call checks for changes by other processes.
const LOOK: Duration = Duration::from_millis(100);

/// Maximum number of turns. Calls that ask about one plan at once take the answers to it in turn
/// and do not wait for ever.
const MAX_TURNS: usize = 8;

/// Outcome of a question.
pub(crate) enum QuestionOutcome {
    /// Yes, from this person.
    Yes(String),
    /// Denial, by this person.
    No { by: String, message: Option<String> },
    /// Open question without an answer.
    Open { id: String, hint: String },
    /// Closed question.
    Closed { hint: String, retry: Retry },
}

impl Engine {
    /// Puts the question to everybody who could answer it, and waits for the first answer.
    pub(crate) async fn put(
        &self,
        call: &Call,
        mut approval: Approval,
        request: &str,
        shape: &str,
    ) -> Result<QuestionOutcome, ToolError> {
        if call.asker.knows_the_answer() {
            return Ok(match call.asker.ask(&approval).await {
                Answer::Once { by } | Answer::Lease { by, .. } => QuestionOutcome::Yes(by),
                Answer::Denied { by, message } => QuestionOutcome::No { by, message },
                Answer::Nobody { hint } | Answer::Unanswered { hint } => {
                    QuestionOutcome::Closed { hint, retry: Retry::Never }
                }
                Answer::Later => QuestionOutcome::Closed { hint: String::new(), retry: Retry::Never },
            });
        }
        for _ in 0..MAX_TURNS {
            let row = self.written_down(call, &approval, request, shape)?;
            let (id, asked) = (row.id.clone(), row.id == approval.id);
            let row = self.stored(move |store| store.approvals().ask(&row)).await?;
            if asked && row.id == id {
                self.note_approval("approval_ask", call, &row.id, None).await?;
            }
            approval.id.clone_from(&row.id);
            let settled = match self.first_answer(call, &approval).await? {
                FirstAnswer::Elsewhere(row) => *row,
                FirstAnswer::Here(answer) => match self.answered_here(call, &approval, answer).await? {
                    Ok(row) => row,
                    Err(hint) => return Ok(QuestionOutcome::Open { id: row.id, hint }),
                },
            };
            let by = settled.answered_by.clone().unwrap_or_default();
            let id = settled.id.clone();
            let now = self.clock.now();
            match settled.state {
                ApprovalState::Approved => {
                    if self.stored(move |store| store.approvals().use_up(&id, now)).await? {
                        self.note_approval("approval_use", call, &settled.id, None).await?;
                        return Ok(QuestionOutcome::Yes(by));
                    }
                }
                ApprovalState::Denied => {
                    self.stored(move |store| store.approvals().set_answer_received(&id)).await?;
                    return Ok(QuestionOutcome::No { by, message: settled.message });
                }
                ApprovalState::Expired => {
                    let hint = "the question has expired; repeat the call to ask again".to_owned();
                    return Ok(QuestionOutcome::Closed { hint, retry: Retry::Now });
                }
                ApprovalState::Used | ApprovalState::Waiting => {}
            }
            // Another call of the same plan has used the yes. If that yes granted a lease, it
            // covers this call as well. Otherwise this call asks anew.
            if !approval.once_only
                && let Some(by) = self.leased_exactly(call, &approval.effects_digest).await?
            {
                return Ok(QuestionOutcome::Yes(by));
            }
            approval.id = format!("a{}", crate::new_call_id(self.clock.as_ref()));
        }
        let hint = "other calls with the same plan have used every answer; repeat the call".to_owned();
        Ok(QuestionOutcome::Closed { hint, retry: Retry::Now })
    }

    /// Asks the call's own asker and watches for answers from elsewhere at the same time.
    async fn first_answer(&self, call: &Call, approval: &Approval) -> Result<FirstAnswer, ToolError> {
        let here = async {
            let answer = call.asker.ask(approval).await;
            if matches!(answer, Answer::Nobody { .. }) && self.has_attention().await {
                call.asker.waits_for_others(approval, SCREEN_PATIENCE);
                self.while_attended().await;
            }
            answer
        };
        let (asked, caller) = (approval.id.clone(), call.id.0.clone());
        let _waiting = self.stored(move |store| store.wait_for(&asked, &caller)).await?;
        tokio::select! {
            biased;
            row = self.answered_elsewhere(&approval.id) => Ok(FirstAnswer::Elsewhere(Box::new(row))),
            answer = here => Ok(FirstAnswer::Here(answer)),
            reason = requested(&call.stop) => Err(self.given_up(approval, call, reason).await),
        }
    }

    /// Returns true if somebody who can answer watches the questions of this workspace.
    async fn has_attention(&self) -> bool {
        let workspace = self.place.workspace.clone();
        self.stored(move |store| Ok(store.has_attention(&workspace))).await.unwrap_or(false)
    }

    /// Waits as long as somebody watches the questions, at most [`SCREEN_PATIENCE`].
    async fn while_attended(&self) {
        let looking = async {
            while self.store.has_attention(&self.place.workspace) {
                tokio::time::sleep(LOOK).await;
            }
        };
        // The asker's wait ends without an answer here, whether the watching or the time has ended.
        let _ = tokio::time::timeout(SCREEN_PATIENCE, looking).await;
    }

    /// Withdraws the question of a call that its caller ends, if nobody will repeat the call: a
    /// call of the command line.
    async fn given_up(&self, approval: &Approval, call: &Call, reason: StopReason) -> ToolError {
        if call.door == crate::Door::CommandLine {
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
            let _ = self.stored(move |store| store.approvals().answer(&id, &answer, now)).await;
        }
        reason.into()
    }

    /// Waits until somebody elsewhere has answered. Reads the state on a thread that may block.
    async fn answered_elsewhere(&self, id: &str) -> ApprovalRow {
        let mut look = tokio::time::interval(LOOK);
        let mut watch = None;
        loop {
            let (id, now, before) = (id.to_owned(), self.clock.now(), watch.take());
            let looked = self.stored(move |store| look_for_answer(store, &id, now, before)).await;
            match looked {
                Ok((Some(row), _)) => return row,
                Ok((None, seen)) => watch = Some(seen),
                // Without a watch on the state, the call's own asker can still answer.
                Err(_) => return std::future::pending().await,
            }
            look.tick().await;
        }
    }

    /// Records the answer of the call's own asker. Returns the question with the answer that
    /// counts, or the hint if there is no answer.
    async fn answered_here(
        &self,
        call: &Call,
        approval: &Approval,
        answer: Answer,
    ) -> Result<Result<ApprovalRow, String>, ToolError> {
        let now = self.clock.now();
        let (scope, by, lease) = match answer {
            Answer::Nobody { hint } | Answer::Unanswered { hint } => return Ok(Err(hint)),
            Answer::Later => return Ok(Err("the client's user is asked".to_owned())),
            Answer::Denied { by, message } => {
                let no = ApprovalAnswer {
                    approved: false,
                    scope: None,
                    by,
                    message,
                    expires_at: now + OPEN_FOR,
                    lease: None,
                };
                return self.answered(call, &approval.id, no).await.map(Ok);
            }
            // An asker that returns an offer which was not made has approved this call only.
            Answer::Lease { offer, by } if approval.offers.contains(&offer) => {
                let lease = self.lease(approval, &call.session.0, &self.place.workspace, &offer, &by);
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
        self.answered(call, &approval.id, yes).await.map(Ok)
    }

    async fn answered(
        &self,
        call: &Call,
        id: &str,
        answer: ApprovalAnswer,
    ) -> Result<ApprovalRow, ToolError> {
        let (owned, now) = (id.to_owned(), self.clock.now());
        let said = answer.clone();
        match self.stored(move |store| store.approvals().answer(&owned, &answer, now)).await? {
            AnswerOutcome::First(row) => {
                self.note_approval("approval_answer", call, id, Some(&said)).await?;
                Ok(row)
            }
            AnswerOutcome::Before(row) => Ok(row),
        }
    }

    fn written_down(
        &self,
        call: &Call,
        approval: &Approval,
        request: &str,
        shape: &str,
    ) -> Result<ApprovalRow, ToolError> {
        let now = self.clock.now();
        let question = serde_json::to_string(approval)
            .map_err(|error| ToolError::internal("the question cannot be recorded").because(error))?;
        Ok(ApprovalRow {
            id: approval.id.clone(),
            call: call.id.0.clone(),
            session: call.session.0.clone(),
            door: call.door.as_str().to_owned(),
            workspace: self.place.workspace.clone(),
            tool: call.tool.clone(),
            level: approval.level.to_string(),
            plan: approval.digest.clone(),
            request: request.to_owned(),
            shape: self.covered(shape.to_owned()),
            question,
            asked_at: now,
            expires_at: now + OPEN_FOR,
            state: ApprovalState::Waiting,
            changes: None,
            scope: None,
            answered_at: None,
            answered_by: None,
            message: None,
        })
    }

    /// Writes an audit row about an approval.
    pub(super) async fn note_approval(
        &self,
        what: &str,
        call: &Call,
        id: &str,
        answer: Option<&ApprovalAnswer>,
    ) -> Result<(), ToolError> {
        let note = crate::new_call_id(self.clock.as_ref());
        let mut row =
            AuditRow::new(Kind::Call, self.clock.now(), &note.0, call.door.as_str(), call.dialect, what);
        row.session = Some(call.session.0.clone());
        fill(&mut row, id, &call.id.0, answer);
        self.store.audit().append(row, Durability::Committed).await.map_err(|error| {
            let message = format!("the audit cannot be written, so nothing was done: {error}");
            ToolError::new(tool::Code::Runtime, message).because(error)
        })
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

/// The first answer, by origin.
enum FirstAnswer {
    Here(Answer),
    Elsewhere(Box<ApprovalRow>),
}

/// Fills the audit row of an approval: the question, its call, and the answer if the row is about
/// one.
pub(super) fn fill(row: &mut AuditRow, id: &str, call: &str, answer: Option<&ApprovalAnswer>) {
    let lease = answer.and_then(|answer| answer.lease.as_ref());
    let said = answer.map(|answer| if answer.approved { "yes" } else { "no" });
    let plan = json!({
        "arguments": {
            "id": id,
            "call": call,
            "answer": said,
            "scope": answer.and_then(|answer| answer.scope.clone()),
            "lease": lease.map(|lease| lease.id.clone()),
            "covers": lease.map(|lease| lease.covers.clone()),
        },
        "effects": [],
    });
    row.plan = Some(plan.to_string());
    row.approved_by = answer.map(|answer| answer.by.clone());
    row.outcome = Some("ok".to_owned());
    row.effect = Some("none".to_owned());
}
