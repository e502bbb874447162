//! Properties in columns: for each key, a set of rows and their values in order.

use std::sync::Arc;

use crate::graph::KeyId;
use crate::value::Value;

/// A value of a column under construction.
#[derive(Debug, Clone)]
pub(super) enum Cell {
    /// A text, by its number in the table of the graph.
    Text(u32),
    /// Another value.
    Other(Value),
}

/// The columns of all nodes, or of all relationships, by the number of the key.
#[derive(Debug, Default)]
pub(super) struct Columns(pub(super) Vec<Column>);

/// The values of one key.
#[derive(Debug, Default)]
pub(super) struct Column {
    pub(super) rows: Rows,
    pub(super) values: Values,
}

/// Values in the order of their rows.
#[derive(Debug)]
pub(super) enum Values {
    Booleans(Vec<bool>),
    /// Integers that fit 32 bits, as lines and columns of files do.
    SmallIntegers(Vec<i32>),
    /// Texts by their numbers in the table of the graph.
    Texts(Vec<u32>),
    Mixed(Vec<Value>),
}

impl Default for Values {
    fn default() -> Self {
        Self::Mixed(Vec::new())
    }
}

/// A set of rows as bits, with the number of members before each word.
#[derive(Debug, Default)]
pub(super) struct Rows {
    bits: Vec<u64>,
    before: Vec<u32>,
    count: u32,
}

impl Columns {
    /// Creates the columns from cells of row and value, one list for each key.
    pub(super) fn new(cells: Vec<Vec<(u32, Cell)>>, texts: &[Arc<str>]) -> Self {
        Self(cells.into_iter().map(|cells| Column::new(cells, texts)).collect())
    }

    /// Returns the value of a row, or null. `texts` is the table of the graph.
    pub(super) fn value(&self, key: KeyId, row: u32, texts: &[Arc<str>]) -> Value {
        let Some(column) = self.0.get(usize::from(key.0)) else { return Value::Null };
        column.rows.index(row).map_or(Value::Null, |at| column.values.value(at, texts))
    }

    /// Returns the keys that have a value in a row.
    pub(super) fn keys(&self, row: u32) -> Vec<KeyId> {
        let has_value = self.0.iter().enumerate().filter(|(_, column)| column.rows.index(row).is_some());
        has_value.filter_map(|(key, _)| u16::try_from(key).ok().map(KeyId)).collect()
    }

    /// Returns the rows and values of a key.
    pub(super) fn entries<'a>(
        &'a self,
        key: KeyId,
        texts: &'a [Arc<str>],
    ) -> impl Iterator<Item = (u32, Value)> + 'a {
        let column = self.0.get(usize::from(key.0)).into_iter();
        column.flat_map(|column| {
            column.rows.iter().enumerate().map(|(at, row)| (row, column.values.value(at, texts)))
        })
    }
}

impl Column {
    fn new(mut cells: Vec<(u32, Cell)>, texts: &[Arc<str>]) -> Self {
        cells.sort_by_key(|(row, _)| *row);
        let rows = Rows::new(cells.iter().map(|(row, _)| *row));
        let values = Values::new(cells.into_iter().map(|(_, value)| value).collect(), texts);
        Self { rows, values }
    }
}

impl Values {
    fn new(values: Vec<Cell>, texts: &[Arc<str>]) -> Self {
        let small = |value: &Cell| match value {
            Cell::Other(Value::Integer(value)) => i32::try_from(*value).ok(),
            _ => None,
        };
        let text = |value: &Cell| match value {
            Cell::Text(number) => Some(*number),
            Cell::Other(_) => None,
        };
        let truth = |value: &Cell| match value {
            Cell::Other(Value::Boolean(value)) => Some(*value),
            _ => None,
        };
        if let Some(values) = collected(&values, small) {
            Self::SmallIntegers(values)
        } else if let Some(values) = collected(&values, text) {
            Self::Texts(values)
        } else if let Some(values) = collected(&values, truth) {
            Self::Booleans(values)
        } else {
            let value = |cell: Cell| match cell {
                Cell::Text(number) => text_of(number, texts),
                Cell::Other(value) => value,
            };
            Self::Mixed(values.into_iter().map(value).collect())
        }
    }

    fn value(&self, at: usize, texts: &[Arc<str>]) -> Value {
        let value = match self {
            Self::Booleans(values) => values.get(at).copied().map(Value::Boolean),
            Self::SmallIntegers(values) => values.get(at).map(|value| Value::Integer(i64::from(*value))),
            Self::Texts(values) => values.get(at).map(|number| text_of(*number, texts)),
            Self::Mixed(values) => values.get(at).cloned(),
        };
        value.unwrap_or_default()
    }

    /// Returns the number of values.
    pub(super) fn count(&self) -> usize {
        match self {
            Self::Booleans(values) => values.len(),
            Self::SmallIntegers(values) => values.len(),
            Self::Texts(values) => values.len(),
            Self::Mixed(values) => values.len(),
        }
    }
}

/// Returns a text of the table of the graph.
fn text_of(number: u32, texts: &[Arc<str>]) -> Value {
    texts.get(number as usize).map_or(Value::Null, |text| Value::String(text.clone()))
}

/// Converts all values into exactly the memory that they need, or returns `None` if one is of another kind.
fn collected<T>(values: &[Cell], convert: impl Fn(&Cell) -> Option<T>) -> Option<Vec<T>> {
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
        Self::of_bits(bits)
    }

    /// Creates the set from its bits.
    pub(super) fn of_bits(bits: Vec<u64>) -> Self {
        let mut count = 0;
        let count_before = |word: &u64| {
            let before = count;
            count += word.count_ones();
            before
        };
        let before = bits.iter().map(count_before).collect();
        Self { bits, before, count }
    }

    /// Returns the bits.
    pub(super) fn bits(&self) -> &[u64] {
        &self.bits
    }

    /// Returns the number of members.
    pub(super) fn count(&self) -> usize {
        self.count as usize
    }

    /// Returns the members in ascending order.
    fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        (0_u32..).step_by(64).zip(&self.bits).flat_map(|(first, word)| {
            (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| first + bit)
        })
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

    fn columns(cells: Vec<Vec<(u32, Value)>>) -> Columns {
        let cell = |(row, value)| (row, Cell::Other(value));
        Columns::new(cells.into_iter().map(|cells| cells.into_iter().map(cell).collect()).collect(), &[])
    }

    #[test]
    fn a_column_returns_its_values_and_null_elsewhere() {
        let cells = vec![(200, Value::from(7)), (3, Value::from(-1)), (64, Value::from(2))];
        let columns = columns(vec![Vec::new(), cells]);
        let value = |row| columns.value(KeyId(1), row, &[]).to_string();
        assert_eq!(
            [value(3), value(64), value(200), value(4), value(9999)],
            ["-1", "2", "7", "null", "null"]
        );
        assert_eq!(columns.keys(64), [KeyId(1)]);
        assert!(columns.value(KeyId(9), 3, &[]).is_null());
        let rows: Vec<u32> = columns.entries(KeyId(1), &[]).map(|(row, _)| row).collect();
        assert_eq!(rows, [3, 64, 200]);
    }

    #[test]
    fn large_integers_and_mixed_values_keep_their_types() {
        let texts = ["x".into()];
        let cells = vec![
            (0, Cell::Other(Value::from(i64::MAX))),
            (1, Cell::Other(Value::from(1.5))),
            (2, Cell::Text(0)),
        ];
        let columns = Columns::new(vec![cells], &texts);
        let values: Vec<String> =
            (0..3).map(|row| columns.value(KeyId(0), row, &texts).to_string()).collect();
        assert_eq!(values, ["9223372036854775807", "1.5", "'x'"]);
    }
}
