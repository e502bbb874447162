//! An audit row: its fields, its columns, and the encoding that its hash is taken over.
//!
//! The hash of a row is BLAKE3 over: the 16 bytes `handfast audit 1`, the 32 bytes of the hash of the row
//! before ([`Hash::GENESIS`] for the first), then every column of [`COLUMNS`] in order, each as one byte of
//! type (0 null, 1 integer, 2 text, 3 blob), its length as 8 bytes little-endian, and its bytes (an integer
//! as 8 bytes little-endian). Because every value carries its length, no two rows share an encoding.

use std::str::FromStr;
use std::time::Duration;

use jiff::Timestamp;
use rusqlite::types::ValueRef;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::error::StoreError;
use crate::hash::Hash;

/// The hashed columns in the order of the encoding.
pub(crate) const COLUMNS: [&str; 18] = [
    "sequence",
    "format",
    "kind",
    "time_us",
    "call",
    "session",
    "door",
    "dialect",
    "tool",
    "plan",
    "decision",
    "rule",
    "approved_by",
    "sandbox",
    "duration_us",
    "outcome",
    "effect",
    "output_ref",
];

/// What starts the encoding, and changes with it.
const DOMAIN: &[u8; 16] = b"handfast audit 1";

/// The value of the `format` column: which encoding a row was hashed with.
const FORMAT: i64 = 1;

/// The most bytes that the texts of one row may have together: 1 MiB, so that the queue of the writer and a
/// walk over the log have a known bound.
pub const ROW_BYTES_MAX: usize = 1024 * 1024;

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

    /// The values of [`COLUMNS`].
    pub(crate) fn values(&self, sequence: i64) -> [ValueRef<'_>; COLUMNS.len()] {
        let duration = self.duration.map(|duration| i64::try_from(duration.as_micros()).unwrap_or(i64::MAX));
        [
            ValueRef::Integer(sequence),
            ValueRef::Integer(FORMAT),
            self.kind.as_str().into(),
            ValueRef::Integer(self.time.as_microsecond()),
            self.call.as_str().into(),
            self.session.as_deref().into(),
            self.door.as_str().into(),
            self.dialect.as_str().into(),
            self.tool.as_str().into(),
            self.plan.as_deref().into(),
            self.decision.as_deref().into(),
            self.rule.as_deref().into(),
            self.approved_by.as_deref().into(),
            self.sandbox.as_deref().into(),
            duration.map_or(ValueRef::Null, ValueRef::Integer),
            self.outcome.as_deref().into(),
            self.effect.as_deref().into(),
            self.output_ref.as_deref().into(),
        ]
    }
}

/// The hash of a row, from the hash before it and its values in the order of [`COLUMNS`].
pub(crate) fn digest<'v>(previous: &Hash, values: impl IntoIterator<Item = ValueRef<'v>>) -> Hash {
    let mut hasher = blake3::Hasher::new();
    hasher.update(DOMAIN).update(previous.as_bytes());
    for value in values {
        let integer;
        let (kind, bytes) = match value {
            ValueRef::Null => (0, &[][..]),
            ValueRef::Integer(number) => {
                integer = number.to_le_bytes();
                (1, &integer[..])
            }
            ValueRef::Text(text) => (2, text),
            ValueRef::Blob(blob) => (3, blob),
            // No column is a floating point number, so such a row was not written by this program: its
            // encoding is one that no written row has.
            ValueRef::Real(_) => (4, &[][..]),
        };
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        hasher.update(&[kind]).update(&length.to_le_bytes()).update(bytes);
    }
    hasher.finalize().into()
}

/// A row as it stands in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Its number, from 1 without gaps.
    pub sequence: i64,
    /// What was handed in.
    pub row: AuditRow,
    /// The hash of the row before.
    pub previous: Hash,
    /// Its own hash.
    pub hash: Hash,
}

/// The columns that [`Recorded::read`] expects.
pub(crate) fn select() -> String {
    format!("SELECT {}, previous, hash FROM audit", COLUMNS.join(", "))
}

impl Recorded {
    /// Reads a row of [`select`]. Bytes that are no text are shown as replacement characters: a row that
    /// was tampered with can still be looked at, and `verify` says what is wrong with it.
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

impl Serialize for Recorded {
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

/// The JSON shape of a row: every field is always there.
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

/// A plan goes out byte for byte, as JSON; as a string where tampering made it something else.
#[derive(Serialize)]
#[serde(untagged)]
enum Plan<'a> {
    Json(&'a RawValue),
    Text(&'a str),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_the_one_that_the_documentation_describes() {
        let mut row = AuditRow::new(
            Kind::Intent,
            Timestamp::from_microsecond(5).unwrap(),
            "c",
            "cli",
            "msc",
            "execute",
        );
        row.duration = Some(Duration::from_micros(300));
        let previous = Hash::of(b"previous");

        let mut bytes = b"handfast audit 1".to_vec();
        bytes.extend(previous.as_bytes());
        let mut add = |kind: u8, value: &[u8]| {
            bytes.push(kind);
            bytes.extend((value.len() as u64).to_le_bytes());
            bytes.extend(value);
        };
        add(1, &7_i64.to_le_bytes());
        add(1, &1_i64.to_le_bytes());
        add(2, b"intent");
        add(1, &5_i64.to_le_bytes());
        add(2, b"c");
        add(0, b"");
        for text in [&b"cli"[..], b"msc", b"execute"] {
            add(2, text);
        }
        for _ in 0..5 {
            add(0, b"");
        }
        add(1, &300_i64.to_le_bytes());
        for _ in 0..3 {
            add(0, b"");
        }
        assert_eq!(digest(&previous, row.values(7)), Hash::of(&bytes));
    }

    #[test]
    fn bytes_that_move_from_one_field_to_the_next_change_the_hash() {
        // With only the type between the fields, these two would have the same encoding.
        let row = |door: &str, dialect: &str| {
            AuditRow::new(Kind::Call, Timestamp::UNIX_EPOCH, "c", door, dialect, "file_read")
        };
        let (one, other) = (row("x\u{2}y", "z"), row("x", "y\u{2}z"));
        let hash = |row: &AuditRow| digest(&Hash::GENESIS, row.values(1));
        assert_ne!(hash(&one), hash(&other));
        assert_eq!(hash(&one), hash(&one.clone()));
    }
}
