//! A record of a change, sufficient to undo it: the touched rows before and after, or the whole
//! database before.

use serde::{Deserialize, Serialize};

use crate::snapshot::{Image, Piece, PieceHash, ReadPieces};
use crate::{DatabaseError, Value};

/// One change of a database, for storage by a [`Keep`](crate::Keep).
#[derive(Clone)]
pub enum Change {
    /// Changed rows, in tables whose definition did not change.
    Rows(Vec<TableRows>),
    /// Any other change: the whole database before, and the digest of its content afterwards.
    Whole {
        /// Content before the change.
        image: Image,
        /// Digest of the schema and all rows after the change.
        after: [u8; 32],
        /// Removed statements of the schema with the prefix `-`, added ones with `+`.
        schema: Vec<String>,
    },
}

/// The touched rows of one table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TableRows {
    pub(crate) table: String,
    /// The `CREATE TABLE` statement.
    pub(crate) sql: String,
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<TouchedRow>,
}

/// One row by its `rowid`, before and after the change; `None` if the row did not exist.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct TouchedRow {
    pub(crate) id: i64,
    pub(crate) before: Option<Vec<Value>>,
    pub(crate) after: Option<Vec<Value>>,
}

/// Prefixes of the encoded kinds, with their format version.
const ROWS: &[u8] = b"rows1\n";
const WHOLE: &[u8] = b"file2\n";
/// Prefix of the older format, up to version 0.1 of the state's format 7: the digest, followed by
/// the file itself.
const WHOLE_1: &[u8] = b"file1\n";

/// Data stored for a whole database, besides its pieces.
#[derive(Serialize, Deserialize)]
struct StoredImage {
    before: [u8; 32],
    after: [u8; 32],
    schema: Vec<String>,
}

/// Maximum number of lines that a difference shows before it counts the remaining rows.
const MAX_SHOWN: usize = 200;

/// Maximum number of characters per value that a difference shows.
const LONGEST_SHOWN: usize = 200;

impl Change {
    /// Returns the pieces that are stored next to the change. Only a whole database has pieces.
    pub fn pieces(&self) -> Result<Vec<Piece>, DatabaseError> {
        match self {
            Self::Rows(_) => Ok(Vec::new()),
            Self::Whole { image, .. } => image.pieces(),
        }
    }

    /// Encodes the change without its pieces. `pieces` holds the hashes of the pieces, in order.
    pub fn encode(&self, pieces: &[PieceHash]) -> Result<Vec<u8>, DatabaseError> {
        let written = |mut bytes: Vec<u8>, written: serde_json::Result<Vec<u8>>| {
            bytes.extend(written.map_err(|_| DatabaseError::SavedDamaged)?);
            Ok(bytes)
        };
        match self {
            Self::Rows(tables) => written(ROWS.to_vec(), serde_json::to_vec(tables)),
            Self::Whole { image, after, schema } => {
                let before = image.digest().ok_or(DatabaseError::SavedDamaged)?;
                let kept = StoredImage { before, after: *after, schema: schema.clone() };
                let count = (pieces.len() as u64).to_le_bytes();
                written([WHOLE, &count, pieces.as_flattened()].concat(), serde_json::to_vec(&kept))
            }
        }
    }

    /// Decodes the output of [`Change::encode`]. Pieces are read with `read` when they are needed.
    pub fn decode(bytes: &[u8], read: &ReadPieces) -> Result<Self, DatabaseError> {
        let damaged = || DatabaseError::SavedDamaged;
        if let Some(rows) = bytes.strip_prefix(ROWS) {
            return serde_json::from_slice(rows).map(Self::Rows).map_err(|_| damaged());
        }
        if let Some(rest) = bytes.strip_prefix(WHOLE_1) {
            let (after, image) = rest.split_first_chunk().ok_or_else(damaged)?;
            return Ok(Self::Whole { image: Image::of_bytes(image), after: *after, schema: Vec::new() });
        }
        let rest = bytes.strip_prefix(WHOLE).ok_or_else(damaged)?;
        let (count, rest) = rest.split_first_chunk().ok_or_else(damaged)?;
        let length = usize::try_from(u64::from_le_bytes(*count)).ok().and_then(|count| count.checked_mul(32));
        let (pieces, rest) = length.and_then(|length| rest.split_at_checked(length)).ok_or_else(damaged)?;
        let StoredImage { before, after, schema } = serde_json::from_slice(rest).map_err(|_| damaged())?;
        let image = Image::kept(pieces.as_chunks().0.into(), before, read.clone());
        Ok(Self::Whole { image, after, schema })
    }

    /// Returns the change as lines: old rows with the prefix `-`, new rows with `+`. With
    /// `undoing`, old and new are swapped.
    pub fn lines(&self, undoing: bool) -> Vec<String> {
        let tables = match self {
            Self::Rows(tables) => tables,
            Self::Whole { schema, .. } if schema.is_empty() => {
                return vec!["changed rows, which are too many or cannot be told apart".to_owned()];
            }
            Self::Whole { schema, .. } if undoing => {
                let turned = |line: &String| match line.strip_prefix('-') {
                    Some(line) => format!("+{line}"),
                    None => line.replacen('+', "-", 1),
                };
                let mut lines: Vec<String> = schema.iter().map(turned).collect();
                lines.sort_by_key(|line| line.starts_with('+'));
                return lines;
            }
            Self::Whole { schema, .. } => return schema.clone(),
        };
        let all = tables.iter().flat_map(|table| table.rows.iter().map(move |row| (table, row)));
        let mut lines: Vec<String> = Vec::new();
        let mut beyond = 0;
        for (table, row) in all {
            if lines.len() >= MAX_SHOWN {
                beyond += 1;
                continue;
            }
            let (old, new) = if undoing { (&row.after, &row.before) } else { (&row.before, &row.after) };
            for (sign, values) in [('-', old), ('+', new)] {
                let Some(values) = values else { continue };
                let shown: Vec<String> = values.iter().map(shown).collect();
                lines.push(format!("{sign}{}({})", table.table, shown.join(", ")));
            }
        }
        if beyond > 0 {
            lines.push(format!("and {beyond} more rows"));
        }
        lines
    }

    /// Returns the number of touched rows; 1 for a whole database.
    pub fn rows(&self) -> u64 {
        match self {
            Self::Rows(tables) => tables.iter().map(|table| table.rows.len() as u64).sum(),
            Self::Whole { .. } => 1,
        }
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "NULL".to_owned(),
        Value::Integer(number) => number.to_string(),
        Value::Real(number) => number.to_string(),
        Value::Text(text) => {
            let cut: String = text.chars().take(LONGEST_SHOWN).collect();
            let more = if cut.len() < text.len() { "…" } else { "" };
            format!("{}{more}", serde_json::Value::from(cut))
        }
        Value::OddText(bytes) | Value::Blob(bytes) => format!("{} bytes", bytes.len()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn none() -> ReadPieces {
        Arc::new(|_, _| Err("nothing is kept".into()))
    }

    #[test]
    fn a_change_comes_back_to_the_last_bit() {
        let values = vec![
            Value::Null,
            Value::Integer(i64::MIN),
            Value::Real(f64::INFINITY),
            Value::Real(-0.0),
            Value::Text("ä\0\n".to_owned()),
            Value::OddText(vec![0xff]),
            Value::Blob(vec![0, 255]),
        ];
        let row = TouchedRow { id: -1, before: None, after: Some(values) };
        let table =
            TableRows { table: "t".into(), sql: "s".into(), columns: vec!["a".into()], rows: vec![row] };
        let made = table.clone();
        let change = Change::Rows(vec![table]);
        let Ok(Change::Rows(tables)) = Change::decode(&change.encode(&[]).unwrap(), &none()) else {
            panic!("rows come back as rows");
        };
        assert_eq!(tables, [made]);
        for damaged in [
            &b""[..],
            b"rows1\n[{",
            b"file1\nshort",
            b"file2\nshort",
            b"file2\n\xff\xff\xff\xff\xff\xff\xff\xff",
            b"file2\n\0\0\0\0\0\0\0\0{}",
            b"other",
        ] {
            assert!(Change::decode(damaged, &none()).is_err());
        }
    }
}
