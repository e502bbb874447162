//! Operations on approvals from another process than the call's: list questions, answer them,
//! revoke leases.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use policy::LeasePattern;
use serde::Serialize;
use store_api::{
    AnswerOutcome, ApprovalAnswer, ApprovalRow, ApprovalState, AuditRow, Durability, Kind, Lease, Store,
    StoreError,
};
use tool::Clock;

use super::audit::fill;
use super::leases::{after, made_by};
use super::question::{Approval, Offer, PatternKind, Scope};
use super::signals::{AnswerSignals, QuestionListener};
use crate::{Engine, KeptError};

/// Longest duration of a lease: a quarter of a year, after which nobody remembers it.
const LONGEST_LEASE: Duration = Duration::from_hours(90 * 24);

/// A question and its current state.
#[derive(Debug, Clone, Serialize)]
pub struct StoredQuestion {
    /// The question.
    #[serde(flatten)]
    pub question: Approval,
    /// Current state of the question.
    pub state: ApprovalState,
    /// Workspace that the call would act in.
    #[serde(serialize_with = "as_text")]
    pub workspace: PathBuf,
    /// Session of the call.
    pub session: String,
    /// Door that the call came through.
    pub door: String,
    /// Time at which the question was asked.
    pub asked_at: Timestamp,
    /// Time from which on the question can be neither answered nor used.
    pub expires_at: Timestamp,
    /// Scope of the approval.
    pub scope: Option<String>,
    /// Time of the answer.
    pub answered_at: Option<Timestamp>,
    /// Name of the person who answered.
    pub answered_by: Option<String>,
    /// Message of that person to the agent.
    pub message: Option<String>,
    /// Id of a command's changes that are set aside until the question is answered.
    pub changes: Option<String>,
    /// True if the call waits for the answer. An approval then lets it continue. If the call has
    /// ended, the same call passes once when it is made again.
    pub caller_waits: bool,
}

impl StoredQuestion {
    /// Returns the state in a word or two: `call ended` for a waiting question of a call that has ended.
    pub fn state_name(&self) -> &'static str {
        match self.state {
            ApprovalState::Waiting if !self.caller_waits => "call ended",
            state => state.as_str(),
        }
    }
}

/// An approval as a person gives it.
#[derive(Debug, Clone)]
pub struct Grant {
    /// Scope of the approval.
    pub scope: Scope,
    /// Pattern that replaces the offered one.
    pub pattern: Option<String>,
    /// Duration that replaces the usual one.
    pub lasts: Option<Duration>,
    /// Name of the person who approves, for the audit.
    pub by: String,
}

/// Result of an approval.
#[derive(Debug, Clone, Serialize)]
pub struct GrantResult {
    /// The question with its new state.
    pub approval: StoredQuestion,
    /// Lease that the approval grants in addition.
    pub lease: Option<Lease>,
    /// Number of changed paths, if changes of a command had been set aside.
    pub applied: Option<u64>,
}

/// Reason why an answer does not count.
#[derive(Debug, thiserror::Error)]
pub enum ApprovalError {
    /// The state cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Unknown id.
    #[error("there is no approval {id}; `handfast approvals list --all` lists them")]
    Unknown {
        /// Id that was searched for.
        id: String,
    },
    /// The question was answered before, or it has expired.
    #[error("{} is {} already{}", row.question.id, row.state.as_str(), answered_by(row))]
    Settled {
        /// The question with its current state.
        row: Box<StoredQuestion>,
    },
    /// The call can only be allowed once.
    #[error("this call can only be allowed once: {reason}")]
    OnceOnly {
        /// Reason for the question.
        reason: String,
    },
    /// The requested scope is not available.
    #[error("{0}")]
    Scope(String),
    /// The changes of the command could not be put into the workspace.
    #[error("approved, but nothing was changed: {0}")]
    Changes(#[from] KeptError),
}

fn answered_by(row: &StoredQuestion) -> String {
    row.answered_by.as_ref().map(|by| format!(", by {by}")).unwrap_or_default()
}

/// Approvals of a state folder, for the people who answer them.
#[derive(Clone)]
pub struct Approvals {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    door: crate::Door,
    signals: AnswerSignals,
}

impl Approvals {
    /// Opens the approvals of this store. Calls of other processes find the answers; calls of this
    /// process also get a signal from [`Engine::approvals`].
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        Self { store, clock, door: crate::Door::CommandLine, signals: AnswerSignals::default() }
    }

    /// Returns the same approvals, whose answers send these signals.
    #[must_use]
    pub(crate) fn with_signals(self, signals: AnswerSignals) -> Self {
        Self { signals, ..self }
    }

    /// Returns the same approvals for people who come through `door`, which the audit names.
    #[must_use]
    pub fn through(self, door: crate::Door) -> Self {
        Self { door, ..self }
    }

    /// Starts a watch for changes that other processes make.
    ///
    /// # Errors
    /// Fails if the state cannot be read.
    pub fn watch(&self) -> Result<store_api::Watch, ApprovalError> {
        Ok(self.store.watch()?)
    }

    /// Registers, for as long as the returned value lives, that somebody watches new questions and
    /// can answer those of this workspace. Calls in that workspace then wait for answers.
    ///
    /// # Errors
    /// Fails if the state cannot be written.
    pub fn pay_attention(&self, workspace: &Path) -> Result<store_api::WatcherMark, ApprovalError> {
        Ok(self.store.pay_attention(Some(workspace))?)
    }

    /// Returns the current time of the clock that approvals are measured with.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Lists the questions, the newest first: all of them, or only those that can still be answered
    /// or used.
    ///
    /// # Errors
    /// Fails if the state cannot be read.
    pub fn list(&self, open_only: bool) -> Result<Vec<StoredQuestion>, ApprovalError> {
        const MAX_LISTED: u32 = 500;
        let rows = self.store.approvals().list(open_only, MAX_LISTED, self.clock.now())?;
        let waited_for = self.store.waited_for();
        Ok(rows.into_iter().filter_map(|row| asked(row, &waited_for)).collect())
    }

    /// Finds the question by its id, or by the beginning or the end of its id.
    ///
    /// # Errors
    /// Fails if no question matches, if several match, or if the state cannot be read.
    pub fn find(&self, typed: &str) -> Result<StoredQuestion, ApprovalError> {
        let unknown = || ApprovalError::Unknown { id: typed.to_owned() };
        if let Some(row) = self.store.approvals().find(typed, self.clock.now())? {
            return asked(row, &self.store.waited_for()).ok_or_else(unknown);
        }
        let mut fits =
            self.list(false)?.into_iter().filter(|asked| tool::names_id(typed, &asked.question.id));
        match (fits.next(), fits.next()) {
            (Some(only), None) => Ok(only),
            (Some(_), Some(_)) => {
                Err(ApprovalError::Scope(format!("`{typed}` fits several approvals; type more of the id")))
            }
            (None, _) => Err(unknown()),
        }
    }

    /// Denies the question.
    ///
    /// # Errors
    /// Fails if the question was answered before, or if the answer cannot be written.
    pub fn deny(&self, id: &str, message: Option<String>, by: &str) -> Result<StoredQuestion, ApprovalError> {
        let row = self.find(id)?;
        let expires_at = row.expires_at;
        let answer = ApprovalAnswer {
            approved: false,
            scope: None,
            by: by.to_owned(),
            message,
            expires_at,
            lease: None,
        };
        self.answer(&row, &answer)
    }

    /// Lists the leases: those in force, or all that there have been.
    ///
    /// # Errors
    /// Fails if the state cannot be read.
    pub fn leases(&self, in_force_only: bool) -> Result<Vec<Lease>, ApprovalError> {
        Ok(self.store.leases().list(in_force_only, self.clock.now())?)
    }

    /// Revokes a lease. Returns it, or `None` if no lease in force has this id.
    ///
    /// # Errors
    /// Fails if the state cannot be written, or if `typed` names several leases.
    pub fn revoke(&self, typed: &str, by: &str) -> Result<Option<Lease>, ApprovalError> {
        let mut fits = self.leases(true)?.into_iter().filter(|lease| tool::names_id(typed, &lease.id));
        let (first, second) = (fits.next(), fits.next());
        if second.is_some() {
            return Err(ApprovalError::Scope(format!("`{typed}` fits several leases; type more of the id")));
        }
        let Some(lease) = first else { return Ok(None) };
        let revoked = self.store.leases().revoke(&lease.id, self.clock.now())?;
        let mut row = self.audit_row("lease_revoke");
        let plan = serde_json::json!({"arguments": {"id": lease.id, "covers": lease.covers}, "effects": []});
        row.plan = Some(plan.to_string());
        row.approved_by = Some(by.to_owned());
        row.outcome = Some("ok".to_owned());
        self.store.audit().append(row, Durability::Committed).wait()?;
        Ok(revoked.then_some(lease))
    }

    fn answer(&self, row: &StoredQuestion, answer: &ApprovalAnswer) -> Result<StoredQuestion, ApprovalError> {
        let id = &row.question.id;
        let unknown = || ApprovalError::Unknown { id: id.clone() };
        // Read this before the answer, because the answer ends the wait.
        let waited_for = self.store.waited_for();
        match self.store.approvals().answer(id, answer, self.clock.now())? {
            AnswerOutcome::First(row) => {
                self.signals.send(id);
                let mut noted = self.audit_row("approval_answer");
                fill(&mut noted, (id, &row.call, &row.workspace), Some(answer));
                noted.session = Some(row.session.clone());
                self.store.audit().append(noted, Durability::Committed).wait()?;
                asked(row, &waited_for).ok_or_else(unknown)
            }
            AnswerOutcome::Before(row) => {
                Err(ApprovalError::Settled { row: Box::new(asked(row, &waited_for).ok_or_else(unknown)?) })
            }
        }
    }

    fn audit_row(&self, what: &str) -> AuditRow {
        let id = crate::new_call_id(self.clock.as_ref());
        AuditRow::new(Kind::Call, self.clock.now(), &id.0, self.door.as_str(), "handfast", what)
    }
}

impl Engine {
    /// Adds a listener to the questions that calls of this runtime ask from now on.
    pub fn listen_to_questions(&self, listener: QuestionListener) {
        self.answers.listen(listener);
    }

    /// Returns the approvals of this runtime's state.
    pub fn approvals(&self) -> Approvals {
        Approvals::new(self.store.clone(), self.clock.clone()).with_signals(self.answers.clone())
    }

    /// Returns what an approval of this scope would cover, before it is given.
    ///
    /// # Errors
    /// Fails if the question does not offer this approval.
    pub fn offer(&self, asked: &StoredQuestion, grant: &Grant) -> Result<Offer, ApprovalError> {
        let question = &asked.question;
        let lasts = grant.lasts.unwrap_or_else(|| grant.scope.lasts());
        if lasts.is_zero() || lasts > LONGEST_LEASE {
            let days = LONGEST_LEASE.as_secs() / 86_400;
            return Err(ApprovalError::Scope(format!(
                "an approval is valid for at least a second and at most {days} days"
            )));
        }
        if grant.scope == Scope::Once {
            if grant.pattern.is_some() {
                return Err(ApprovalError::Scope(
                    "a pattern covers more than one call; choose a wider --scope".to_owned(),
                ));
            }
            let covers = "this call only".to_owned();
            let seconds = lasts.as_secs();
            return Ok(Offer { scope: Scope::Once, pattern: None, covers, seconds, past: None });
        }
        if question.once_only && !question.patterns_in_the_cell {
            return Err(ApprovalError::OnceOnly { reason: question.reason.clone() });
        }
        match (&grant.pattern, question.pattern_kind) {
            (None, _) => {
                let offered = question.offers.iter().find(|offer| offer.scope == grant.scope).cloned();
                let offer =
                    offered.ok_or_else(|| ApprovalError::Scope(not_offered(question, grant.scope)))?;
                let seconds = grant.lasts.map_or(offer.seconds, |lasts| lasts.as_secs());
                Ok(Offer { seconds, ..offer })
            }
            (Some(_), None) => {
                Err(ApprovalError::Scope("this call does not take a pattern; leave --pattern out".to_owned()))
            }
            (Some(pattern), Some(kind)) => {
                // A command's pattern covers further words with and without a `*`.
                let bare = pattern.strip_suffix(" *").filter(|_| kind == PatternKind::Command);
                let pattern = bare.unwrap_or(pattern);
                let parsed = match kind {
                    PatternKind::Command => LeasePattern::Command(pattern.to_owned()),
                    PatternKind::Write => LeasePattern::Write(pattern.to_owned()),
                    PatternKind::Read => LeasePattern::Read(PathBuf::from(pattern)),
                };
                let refused =
                    |why: String| ApprovalError::Scope(format!("`{pattern}` cannot be allowed: {why}"));
                let latest = self.successor();
                let policy = &latest.as_deref().unwrap_or(self).policy;
                policy.may_lease(&parsed).map_err(refused)?;
                let in_the_cell = policy.counts_in_the_cell_alone(&parsed);
                if in_the_cell && grant.scope == Scope::Always {
                    return Err(refused("it runs code of the project; use --scope project".to_owned()));
                }
                if question.once_only && !in_the_cell {
                    return Err(ApprovalError::OnceOnly { reason: question.reason.clone() });
                }
                let pattern = match parsed {
                    LeasePattern::Read(folder) => {
                        let real = folder.canonicalize().ok().filter(|real| real.is_dir());
                        let real = real.ok_or_else(|| refused("it is not a folder".to_owned()))?;
                        policy.may_lease(&LeasePattern::Read(real.clone())).map_err(refused)?;
                        tool::path_text(&real)
                    }
                    _ => pattern.to_owned(),
                };
                self.pattern_offer(grant.scope, kind, &pattern, lasts)
                    .ok_or_else(|| ApprovalError::Scope("the pattern contains a secret".to_owned()))
            }
        }
    }

    /// Approves the question. If changes of a command were set aside until then, they are put into
    /// the workspace, which must be this engine's.
    ///
    /// # Errors
    /// Fails if the question was answered before, if the scope is not available, or if the changes
    /// cannot be applied.
    pub async fn grant(&self, id: &str, grant: &Grant) -> Result<GrantResult, ApprovalError> {
        self.grant_through(crate::Door::CommandLine, id, grant).await
    }

    /// Approves like [`Engine::grant`], for people who come through this door.
    ///
    /// # Errors
    /// Fails like [`Engine::grant`].
    pub async fn grant_through(
        &self,
        door: crate::Door,
        id: &str,
        grant: &Grant,
    ) -> Result<GrantResult, ApprovalError> {
        let approvals = self.approvals().through(door);
        let found = approvals.find(id)?;
        let again = found.state == ApprovalState::Approved && found.changes.is_some();
        let mut lease = None;
        let approval = if again {
            // The question was approved before, but conflicting changes of others kept its changes
            // out.
            found
        } else {
            let offer = self.offer(&found, grant)?;
            let owner = (found.session.as_str(), found.workspace.as_path());
            lease = made_by(&found.question, owner, &offer, &grant.by, self.clock.as_ref());
            let lasts = match offer.scope {
                Scope::Once => Duration::from_secs(offer.seconds),
                _ => Duration::from_secs(offer.seconds).min(Scope::Once.lasts()),
            };
            let answer = ApprovalAnswer {
                approved: true,
                scope: Some(offer.scope.as_str().to_owned()),
                by: grant.by.clone(),
                message: None,
                expires_at: after(self.clock.now(), lasts),
                lease: lease.clone(),
            };
            approvals.answer(&found, &answer)?
        };
        let applied = match &approval.changes {
            Some(changes) => Some(self.apply_changes(changes, false).await?),
            None => None,
        };
        let approval = if applied.is_some() { approvals.find(&approval.question.id)? } else { approval };
        Ok(GrantResult { approval, lease, applied })
    }
}

fn not_offered(question: &Approval, scope: Scope) -> String {
    let offered: Vec<&str> = question.offers.iter().map(|offer| offer.scope.as_str()).collect();
    let offered =
        if offered.is_empty() { "only once".to_owned() } else { format!("once, {}", offered.join(", ")) };
    let how = match scope {
        Scope::Always => {
            "; `always` needs a --pattern that is not an interpreter, a shell, git or a package manager, \
             which can be allowed with --scope project"
        }
        _ => "",
    };
    format!("`{scope}` is not available for this call; available: {offered}{how}")
}

/// Parses the row's question. Returns `None` if another version wrote a question that this version
/// cannot read.
fn asked(row: ApprovalRow, waited_for: &HashSet<String>) -> Option<StoredQuestion> {
    let mut question: Approval = serde_json::from_str(&row.question).ok()?;
    question.id = row.id;
    Some(StoredQuestion {
        caller_waits: waited_for.contains(&question.id),
        question,
        state: row.state,
        workspace: row.workspace,
        session: row.session,
        door: row.door,
        asked_at: row.asked_at,
        expires_at: row.expires_at,
        scope: row.scope,
        answered_at: row.answered_at,
        answered_by: row.answered_by,
        message: row.message,
        changes: row.changes,
    })
}

fn as_text<S: serde::Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&tool::path_text(path))
}
