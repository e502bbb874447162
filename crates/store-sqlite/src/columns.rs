//! Values of columns that several tables have.

use std::str::FromStr;

use jiff::Timestamp;
use rusqlite::Row;
use rusqlite::types::Type;

use crate::approvals::time;

/// Reads a time that may be missing.
pub(crate) fn optional_time(row: &Row<'_>, index: usize) -> rusqlite::Result<Option<Timestamp>> {
    row.get::<_, Option<i64>>(index)?.map(|at| time(index, at)).transpose()
}

/// Reads a word of a fixed list.
pub(crate) fn word<T: FromStr>(row: &Row<'_>, index: usize, name: &str) -> rusqlite::Result<T> {
    let text: String = row.get(index)?;
    text.parse().map_err(|_| rusqlite::Error::InvalidColumnType(index, name.to_owned(), Type::Text))
}

/// Returns an amount or a number as the engine stores it, which is at most its greatest integer.
pub(crate) fn stored(amount: u64) -> i64 {
    i64::try_from(amount).unwrap_or(i64::MAX)
}

/// Reads an amount or a number that was stored with [`stored`].
pub(crate) fn amount(row: &Row<'_>, index: usize) -> rusqlite::Result<u64> {
    let found: i64 = row.get(index)?;
    u64::try_from(found)
        .map_err(|_| rusqlite::Error::InvalidColumnType(index, "amount".to_owned(), Type::Integer))
}
