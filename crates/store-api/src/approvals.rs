//! Questions to humans and their answers, shared by all processes of a state.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use jiff::Timestamp;
use serde::Serialize;

use crate::error::StoreError;
use crate::leases::Lease;

/// A question to a human, and its outcome. Every text in the row must have passed the redaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ApprovalRow {
    /// Id that an `EAPPROVAL` error carries.
    pub id: String,
    /// Id of the call that asked.
    pub call: String,
    /// Session of the call.
    pub session: String,
    /// Door through which the call came.
    pub door: String,
    /// Workspace of the call.
    #[serde(serialize_with = "as_text")]
    pub workspace: PathBuf,
    /// Name of the tool.
    pub tool: String,
    /// Level of the call.
    pub level: String,
    /// Digest of the exact plan: an approval applies to this plan only.
    pub plan: String,
    /// Digest of the caller's request: the plan without the additions of this machine.
    pub request: String,
    /// Common form of similar calls, for counting them.
    pub shape: String,
    /// JSON shown to the human.
    pub question: String,
    /// Time of the question, in whole microseconds.
    pub asked_at: Timestamp,
    /// Time after which the question cannot be answered, and an approval cannot be used.
    pub expires_at: Timestamp,
    /// State of the question.
    pub state: ApprovalState,
    /// Id of a command's changes that are set aside until the answer.
    pub changes: Option<String>,
    /// Scope of the approval.
    pub scope: Option<String>,
    /// Time of the answer.
    pub answered_at: Option<Timestamp>,
    /// Name of the person who answered.
    pub answered_by: Option<String>,
    /// Message for the agent.
    pub message: Option<String>,
}

/// State of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ApprovalState {
    /// Unanswered.
    Waiting,
    /// Approved, and not used by a call yet.
    Approved,
    /// Denied.
    Denied,
    /// Expired, or revoked because the approved plan no longer exists.
    Expired,
    /// Approved, and used by a call.
    Used,
}

/// Answer of a human.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalAnswer {
    /// True if the call is approved.
    pub approved: bool,
    /// Scope of the approval.
    pub scope: Option<String>,
    /// Name of the person who answers.
    pub by: String,
    /// Message for the agent.
    pub message: Option<String>,
    /// Time after which an approval can no longer be used.
    pub expires_at: Timestamp,
    /// Lease that the answer grants in addition.
    pub lease: Option<Lease>,
}

/// Outcome of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnswerOutcome {
    /// The answer was the first, and counts.
    First(ApprovalRow),
    /// The question was answered or expired before; the row contains the outcome that counts.
    Before(ApprovalRow),
}

/// Earlier answer that applies to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EarlierAnswer {
    /// Absence of an answer.
    None,
    /// An approval, which this lookup has used.
    Approved(ApprovalRow),
    /// A denial that its caller has not received yet. Each denial is reported once.
    Denied(ApprovalRow),
    /// An approval of the same request with another plan. The lookup has voided it.
    Drifted(ApprovalRow),
}

impl ApprovalRow {
    /// Returns the question with its state at the time `now`.
    #[must_use]
    pub fn seen_at(mut self, now: Timestamp) -> Self {
        if matches!(self.state, ApprovalState::Waiting | ApprovalState::Approved) && self.expires_at <= now {
            self.state = ApprovalState::Expired;
        }
        self
    }
}

impl ApprovalState {
    /// Returns the word stored in the table.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Approved => "approved",
            Self::Denied => "denied",
            Self::Expired => "expired",
            Self::Used => "used",
        }
    }
}

impl FromStr for ApprovalState {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        [Self::Waiting, Self::Approved, Self::Denied, Self::Expired, Self::Used]
            .into_iter()
            .find(|state| state.as_str() == text)
            .ok_or(())
    }
}

fn as_text<S: serde::Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&path.to_string_lossy())
}

/// The questions of a store.
///
/// The first answer counts, and an approval for one call is used by one call, whichever process
/// answers or uses it. A [`Lease`] allows more than one call.
///
/// Every method blocks, and returns an error if the state cannot be read or written.
pub trait Approvals: Send + Sync {
    /// Records a question and returns it. If a question about the same plan already waits, returns
    /// that one.
    fn ask(&self, row: &ApprovalRow) -> Result<ApprovalRow, StoreError>;

    /// Answers a waiting question. The first answer counts.
    fn answer(&self, id: &str, answer: &ApprovalAnswer, now: Timestamp) -> Result<AnswerOutcome, StoreError>;

    /// Uses an approval. Among all callers in all processes, exactly one gets `true`.
    fn use_up(&self, id: &str, now: Timestamp) -> Result<bool, StoreError>;

    /// Finds the earlier answer that applies to a call with this plan and this request.
    fn earlier(
        &self,
        workspace: &Path,
        plan: &str,
        request: &str,
        now: Timestamp,
    ) -> Result<EarlierAnswer, StoreError>;

    /// Takes the answers to all questions of this request: the approvals, which are used by this,
    /// and the denials that were not reported yet, which are reported by this.
    fn take_answers(
        &self,
        workspace: &Path,
        request: &str,
        now: Timestamp,
    ) -> Result<Vec<ApprovalRow>, StoreError>;

    /// Ends the unanswered questions of this request.
    fn withdraw(&self, workspace: &Path, request: &str) -> Result<(), StoreError>;

    /// Records that the caller of a question has received the answer.
    fn set_answer_received(&self, id: &str) -> Result<(), StoreError>;

    /// Records that a command's changes are set aside until the question is answered. Returns the
    /// current question.
    fn hold(&self, id: &str, changes: &str) -> Result<ApprovalRow, StoreError>;

    /// Ends the question about changes that were applied or discarded in another way.
    fn settle_changes(
        &self,
        changes: &str,
        applied: bool,
        by: &str,
        now: Timestamp,
    ) -> Result<(), StoreError>;

    /// Returns one question.
    fn find(&self, id: &str, now: Timestamp) -> Result<Option<ApprovalRow>, StoreError>;

    /// Lists the questions, newest first: all of them, or only those that can still be answered or
    /// used.
    fn list(&self, open_only: bool, limit: u32, now: Timestamp) -> Result<Vec<ApprovalRow>, StoreError>;

    /// Counts the calls of this shape that a human has approved one by one in the workspace since
    /// `since`.
    fn allowed_once(&self, workspace: &Path, shape: &str, since: Timestamp) -> Result<u32, StoreError>;
}
