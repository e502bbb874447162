//! An audit row as the caller hands it in, and what is refused of it.

use std::str::FromStr;
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

use crate::error::StoreError;

/// One row as the caller hands it in. Nothing in it may be text that the redaction has not seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRow {
    /// What the row says about its call.
    pub kind: Kind,
    /// When, by the caller's clock; kept in whole microseconds.
    pub time: Timestamp,
    /// The id of the call.
    pub call: String,
    /// The session that the call belongs to.
    pub session: Option<String>,
    /// The door that it came through.
    pub door: String,
    /// The dialect that it was spoken in.
    pub dialect: String,
    /// The canonical name of the tool.
    pub tool: String,
    /// JSON on one line: the effects and the redacted arguments.
    pub plan: Option<String>,
    /// What the policy decided.
    pub decision: Option<String>,
    /// The rule that decided.
    pub rule: Option<String>,
    /// Who approved it.
    pub approved_by: Option<String>,
    /// What was really enforced.
    pub sandbox: Option<String>,
    /// How long it ran; kept in whole microseconds.
    pub duration: Option<Duration>,
    /// `ok`, or the code of the error.
    pub outcome: Option<String>,
    /// Whether the world changed: `none`, `maybe` or `done`.
    pub effect: Option<String>,
    /// The id under which the full output is kept.
    pub output_ref: Option<String>,
}

impl AuditRow {
    /// A row with the fields that every row has; the others are set by name.
    pub fn new(kind: Kind, time: Timestamp, call: &str, door: &str, dialect: &str, tool: &str) -> Self {
        Self {
            kind,
            time,
            call: call.to_owned(),
            session: None,
            door: door.to_owned(),
            dialect: dialect.to_owned(),
            tool: tool.to_owned(),
            plan: None,
            decision: None,
            rule: None,
            approved_by: None,
            sandbox: None,
            duration: None,
            outcome: None,
            effect: None,
            output_ref: None,
        }
    }

    /// Lists all its texts.
    pub(crate) fn texts(&mut self) -> Vec<&mut String> {
        let mut texts = vec![&mut self.call, &mut self.door, &mut self.dialect, &mut self.tool];
        let optional = [
            &mut self.session,
            &mut self.plan,
            &mut self.decision,
            &mut self.rule,
            &mut self.approved_by,
            &mut self.sandbox,
            &mut self.outcome,
            &mut self.effect,
            &mut self.output_ref,
        ];
        texts.extend(optional.into_iter().flatten());
        texts
    }

    /// The bytes of all its texts.
    pub(crate) fn text_bytes(&self) -> usize {
        let required = [&self.call, &self.door, &self.dialect, &self.tool];
        let optional = [
            &self.session,
            &self.plan,
            &self.decision,
            &self.rule,
            &self.approved_by,
            &self.sandbox,
            &self.outcome,
            &self.effect,
            &self.output_ref,
        ];
        required.into_iter().chain(optional.into_iter().flatten()).map(String::len).sum()
    }

    /// Refuses what could not be written or exported, before it is queued.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        if self.text_bytes() > ROW_BYTES_MAX {
            return Err(StoreError::RowRefused { field: "text", problem: "has more than 1 MiB in all" });
        }
        if let Some(plan) = &self.plan {
            if plan.contains(['\n', '\r']) {
                return Err(StoreError::RowRefused { field: "plan", problem: "has more than one line" });
            }
            if serde_json::from_str::<serde::de::IgnoredAny>(plan).is_err() {
                return Err(StoreError::RowRefused { field: "plan", problem: "is not JSON" });
            }
        }
        Ok(())
    }
}

/// What a row says about its call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Written before the effect of a call.
    Intent,
    /// Written after it.
    Outcome,
    /// Both at once, for a call that only reads or that was refused.
    Call,
}

impl Kind {
    /// The word in the log.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Intent => "intent",
            Self::Outcome => "outcome",
            Self::Call => "call",
        }
    }
}

impl FromStr for Kind {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        [Self::Intent, Self::Outcome, Self::Call].into_iter().find(|kind| kind.as_str() == text).ok_or(())
    }
}

/// The most bytes that the texts of one row may have together: 1 MiB, so that the queue of the writer and a
/// walk over the log have a known bound.
pub const ROW_BYTES_MAX: usize = 1024 * 1024;
