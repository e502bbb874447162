//! What a change was, so that it can be undone: the rows that it touched as they were and as they are, or the whole database as it was.

use serde::{Deserialize, Serialize};

use crate::{DatabaseError, Value};

/// One change of a database, for whoever keeps it.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// Rows of tables that stayed what they are.
    Rows(Vec<TableRows>),
    /// Anything else: the whole database as it was before, and the digest of its content afterwards.
    Whole {
        /// The file, as SQLite writes it; nothing where the database was empty.
        image: Vec<u8>,
        /// Of all that is in it: schema and rows.
        after: [u8; 32],
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

/// How the two kinds begin, with the number of the format.
const ROWS: &[u8] = b"rows1\n";
const WHOLE: &[u8] = b"file1\n";

/// Rows that a difference shows; what is beyond is counted.
const MOST_SHOWN: usize = 200;

/// Characters of one value that a difference shows.
const LONGEST_SHOWN: usize = 200;

impl Change {
    /// As bytes.
    pub fn encode(&self) -> Result<Vec<u8>, DatabaseError> {
        match self {
            Self::Rows(tables) => {
                let mut bytes = ROWS.to_vec();
                serde_json::to_writer(&mut bytes, tables).map_err(|_| DatabaseError::SavedDamaged)?;
                Ok(bytes)
            }
            Self::Whole { image, after } => Ok([WHOLE, after, image].concat()),
        }
    }

    /// From what [`Change::encode`] made.
    pub fn decode(bytes: &[u8]) -> Result<Self, DatabaseError> {
        if let Some(rows) = bytes.strip_prefix(ROWS) {
            return serde_json::from_slice(rows).map(Self::Rows).map_err(|_| DatabaseError::SavedDamaged);
        }
        let (after, image) = bytes
            .strip_prefix(WHOLE)
            .and_then(|rest| rest.split_first_chunk())
            .ok_or(DatabaseError::SavedDamaged)?;
        Ok(Self::Whole { image: image.to_vec(), after: *after })
    }

    /// The change as lines: what a row was behind `-`, what it is behind `+`; the other way round where it is to be undone.
    pub fn lines(&self, undoing: bool) -> Vec<String> {
        let Self::Rows(tables) = self else {
            return vec!["the schema, or rows of a table whose rows are not told apart, changed".to_owned()];
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
    use super::*;

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
        for change in [Change::Rows(vec![table]), Change::Whole { image: vec![1, 2], after: [7; 32] }] {
            assert_eq!(Change::decode(&change.encode().unwrap()).unwrap(), change);
        }
        for damaged in [&b""[..], b"rows1\n[{", b"file1\nshort", b"other"] {
            assert!(Change::decode(damaged).is_err());
        }
    }
}
