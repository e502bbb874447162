//! Reading the log: one page, one call, or everything as JSON Lines.

use std::io::Write;
use std::sync::Arc;

use jiff::Timestamp;
use rusqlite::{ToSql, params, params_from_iter};
use store_api::{Filter, RecordedRow, StoreError};

use crate::audit::recorded::{read, select};
use crate::database::Database;

/// Condition that a row contains a text.
const CONTAINS: &str =
    "concat_ws(char(10), plan, tool, rule, coalesce(outcome, 'unfinished')) LIKE ? ESCAPE '\\'";

/// Returns the newest rows first.
pub(crate) fn list(database: &Database, filter: &Filter) -> Result<Vec<RecordedRow>, StoreError> {
    let Some(workspace) = &filter.workspace else { return page(database, filter, None) };
    // Two walks through the index, each in the order of the rows, are shorter than one over all rows.
    let named = page(database, filter, Some(("workspace = ?", Some(workspace))))?;
    let unnamed = page(database, filter, Some(("workspace IS ?", None)))?;
    let mut found = [named, unnamed].concat();
    found.sort_by_key(|recorded| std::cmp::Reverse(recorded.sequence));
    found.truncate(usize::try_from(filter.limit).unwrap_or(usize::MAX));
    Ok(found)
}

/// Returns the newest rows that match the filter and a condition on their workspace, with its value.
fn page(
    database: &Database,
    filter: &Filter,
    workspace: Option<(&str, Option<&String>)>,
) -> Result<Vec<RecordedRow>, StoreError> {
    let since = filter.since.map(Timestamp::as_microsecond);
    let until = filter.until.map(Timestamp::as_microsecond);
    let patterns: Vec<String> = filter.containing.iter().map(|text| pattern(text)).collect();
    let mut conditions: Vec<(&str, Option<&dyn ToSql>)> = vec![
        ("session = ?", filter.session.as_ref().map(|value| value as _)),
        ("tool = ?", filter.tool.as_ref().map(|value| value as _)),
        ("time_us >= ?", since.as_ref().map(|value| value as _)),
        // This condition ends the walk at the first row that can match. Clocks can be set back, so
        // times are not in row order, and the time alone bounds nothing. Without the index hint, the
        // engine would search for that row from the start of the log.
        (
            "sequence >= (SELECT min(sequence) FROM audit INDEXED BY audit_by_time WHERE time_us >= ?)",
            since.as_ref().map(|value| value as _),
        ),
        ("sequence < ?", filter.before.as_ref().map(|value| value as _)),
        ("time_us < ?", until.as_ref().map(|value| value as _)),
        // This condition starts the walk at the last row that can match.
        (
            "sequence <= (SELECT max(sequence) FROM audit INDEXED BY audit_by_time WHERE time_us < ?)",
            until.as_ref().map(|value| value as _),
        ),
    ];
    conditions.extend(patterns.iter().map(|pattern| (CONTAINS, Some(pattern as &dyn ToSql))));
    if let Some((condition, value)) = &workspace {
        conditions.push((condition, Some(value as &dyn ToSql)));
    }
    let mut sql = select();
    let mut parameters: Vec<&dyn ToSql> = Vec::new();
    for (condition, value) in conditions {
        if let Some(value) = value {
            sql.push_str(if parameters.is_empty() { " WHERE " } else { " AND " });
            sql.push_str(condition);
            parameters.push(value);
        }
    }
    sql.push_str(" ORDER BY sequence DESC LIMIT ?");
    parameters.push(&filter.limit);
    let mut found = Vec::new();
    each(database, &sql, &parameters, |recorded| {
        found.push(recorded);
        Ok(())
    })?;
    Ok(found)
}

/// Returns the pattern of `LIKE` that matches every text with this one in it.
fn pattern(text: &str) -> String {
    let mut pattern = String::from("%");
    for letter in text.chars() {
        if matches!(letter, '%' | '_' | '\\') {
            pattern.push('\\');
        }
        pattern.push(letter);
    }
    pattern + "%"
}

/// Returns the ids of calls that start or end with `part`, at most `limit`.
pub(crate) fn calls_with_part(
    database: &Database,
    part: &str,
    limit: u32,
) -> Result<Vec<String>, StoreError> {
    let end = format!("{part}{}", char::MAX);
    database.with(|connection| {
        let read = || {
            // The first half searches the index of calls, the second one walks through it.
            let mut statement = connection.prepare(
                "SELECT call FROM audit WHERE call >= ?1 AND call < ?2
                 UNION SELECT call FROM audit WHERE substr(call, -length(?1)) = ?1 LIMIT ?3",
            )?;
            statement
                .query_map(params![part, end, limit], |row| row.get(0))?
                .collect::<Result<Vec<String>, _>>()
        };
        read().map_err(|error| database.error(error))
    })
}

/// Returns the rows of one call, in the order of writing, or an empty list for an unknown call.
pub(crate) fn show(database: &Database, call: &str) -> Result<Vec<RecordedRow>, StoreError> {
    let mut found = Vec::new();
    each(database, &format!("{} WHERE call = ? ORDER BY sequence", select()), &[&call], |recorded| {
        found.push(recorded);
        Ok(())
    })?;
    Ok(found)
}

/// Writes every row, oldest first, one JSON object per line, and returns the number of rows. One row
/// is in memory at a time.
pub(crate) fn export(database: &Database, target: &mut dyn Write) -> Result<u64, StoreError> {
    let failed = |error: std::io::Error| StoreError::Export { source: Arc::new(error) };
    let mut count = 0;
    each(database, &format!("{} ORDER BY sequence", select()), &[], |recorded| {
        serde_json::to_writer(&mut *target, &recorded).map_err(|error| failed(error.into()))?;
        target.write_all(b"\n").map_err(failed)?;
        count += 1;
        Ok(())
    })?;
    target.flush().map_err(failed)?;
    Ok(count)
}

fn each(
    database: &Database,
    sql: &str,
    parameters: &[&dyn ToSql],
    mut visit: impl FnMut(RecordedRow) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    database.with(|connection| {
        let wrap = |error| database.error(error);
        let mut statement = connection.prepare(sql).map_err(wrap)?;
        let mut rows = statement.query(params_from_iter(parameters.iter())).map_err(wrap)?;
        while let Some(row) = rows.next().map_err(wrap)? {
            visit(read(row)?)?;
        }
        Ok(())
    })
}
