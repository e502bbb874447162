//! An audit row as the caller appends it, and its validation.

use std::str::FromStr;
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

use crate::error::StoreError;

/// An audit row as the caller appends it. Every text in the row must have passed the redaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRow {
    /// Kind of the row.
    pub kind: Kind,
    /// Time by the caller's clock, in whole microseconds.
    pub time: Timestamp,
    /// Id of the call.
    pub call: String,
    /// Session of the call.
    pub session: Option<String>,
    /// Door through which the call came.
    pub door: String,
    /// Dialect of the call.
    pub dialect: String,
    /// Canonical name of the tool.
    pub tool: String,
    /// JSON on one line: the effects and the redacted arguments.
    pub plan: Option<String>,
    /// Decision of the policy.
    pub decision: Option<String>,
    /// Rule that decided.
    pub rule: Option<String>,
    /// Name of the person who approved the call.
    pub approved_by: Option<String>,
    /// Sandbox limits that were really enforced.
    pub sandbox: Option<String>,
    /// Duration of the call, in whole microseconds.
    pub duration: Option<Duration>,
    /// `ok`, or the code of the error.
    pub outcome: Option<String>,
    /// Effect on the world: `none`, `maybe` or `done`.
    pub effect: Option<String>,
    /// Id of the stored full output.
    pub output_ref: Option<String>,
}

impl AuditRow {
    /// Creates a row with the required fields; the others are set by name.
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

    /// Lists all texts of the row.
    pub fn texts(&mut self) -> Vec<&mut String> {
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

    /// Returns the total length of all texts in bytes.
    pub fn text_bytes(&self) -> usize {
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

    /// Refuses a row that could not be written or exported, before it is queued.
    pub fn check(&self) -> Result<(), StoreError> {
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

/// Kind of an audit row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A row written before the effect of a call.
    Intent,
    /// A row written after the effect.
    Outcome,
    /// A combined row, for a call that only reads or was refused.
    Call,
}

impl Kind {
    /// Returns the word used in the log.
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

/// Maximum total length of the texts of one row: 1 MiB, so that the writer's queue and a walk over
/// the log have a known bound.
pub const ROW_BYTES_MAX: usize = 1024 * 1024;
