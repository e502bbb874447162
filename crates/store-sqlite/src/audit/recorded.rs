//! Reading of the rows of the log.

use std::time::Duration;

use jiff::Timestamp;
use rusqlite::types::ValueRef;
use store_api::{AuditRow, Hash, RecordedRow, StoreError};

use crate::audit::encoding::COLUMNS;

/// Reads a row of [`select`]. Bytes that are not UTF-8 become replacement characters: a tampered
/// row can still be examined, and `verify` reports the fault.
pub(crate) fn read(row: &rusqlite::Row<'_>) -> Result<RecordedRow, StoreError> {
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
    Ok(RecordedRow {
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

/// Returns the query for the columns that [`read`] expects.
pub(crate) fn select() -> String {
    format!("SELECT {}, previous, hash FROM audit", COLUMNS.join(", "))
}
