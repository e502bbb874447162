//! A row as stored in the log, and its JSON form.

use std::time::Duration;

use jiff::Timestamp;
use rusqlite::types::ValueRef;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::audit::encoding::COLUMNS;
use crate::audit::row::{AuditRow, Kind};
use crate::error::StoreError;
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

impl RecordedRow {
    /// Reads a row of [`select`]. Bytes that are not UTF-8 become replacement characters: a tampered
    /// row can still be examined, and `verify` reports the fault.
    pub(crate) fn read(row: &rusqlite::Row<'_>) -> Result<Self, StoreError> {
        let value = |index: usize| row.get_ref(index).unwrap_or(ValueRef::Null);
        let sequence = value(0).as_i64().unwrap_or(0);
        let broken = |field| StoreError::BrokenRow { sequence, field };
        let optional = |index: usize| match value(index) {
            ValueRef::Text(text) => Some(String::from_utf8_lossy(text).into_owned()),
            _ => None,
        };
        let text = |index: usize| optional(index).unwrap_or_default();
        let hash = |index: usize| value(index).as_blob().ok().and_then(Hash::from_slice);
        let duration = match value(14) {
            ValueRef::Null => None,
            other => {
                let micros = other.as_i64().ok().and_then(|micros| u64::try_from(micros).ok());
                Some(Duration::from_micros(micros.ok_or_else(|| broken("duration"))?))
            }
        };
        let time = value(3).as_i64().ok().and_then(|micros| Timestamp::from_microsecond(micros).ok());
        Ok(Self {
            sequence,
            row: AuditRow {
                kind: text(2).parse().map_err(|()| broken("kind"))?,
                time: time.ok_or_else(|| broken("time"))?,
                call: text(4),
                session: optional(5),
                door: text(6),
                dialect: text(7),
                tool: text(8),
                plan: optional(9),
                decision: optional(10),
                rule: optional(11),
                approved_by: optional(12),
                sandbox: optional(13),
                duration,
                outcome: optional(15),
                effect: optional(16),
                output_ref: optional(17),
            },
            previous: hash(18).ok_or_else(|| broken("previous"))?,
            hash: hash(19).ok_or_else(|| broken("hash"))?,
        })
    }
}

/// Returns the query for the columns that [`RecordedRow::read`] expects.
pub(crate) fn select() -> String {
    format!("SELECT {}, previous, hash FROM audit", COLUMNS.join(", "))
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
