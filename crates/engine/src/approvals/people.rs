//! What people do with approvals, from another process than the call's: look at them, answer, take leases back.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use policy::LeasePattern;
use serde::Serialize;
use store::{
    Answered, ApprovalAnswer, ApprovalRow, ApprovalState, AuditRow, Durability, Kind, Lease, Store,
    StoreError,
};
use tool::Clock;

use super::offer::after;
use super::put::fill;
use super::question::{Approval, Offer, PatternKind, Scope};
use crate::{Engine, KeptError};

/// No lease lasts longer: a quarter of a year, after which nobody remembers it.
const LONGEST_LEASE: Duration = Duration::from_hours(90 * 24);

/// A question with what became of it.
#[derive(Debug, Clone, Serialize)]
pub struct Asked {
    /// What was asked.
    #[serde(flatten)]
    pub question: Approval,
    /// What became of it.
    pub state: ApprovalState,
    /// The workspace that the call would act in.
    #[serde(serialize_with = "as_text")]
    pub workspace: PathBuf,
    /// The session of the call.
    pub session: String,
    /// The door that it came through.
    pub door: String,
    /// When it was asked.
    pub asked_at: Timestamp,
    /// From when on it can be neither answered nor used.
    pub expires_at: Timestamp,
    /// How far the yes reaches.
    pub scope: Option<String>,
    /// When it was answered.
    pub answered_at: Option<Timestamp>,
    /// Who answered.
    pub answered_by: Option<String>,
    /// A word for the agent.
    pub message: Option<String>,
    /// The id under which changes of a command lie aside until it is answered.
    pub changes: Option<String>,
    /// Whether the call waits for the answer. A yes lets it go on; where its caller is gone, the same call passes once when it is
    /// made again.
    pub caller_waits: bool,
}

impl Asked {
    /// What became of it, in a word or two: an open question whose caller has gone is said to be one.
    pub fn state_name(&self) -> &'static str {
        match self.state {
            ApprovalState::Waiting if !self.caller_waits => "caller gone",
            state => state.as_str(),
        }
    }
}

/// A yes.
#[derive(Debug, Clone)]
pub struct Grant {
    /// How far it reaches.
    pub scope: Scope,
    /// The pattern that it is for, in place of the offered one.
    pub pattern: Option<String>,
    /// How long it is good for, in place of the usual time.
    pub lasts: Option<Duration>,
    /// Who gives it, for the audit.
    pub by: String,
}

/// What a yes came to.
#[derive(Debug, Clone, Serialize)]
pub struct Approved {
    /// The question as it is now.
    pub approval: Asked,
    /// What else is allowed by it.
    pub lease: Option<Lease>,
    /// How many paths changed, where changes of a command lay aside.
    pub applied: Option<u64>,
}

/// Why an answer does not count.
#[derive(Debug, thiserror::Error)]
pub enum ApprovalError {
    /// The state cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// There is none of this id.
    #[error("there is no approval {id}; `handfast approvals list --all` lists them")]
    Unknown {
        /// The id.
        id: String,
    },
    /// Somebody has answered before, or it is too late.
    #[error("{} is {} already{}", row.question.id, row.state.as_str(), answered_by(row))]
    Settled {
        /// The question as it is.
        row: Box<Asked>,
    },
    /// The call is one that only this once can be allowed.
    #[error("this call can only be allowed once: {reason}")]
    OnceOnly {
        /// Why it was asked about.
        reason: String,
    },
    /// The reach that was asked for is not to be had.
    #[error("{0}")]
    Scope(String),
    /// The changes of the command could not be put into the workspace.
    #[error("it is approved, but nothing was changed: {0}")]
    Changes(#[from] KeptError),
}

fn answered_by(row: &Asked) -> String {
    row.answered_by.as_ref().map(|by| format!(", by {by}")).unwrap_or_default()
}

/// The approvals of a state folder, for people who look at them.
#[derive(Clone)]
pub struct Approvals {
    store: Arc<Store>,
    clock: Arc<dyn Clock>,
    door: crate::Door,
}

impl Approvals {
    /// Those of this store.
    pub fn new(store: Arc<Store>, clock: Arc<dyn Clock>) -> Self {
        Self { store, clock, door: crate::Door::CommandLine }
    }

    /// The same for people who come through this door, as the audit names it.
    #[must_use]
    pub fn through(self, door: crate::Door) -> Self {
        Self { door, ..self }
    }

    /// Tells of what others write from now on.
    ///
    /// # Errors
    /// Where the state cannot be read.
    pub fn watch(&self) -> Result<store::Watch, ApprovalError> {
        Ok(self.store.watch()?)
    }

    /// Says, for as long as the value lives, that somebody looks at questions as they come and can answer those of this workspace:
    /// calls there wait for their answers.
    ///
    /// # Errors
    /// Where the state cannot be written.
    pub fn pay_attention(&self, workspace: &Path) -> Result<store::Attention, ApprovalError> {
        Ok(self.store.pay_attention(Some(workspace))?)
    }

    /// The time, by the clock that approvals are measured with.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The questions, the newest first: those that can be answered or used still, or all.
    ///
    /// # Errors
    /// Where the state cannot be read.
    pub fn list(&self, open_only: bool) -> Result<Vec<Asked>, ApprovalError> {
        const MOST_LISTED: u32 = 500;
        let rows = self.store.approvals().list(open_only, MOST_LISTED, self.clock.now())?;
        let waited_for = self.store.waited_for();
        Ok(rows.into_iter().filter_map(|row| asked(row, &waited_for)).collect())
    }

    /// The question whose id begins so, where only one does.
    ///
    /// # Errors
    /// Where none does, or several do.
    pub fn find(&self, typed: &str) -> Result<Asked, ApprovalError> {
        let unknown = || ApprovalError::Unknown { id: typed.to_owned() };
        if let Some(row) = self.store.approvals().find(typed, self.clock.now())? {
            return asked(row, &self.store.waited_for()).ok_or_else(unknown);
        }
        let mut fits = self
            .list(false)?
            .into_iter()
            .filter(|asked| !typed.is_empty() && asked.question.id.starts_with(typed));
        match (fits.next(), fits.next()) {
            (Some(only), None) => Ok(only),
            (Some(_), Some(_)) => {
                Err(ApprovalError::Scope(format!("`{typed}` fits several approvals; type more of the id")))
            }
            (None, _) => Err(unknown()),
        }
    }

    /// Says no.
    ///
    /// # Errors
    /// Where it was answered before, or cannot be written.
    pub fn deny(&self, id: &str, message: Option<String>, by: &str) -> Result<Asked, ApprovalError> {
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

    /// What is allowed for a time: what is in force, or all that there ever was.
    ///
    /// # Errors
    /// Where the state cannot be read.
    pub fn leases(&self, in_force_only: bool) -> Result<Vec<Lease>, ApprovalError> {
        Ok(self.store.leases().list(in_force_only, self.clock.now())?)
    }

    /// Takes a lease back. Gives it, or none where it was not in force.
    ///
    /// # Errors
    /// Where the state cannot be written, or several ids begin so.
    pub fn revoke(&self, typed: &str, by: &str) -> Result<Option<Lease>, ApprovalError> {
        let fits = |lease: &Lease| !typed.is_empty() && lease.id.starts_with(typed);
        let mut fits = self.leases(true)?.into_iter().filter(fits);
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

    fn answer(&self, row: &Asked, answer: &ApprovalAnswer) -> Result<Asked, ApprovalError> {
        let id = &row.question.id;
        let unknown = || ApprovalError::Unknown { id: id.clone() };
        // Before the answer, which ends the wait.
        let waited_for = self.store.waited_for();
        match self.store.approvals().answer(id, answer, self.clock.now())? {
            Answered::First(row) => {
                let mut noted = self.audit_row("approval_answer");
                fill(&mut noted, id, &row.call, Some(answer));
                noted.session = Some(row.session.clone());
                self.store.audit().append(noted, Durability::Committed).wait()?;
                asked(row, &waited_for).ok_or_else(unknown)
            }
            Answered::Before(row) => {
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
    /// The approvals of this runtime's state.
    pub fn approvals(&self) -> Approvals {
        Approvals::new(self.store.clone(), self.clock.clone())
    }

    /// What a yes of this reach would cover, before it is given.
    ///
    /// # Errors
    /// Where there is no such yes to this question.
    pub fn offer(&self, asked: &Asked, grant: &Grant) -> Result<Offer, ApprovalError> {
        let question = &asked.question;
        let lasts = grant.lasts.unwrap_or_else(|| grant.scope.lasts());
        if lasts.is_zero() || lasts > LONGEST_LEASE {
            let days = LONGEST_LEASE.as_secs() / 86_400;
            return Err(ApprovalError::Scope(format!(
                "a yes is good for at least a second and at most {days} days"
            )));
        }
        if grant.scope == Scope::Once {
            if grant.pattern.is_some() {
                return Err(ApprovalError::Scope(
                    "a pattern is for more than one call; name a wider --scope".to_owned(),
                ));
            }
            let covers = "this call alone".to_owned();
            return Ok(Offer { scope: Scope::Once, pattern: None, covers, seconds: lasts.as_secs() });
        }
        if question.once_only {
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
            (Some(_), None) => Err(ApprovalError::Scope(
                "no pattern can be given for such a call; leave --pattern out".to_owned(),
            )),
            (Some(pattern), Some(kind)) => {
                let parsed = match kind {
                    PatternKind::Command => LeasePattern::Command(pattern.clone()),
                    PatternKind::Write => LeasePattern::Write(pattern.clone()),
                    PatternKind::Read => LeasePattern::Read(PathBuf::from(pattern)),
                };
                let refused =
                    |why: String| ApprovalError::Scope(format!("`{pattern}` cannot be allowed: {why}"));
                self.policy.may_lease(&parsed).map_err(refused)?;
                let pattern = match parsed {
                    LeasePattern::Read(folder) => {
                        let real = folder.canonicalize().ok().filter(|real| real.is_dir());
                        let real = real.ok_or_else(|| refused("it is no folder".to_owned()))?;
                        self.policy.may_lease(&LeasePattern::Read(real.clone())).map_err(refused)?;
                        tool::path_text(&real)
                    }
                    _ => pattern.clone(),
                };
                self.pattern_offer(grant.scope, kind, &pattern, lasts)
                    .ok_or_else(|| ApprovalError::Scope("the pattern holds a secret".to_owned()))
            }
        }
    }

    /// Says yes. Where changes of a command lie aside until then, they are put into the workspace, which must be this
    /// engine's.
    ///
    /// # Errors
    /// Where it was answered before, the reach is not to be had, or the changes cannot be applied.
    pub async fn grant(&self, id: &str, grant: &Grant) -> Result<Approved, ApprovalError> {
        self.grant_through(crate::Door::CommandLine, id, grant).await
    }

    /// As [`Engine::grant`], for people who come through this door.
    ///
    /// # Errors
    /// As there.
    pub async fn grant_through(
        &self,
        door: crate::Door,
        id: &str,
        grant: &Grant,
    ) -> Result<Approved, ApprovalError> {
        let approvals = self.approvals().through(door);
        let found = approvals.find(id)?;
        let again = found.state == ApprovalState::Approved && found.changes.is_some();
        let mut lease = None;
        let approval = if again {
            // It was approved before, and others stood in the way of the changes.
            found
        } else {
            let offer = self.offer(&found, grant)?;
            lease = self.lease(&found.question, &found.session, &found.workspace, &offer, &grant.by);
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
        Ok(Approved { approval, lease, applied })
    }
}

fn not_offered(question: &Approval, scope: Scope) -> String {
    let offered: Vec<&str> = question.offers.iter().map(|offer| offer.scope.as_str()).collect();
    let offered =
        if offered.is_empty() { "once alone".to_owned() } else { format!("once, {}", offered.join(", ")) };
    let how = match scope {
        Scope::Always => {
            "; `always` needs a --pattern that is not an interpreter, a shell, git or a package manager"
        }
        _ => "",
    };
    format!("`{scope}` is not to be had for this call, but {offered}{how}")
}

/// The row with its question read; none where another version wrote what this one does not understand.
fn asked(row: ApprovalRow, waited_for: &HashSet<String>) -> Option<Asked> {
    let mut question: Approval = serde_json::from_str(&row.question).ok()?;
    question.id = row.id;
    Some(Asked {
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
