//! What a change was, so that it can be undone: the rows that it touched as they were and as they are, or the whole database as it was.

use serde::{Deserialize, Serialize};

use crate::image::{Image, Piece, PieceHash, ReadPieces};
use crate::{DatabaseError, Value};

/// One change of a database, for whoever keeps it.
#[derive(Clone)]
pub enum Change {
    /// Rows of tables that stayed what they are.
    Rows(Vec<TableRows>),
    /// Anything else: the whole database as it was before, and the digest of its content afterwards.
    Whole {
        /// What it held.
        image: Image,
        /// Of all that is in it: schema and rows.
        after: [u8; 32],
        /// The statements of the schema that are gone behind `-`, and those that came behind `+`.
        schema: Vec<String>,
    },
}

/// The rows of one table that a change touched.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TableRows {
    pub(crate) table: String,
    /// The statement that made the table.
    pub(crate) sql: String,
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<TouchedRow>,
}

/// One row by its `rowid`, before and afterwards; nothing where there was or is none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct TouchedRow {
    pub(crate) id: i64,
    pub(crate) before: Option<Vec<Value>>,
    pub(crate) after: Option<Vec<Value>>,
}

/// How the kinds begin, with the number of the format.
const ROWS: &[u8] = b"rows1\n";
const WHOLE: &[u8] = b"file2\n";
/// With the file itself behind the digest, up to version 0.1 of the state's format 7.
const WHOLE_1: &[u8] = b"file1\n";

/// What is kept of a whole database beside its pieces.
#[derive(Serialize, Deserialize)]
struct Kept {
    before: [u8; 32],
    after: [u8; 32],
    schema: Vec<String>,
}

/// Rows that a difference shows; what is beyond is counted.
const MOST_SHOWN: usize = 200;

/// Characters of one value that a difference shows.
const LONGEST_SHOWN: usize = 200;

impl Change {
    /// What is kept beside the change itself, piece by piece: of whole databases only.
    pub fn pieces(&self) -> Result<Vec<Piece>, DatabaseError> {
        match self {
            Self::Rows(_) => Ok(Vec::new()),
            Self::Whole { image, .. } => image.pieces(),
        }
    }

    /// As bytes, without its pieces, whose hashes these are in their order.
    pub fn encode(&self, pieces: &[PieceHash]) -> Result<Vec<u8>, DatabaseError> {
        let written = |mut bytes: Vec<u8>, written: serde_json::Result<Vec<u8>>| {
            bytes.extend(written.map_err(|_| DatabaseError::SavedDamaged)?);
            Ok(bytes)
        };
        match self {
            Self::Rows(tables) => written(ROWS.to_vec(), serde_json::to_vec(tables)),
            Self::Whole { image, after, schema } => {
                let before = image.digest().ok_or(DatabaseError::SavedDamaged)?;
                let kept = Kept { before, after: *after, schema: schema.clone() };
                let count = (pieces.len() as u64).to_le_bytes();
                written([WHOLE, &count, pieces.as_flattened()].concat(), serde_json::to_vec(&kept))
            }
        }
    }

    /// From what [`Change::encode`] made; its pieces are `read` once they are needed.
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
        let Kept { before, after, schema } = serde_json::from_slice(rest).map_err(|_| damaged())?;
        let image = Image::kept(pieces.as_chunks().0.into(), before, read.clone());
        Ok(Self::Whole { image, after, schema })
    }

    /// The change as lines: what a row was behind `-`, what it is behind `+`; the other way round where it is to be undone.
    pub fn lines(&self, undoing: bool) -> Vec<String> {
        let tables = match self {
            Self::Rows(tables) => tables,
            Self::Whole { schema, .. } if schema.is_empty() => {
                return vec![
                    "rows of a table whose rows are not told apart, or very many, changed".to_owned(),
                ];
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
            if lines.len() >= MOST_SHOWN {
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

    /// How many rows it touched; of a whole database, one.
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
