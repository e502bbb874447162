//! A row as stored in the log, and its JSON form.

use jiff::Timestamp;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::audit::row::{AuditRow, Kind};
use crate::hash::Hash;

/// A row as stored in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedRow {
    /// Number of the row, from 1 without gaps.
    pub sequence: i64,
    /// Row that the caller appended.
    pub row: AuditRow,
    /// Hash of the previous row.
    pub previous: Hash,
    /// Hash of this row.
    pub hash: Hash,
}

impl Serialize for RecordedRow {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let row = &self.row;
        Line {
            sequence: self.sequence,
            kind: row.kind,
            time: row.time,
            call: &row.call,
            session: row.session.as_deref(),
            door: &row.door,
            dialect: &row.dialect,
            tool: &row.tool,
            plan: row.plan.as_deref().map(|plan| match serde_json::from_str::<&RawValue>(plan) {
                Ok(json) if !plan.contains(['\n', '\r']) => Plan::Json(json),
                _ => Plan::Text(plan),
            }),
            decision: row.decision.as_deref(),
            rule: row.rule.as_deref(),
            approved_by: row.approved_by.as_deref(),
            sandbox: row.sandbox.as_deref(),
            duration_us: row.duration.map(|duration| duration.as_micros()),
            outcome: row.outcome.as_deref(),
            effect: row.effect.as_deref(),
            output_ref: row.output_ref.as_deref(),
            previous: self.previous,
            hash: self.hash,
        }
        .serialize(serializer)
    }
}

/// The JSON shape of a row: every field is always present.
#[derive(Serialize)]
struct Line<'a> {
    sequence: i64,
    kind: Kind,
    time: Timestamp,
    call: &'a str,
    session: Option<&'a str>,
    door: &'a str,
    dialect: &'a str,
    tool: &'a str,
    plan: Option<Plan<'a>>,
    decision: Option<&'a str>,
    rule: Option<&'a str>,
    approved_by: Option<&'a str>,
    sandbox: Option<&'a str>,
    duration_us: Option<u128>,
    outcome: Option<&'a str>,
    effect: Option<&'a str>,
    output_ref: Option<&'a str>,
    previous: Hash,
    hash: Hash,
}

/// A plan, written byte for byte as JSON, or as a string if tampering made it invalid.
#[derive(Serialize)]
#[serde(untagged)]
enum Plan<'a> {
    Json(&'a RawValue),
    Text(&'a str),
}
