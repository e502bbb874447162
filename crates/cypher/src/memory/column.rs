//! Properties in columns: for each key, a set of rows and their values in order.

use std::sync::Arc;

use crate::graph::KeyId;
use crate::value::Value;

/// The columns of all nodes, or of all relationships, by the number of the key.
#[derive(Debug, Default)]
pub(super) struct Columns(Vec<Column>);

/// The values of one key.
#[derive(Debug, Default)]
struct Column {
    rows: Rows,
    values: Values,
}

/// Values in the order of their rows.
#[derive(Debug)]
enum Values {
    Booleans(Vec<bool>),
    /// Integers that fit 32 bits, as lines and columns of files do.
    SmallIntegers(Vec<i32>),
    Strings(Vec<Arc<str>>),
    Mixed(Vec<Value>),
}

impl Default for Values {
    fn default() -> Self {
        Self::Mixed(Vec::new())
    }
}

/// A set of rows as bits, with the number of members before each word.
#[derive(Debug, Default)]
struct Rows {
    bits: Vec<u64>,
    before: Vec<u32>,
}

impl Columns {
    /// Creates the columns from cells of row and value, one list for each key.
    pub(super) fn new(cells: Vec<Vec<(u32, Value)>>) -> Self {
        Self(cells.into_iter().map(Column::new).collect())
    }

    /// Returns the value of a row, or null.
    pub(super) fn value(&self, key: KeyId, row: u32) -> Value {
        let Some(column) = self.0.get(usize::from(key.0)) else { return Value::Null };
        column.rows.index(row).map_or(Value::Null, |at| column.values.value(at))
    }

    /// Returns the keys that have a value in a row.
    pub(super) fn keys(&self, row: u32) -> Vec<KeyId> {
        let has_value = self.0.iter().enumerate().filter(|(_, column)| column.rows.index(row).is_some());
        has_value.filter_map(|(key, _)| u16::try_from(key).ok().map(KeyId)).collect()
    }
}

impl Column {
    fn new(mut cells: Vec<(u32, Value)>) -> Self {
        cells.sort_by_key(|(row, _)| *row);
        let rows = Rows::new(cells.iter().map(|(row, _)| *row));
        let values = Values::new(cells.into_iter().map(|(_, value)| value).collect());
        Self { rows, values }
    }
}

impl Values {
    fn new(values: Vec<Value>) -> Self {
        let small = |value: &Value| match value {
            Value::Integer(value) => i32::try_from(*value).ok(),
            _ => None,
        };
        let text = |value: &Value| match value {
            Value::String(text) => Some(text.clone()),
            _ => None,
        };
        let truth = |value: &Value| match value {
            Value::Boolean(value) => Some(*value),
            _ => None,
        };
        if let Some(values) = collected(&values, small) {
            Self::SmallIntegers(values)
        } else if let Some(values) = collected(&values, text) {
            Self::Strings(values)
        } else if let Some(values) = collected(&values, truth) {
            Self::Booleans(values)
        } else {
            Self::Mixed(values)
        }
    }

    fn value(&self, at: usize) -> Value {
        let value = match self {
            Self::Booleans(values) => values.get(at).copied().map(Value::Boolean),
            Self::SmallIntegers(values) => values.get(at).map(|value| Value::Integer(i64::from(*value))),
            Self::Strings(values) => values.get(at).cloned().map(Value::String),
            Self::Mixed(values) => values.get(at).cloned(),
        };
        value.unwrap_or_default()
    }
}

/// Converts all values into exactly the memory that they need, or returns `None` if one is of another kind.
fn collected<T>(values: &[Value], convert: impl Fn(&Value) -> Option<T>) -> Option<Vec<T>> {
    let mut converted =
        Vec::with_capacity(if values.first().and_then(&convert).is_some() { values.len() } else { 0 });
    for value in values {
        converted.push(convert(value)?);
    }
    Some(converted)
}

impl Rows {
    /// Creates the set from ascending rows.
    fn new(rows: impl Iterator<Item = u32>) -> Self {
        let mut bits: Vec<u64> = Vec::new();
        for row in rows {
            let word = row as usize / 64;
            if bits.len() <= word {
                bits.resize(word + 1, 0);
            }
            if let Some(word) = bits.get_mut(word) {
                *word |= 1 << (row % 64);
            }
        }
        bits.shrink_to_fit();
        let mut sum = 0;
        let count_before = |word: &u64| {
            let before = sum;
            sum += word.count_ones();
            before
        };
        let before = bits.iter().map(count_before).collect();
        Self { bits, before }
    }

    /// Returns the index of a row among the members, or `None` for a row outside.
    fn index(&self, row: u32) -> Option<usize> {
        let at = row as usize / 64;
        let (word, before) = (self.bits.get(at)?, self.before.get(at)?);
        let bit = 1_u64 << (row % 64);
        (word & bit != 0).then(|| (before + (word & (bit - 1)).count_ones()) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_returns_its_values_and_null_elsewhere() {
        let cells = vec![(200, Value::from(7)), (3, Value::from(-1)), (64, Value::from(2))];
        let columns = Columns::new(vec![Vec::new(), cells]);
        let value = |row| columns.value(KeyId(1), row).to_string();
        assert_eq!(
            [value(3), value(64), value(200), value(4), value(9999)],
            ["-1", "2", "7", "null", "null"]
        );
        assert_eq!(columns.keys(64), [KeyId(1)]);
        assert!(columns.value(KeyId(9), 3).is_null());
    }

    #[test]
    fn large_integers_and_mixed_values_keep_their_types() {
        let cells = vec![(0, Value::from(i64::MAX)), (1, Value::from(1.5)), (2, Value::from("x"))];
        let columns = Columns::new(vec![cells]);
        let values: Vec<String> = (0..3).map(|row| columns.value(KeyId(0), row).to_string()).collect();
        assert_eq!(values, ["9223372036854775807", "1.5", "'x'"]);
    }
}
