//! Queries: one statement, with its rows page by page.

use rusqlite::Statement;

use crate::action::{Phase, Watch};
use crate::memory::LimitedConnection;
use crate::open::{Reader, StopCheck, whole};
use crate::value::weight_of;
use crate::{Database, DatabaseError, Value};

/// Limits of one page of a result.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Number of rows to skip at the start.
    pub skip: u64,
    /// Maximum number of rows.
    pub rows: usize,
    /// Maximum size of the values in memory, in bytes.
    pub bytes: usize,
}

/// One page of a result.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Page {
    /// Names of the columns, made unique.
    pub columns: Vec<String>,
    /// Rows of the page.
    pub rows: Vec<Vec<Value>>,
    /// True if more rows follow.
    pub has_more: bool,
}

impl Database {
    /// Runs a reading statement and returns one page of its rows.
    pub fn query(
        &self,
        sql: &str,
        parameters: &[Value],
        bounds: Bounds,
        stopped: &StopCheck,
    ) -> Result<Page, DatabaseError> {
        self.with_stoppable_reader(stopped, |reader| self.read(reader, sql, parameters, bounds))
    }

    fn read(
        &self,
        reader: &Reader,
        sql: &str,
        parameters: &[Value],
        bounds: Bounds,
    ) -> Result<Page, DatabaseError> {
        let watch = &reader.watch;
        whole(sql)?;
        watch.enter(Phase::Judged);
        // A cached statement was judged when it was prepared.
        let prepared = reader.connection.prepare_cached(sql);
        let mut statement = prepared.map_err(|error| refused(watch, self.error(error)))?;
        if !statement.readonly() {
            return Err(DatabaseError::Writes);
        }
        if statement.column_count() == 0 {
            return Err(DatabaseError::Empty);
        }
        watch.enter(Phase::Own);
        let limited = LimitedConnection::of(&reader.connection, sql, &reader.counts)
            .map_err(|error| self.error(error))?;
        watch.enter(Phase::Run);
        let page = self.page(&mut statement, parameters, bounds).map_err(|error| refused(watch, error));
        limited.end().map_err(|error| self.error(error))?;
        page
    }

    /// Runs a prepared statement and returns one page of its rows.
    pub(crate) fn page(
        &self,
        statement: &mut Statement<'_>,
        parameters: &[Value],
        bounds: Bounds,
    ) -> Result<Page, DatabaseError> {
        let failed = |error| self.error(error);
        bind(statement, parameters, failed)?;
        let mut page = Page::default();
        let mut weight = 0;
        let mut skipped = 0;
        let mut rows = statement.raw_query();
        while let Some(row) = rows.next().map_err(failed)? {
            // Read the names after the first step: SQLite re-prepares a statement there if the
            // schema has changed.
            if page.columns.is_empty() {
                page.columns = told_apart(row.as_ref().column_names());
            }
            if skipped < bounds.skip {
                skipped += 1;
                continue;
            }
            if page.rows.len() == bounds.rows {
                page.has_more = true;
                break;
            }
            let mut values = Vec::new();
            for index in 0..page.columns.len() {
                let value = row.get_ref(index).map_err(failed)?;
                weight += weight_of(value);
                if weight > bounds.bytes {
                    break;
                }
                values.push(Value::of(value));
            }
            if weight > bounds.bytes {
                if page.rows.is_empty() {
                    return Err(DatabaseError::TooLarge(format!(
                        "one row has more than {} bytes",
                        bounds.bytes
                    )));
                }
                page.has_more = true;
                break;
            }
            page.rows.push(values);
        }
        drop(rows);
        if page.columns.is_empty() {
            page.columns = told_apart(statement.column_names());
        }
        Ok(page)
    }
}

/// Replaces the error of a running statement by the authorizer's refusal, if there was one.
pub(crate) fn refused(watch: &Watch, error: DatabaseError) -> DatabaseError {
    match (watch.take().1, error) {
        (Some(what), DatabaseError::Denied(_) | DatabaseError::Syntax(_)) => DatabaseError::Denied(what),
        (_, error) => error,
    }
}

/// Binds all parameters in order.
pub(crate) fn bind(
    statement: &mut Statement<'_>,
    parameters: &[Value],
    failed: impl Fn(rusqlite::Error) -> DatabaseError,
) -> Result<(), DatabaseError> {
    let wanted = statement.parameter_count();
    if wanted != parameters.len() {
        return Err(DatabaseError::Parameters { wanted, given: parameters.len() });
    }
    for (number, value) in (1..).zip(parameters) {
        statement.raw_bind_parameter(number, value).map_err(&failed)?;
    }
    Ok(())
}

/// Appends numbers to repeated column names: a row is shown as an object, which has each name once.
fn told_apart<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut told: Vec<String> = Vec::new();
    for name in names {
        let mut unique = name.to_owned();
        let mut number = 2;
        while told.contains(&unique) {
            unique = format!("{name}_{number}");
            number += 1;
        }
        told.push(unique);
    }
    told
}
