//! Columns of an audit row, and the encoding that is the input of its hash.
//!
//! The hash of a row is BLAKE3 over: the 16 bytes `handfast audit 1`, the 32 bytes of the hash of the row
//! before ([`Hash::GENESIS`] for the first), then every column of [`COLUMNS`] in order, each as one byte of
//! type (0 null, 1 integer, 2 text, 3 blob), its length as 8 bytes little-endian, and its bytes (an integer
//! as 8 bytes little-endian). Because every value carries its length, no two rows share an encoding.

use rusqlite::types::ValueRef;
use store_api::{AuditRow, Hash};

/// Computes the hash of a row, from the previous hash and the row's values in the order of
/// [`COLUMNS`].
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
            // No column is a floating point number, so this program did not write the row: its
            // encoding differs from that of every written row.
            ValueRef::Real(_) => (4, &[][..]),
        };
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        hasher.update(&[kind]).update(&length.to_le_bytes()).update(bytes);
    }
    hasher.finalize().into()
}

/// Returns the values of [`COLUMNS`] for a row.
pub(crate) fn values(row: &AuditRow, sequence: i64) -> [ValueRef<'_>; COLUMNS.len()] {
    let duration = row.duration.map(|duration| i64::try_from(duration.as_micros()).unwrap_or(i64::MAX));
    [
        ValueRef::Integer(sequence),
        ValueRef::Integer(FORMAT),
        row.kind.as_str().into(),
        ValueRef::Integer(row.time.as_microsecond()),
        row.call.as_str().into(),
        row.session.as_deref().into(),
        row.door.as_str().into(),
        row.dialect.as_str().into(),
        row.tool.as_str().into(),
        row.plan.as_deref().into(),
        row.decision.as_deref().into(),
        row.rule.as_deref().into(),
        row.approved_by.as_deref().into(),
        row.sandbox.as_deref().into(),
        duration.map_or(ValueRef::Null, ValueRef::Integer),
        row.outcome.as_deref().into(),
        row.effect.as_deref().into(),
        row.output_ref.as_deref().into(),
    ]
}

/// Hashed columns, in the order of the encoding.
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

/// First bytes of the encoding; they change with it.
const DOMAIN: &[u8; 16] = b"handfast audit 1";

/// Value of the `format` column: the encoding that a row was hashed with.
const FORMAT: i64 = 1;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::Timestamp;
    use store_api::Kind;

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
        assert_eq!(digest(&previous, values(&row, 7)), Hash::of(&bytes));
    }

    #[test]
    fn bytes_that_move_from_one_field_to_the_next_change_the_hash() {
        // If the encoding had only the type between the fields, these two rows would be equal.
        let row = |door: &str, dialect: &str| {
            AuditRow::new(Kind::Call, Timestamp::UNIX_EPOCH, "c", door, dialect, "file_read")
        };
        let (one, other) = (row("x\u{2}y", "z"), row("x", "y\u{2}z"));
        let hash = |row: &AuditRow| digest(&Hash::GENESIS, values(row, 1));
        assert_ne!(hash(&one), hash(&other));
        assert_eq!(hash(&one), hash(&one.clone()));
    }
}
