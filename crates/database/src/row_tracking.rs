//! Tracking of the rows that a statement touches, with temporary triggers, which end with the connection.
//!
//! SQLite's session extension would do the same, but its bindings need libclang on every build
//! machine. The first note about a row has its old values; its new values are read from the table.

use std::collections::BTreeSet;

use rusqlite::{Connection, OptionalExtension, params};

use crate::change::{TableRows, TouchedRow};
use crate::{DatabaseError, Value};

/// Prefix of the names of all tracking tables and triggers.
pub(crate) const PREFIX: &str = "handfast_note_";

/// Maximum number of notes for one change. Beyond it, the whole database is saved.
const MAX_ROWS: i64 = 50_000;

/// Maximum size of the values of these rows, in bytes.
const MAX_BYTES: usize = 32 * 1024 * 1024;

/// Maximum number of columns of a tracked table. SQLite permits 2,000.
const MAX_COLUMNS: usize = 500;

/// Value of `hidden` in `table_xinfo` for a column of a virtual table that `*` omits. Generated
/// columns have greater values.
const HIDDEN: i64 = 1;

/// A table whose rows can be identified and restored one by one.
pub(crate) struct TrackedTable {
    table: String,
    sql: String,
    columns: Vec<String>,
    notes: String,
}

/// Quotes an identifier for SQL.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Foreign keys with an action (other than NO ACTION and RESTRICT), as pairs of referenced and
/// referencing table.
#[derive(PartialEq, Eq)]
pub(crate) struct ForeignKeyActions(Vec<(String, String)>);

impl ForeignKeyActions {
    /// Reads the foreign keys of the current schema.
    pub(crate) fn of(connection: &Connection) -> rusqlite::Result<Self> {
        let mut statement = connection.prepare(
            "SELECT lower(f.\"table\"), lower(o.name) FROM sqlite_schema o, pragma_foreign_key_list(o.name) f
             WHERE o.type = 'table'
               AND (f.on_delete NOT IN ('NO ACTION', 'RESTRICT') OR f.on_update NOT IN ('NO ACTION', 'RESTRICT'))",
        )?;
        let found = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        found.collect::<rusqlite::Result<_>>().map(Self)
    }

    /// Returns true if an action may change other rows when rows of these tables change.
    pub(crate) fn any(&self, tables: &BTreeSet<&str>) -> bool {
        self.0.iter().any(|(led, _)| tables.iter().any(|table| table.eq_ignore_ascii_case(led)))
    }

    /// Returns these tables and all tables whose rows may change with theirs.
    pub(crate) fn with(&self, tables: &BTreeSet<&str>) -> BTreeSet<String> {
        let mut found: BTreeSet<String> = tables.iter().map(|table| table.to_ascii_lowercase()).collect();
        let mut waiting: Vec<String> = found.iter().cloned().collect();
        while let Some(leader) = waiting.pop() {
            for (_, follower) in self.0.iter().filter(|(led, _)| *led == leader) {
                if found.insert(follower.clone()) {
                    waiting.push(follower.clone());
                }
            }
        }
        found
    }
}

impl TrackedTable {
    /// Reads the current definition of the table. Returns `None` if its rows cannot be restored one
    /// by one: the table is not an ordinary one, or has triggers.
    ///
    /// Generated columns are omitted: their values follow from the others.
    pub(crate) fn of(connection: &Connection, table: &str, number: usize) -> rusqlite::Result<Option<Self>> {
        let found: Option<(String, String, bool)> = connection
            .query_row(
                "SELECT s.name, s.sql, l.type = 'table' AND l.wr = 0
                 FROM sqlite_schema s JOIN pragma_table_list l ON l.schema = 'main' AND l.name = s.name
                 WHERE s.type = 'table' AND s.name = ?1 COLLATE NOCASE AND s.sql IS NOT NULL AND substr(s.name, 1, 7) <> 'sqlite_'
                   AND NOT EXISTS (SELECT 1 FROM sqlite_schema g WHERE g.type = 'trigger' AND g.tbl_name = s.name COLLATE NOCASE)",
                [table],
                |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
            )
            .optional()?;
        let Some((table, sql, true)) = found else { return Ok(None) };
        let mut statement = connection.prepare("SELECT name, hidden FROM pragma_table_xinfo(?)")?;
        let columns: Vec<(String, i64)> =
            statement.query_map([&table], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<Result<_, _>>()?;
        let hides_the_id =
            |name: &str| ["rowid", "_rowid_", "oid"].iter().any(|hidden| hidden.eq_ignore_ascii_case(name));
        if columns.len() > MAX_COLUMNS
            || columns.iter().any(|(name, hidden)| *hidden == HIDDEN || hides_the_id(name))
        {
            return Ok(None);
        }
        let columns = columns.into_iter().filter(|(_, hidden)| *hidden == 0).map(|(name, _)| name).collect();
        Ok(Some(Self { table, sql, columns, notes: format!("{PREFIX}{number}") }))
    }

    /// Returns true if the saved table has the same definition.
    pub(crate) fn is_as_saved(&self, saved: &TableRows) -> bool {
        self.sql == saved.sql && self.columns == saved.columns
    }

    /// Creates the triggers that note changes of rows.
    pub(crate) fn begin(&self, connection: &Connection) -> rusqlite::Result<()> {
        let Self { notes, .. } = self;
        let (table, count) = (quoted(&self.table), self.columns.len());
        let kept: Vec<String> = (0..count).map(|column| format!("o{column}")).collect();
        let kept = kept.join(", ");
        let old: Vec<String> = self.columns.iter().map(|name| format!("OLD.{}", quoted(name))).collect();
        let old = old.join(", ");
        let was = |when: &str, condition: &str| {
            format!(
                "CREATE TEMP TRIGGER {notes}_{when} AFTER {when} ON main.{table} {condition} BEGIN
                   INSERT INTO {notes}(id, existed, {kept}) VALUES (OLD._rowid_, 1, {old}); END;"
            )
        };
        let was_not = |name: &str, when: &str, condition: &str| {
            format!(
                "CREATE TEMP TRIGGER {notes}_{name} AFTER {when} ON main.{table} {condition} BEGIN
                   INSERT INTO {notes}(id, existed) VALUES (NEW._rowid_, 0); END;"
            )
        };
        connection.execute_batch(&format!(
            "CREATE TEMP TABLE {notes}(sequence INTEGER PRIMARY KEY, id INTEGER, existed INTEGER, {kept});
             {} {} {} {}",
            was("DELETE", ""),
            was("UPDATE", ""),
            was_not("insert", "INSERT", ""),
            was_not("moved", "UPDATE", "WHEN NEW._rowid_ <> OLD._rowid_"),
        ))
    }

    /// Returns the touched rows; `None` if they exceed the limits for single rows. Adds their size
    /// in bytes to `bytes`.
    pub(crate) fn end(
        &self,
        connection: &Connection,
        bytes: &mut usize,
    ) -> rusqlite::Result<Option<TableRows>> {
        let Self { notes, .. } = self;
        let many: i64 =
            connection.query_row(&format!("SELECT count(*) FROM {notes}"), [], |row| row.get(0))?;
        if many > MAX_ROWS {
            return Ok(None);
        }
        // SQLite takes the other columns from the note with the least `sequence`, which is the
        // first note about the row.
        let mut first = connection.prepare(&format!("SELECT *, min(sequence) FROM {notes} GROUP BY id"))?;
        let mut now = connection.prepare(&self.select())?;
        let mut rows = Vec::new();
        let mut noted = first.query([])?;
        while let Some(row) = noted.next()? {
            let id: i64 = row.get(1)?;
            let existed: bool = row.get(2)?;
            let before = if existed { Some(values(row, 3, self.columns.len())?) } else { None };
            let after = self.read(&mut now, id)?;
            if is_same(before.as_deref(), after.as_deref()) {
                continue;
            }
            let weigh =
                |values: &Option<Vec<Value>>| values.iter().flatten().map(Value::weight).sum::<usize>();
            *bytes += weigh(&before) + weigh(&after);
            if *bytes > MAX_BYTES {
                return Ok(None);
            }
            rows.push(TouchedRow { id, before, after });
        }
        let (table, sql, columns) = (self.table.clone(), self.sql.clone(), self.columns.clone());
        Ok(Some(TableRows { table, sql, columns, rows }))
    }

    fn select(&self) -> String {
        let columns: Vec<String> = self.columns.iter().map(|name| quoted(name)).collect();
        format!("SELECT {} FROM main.{} WHERE _rowid_ = ?", columns.join(", "), quoted(&self.table))
    }

    fn read(&self, statement: &mut rusqlite::Statement<'_>, id: i64) -> rusqlite::Result<Option<Vec<Value>>> {
        let mut rows = statement.query([id])?;
        rows.next()?.map(|row| values(row, 0, self.columns.len())).transpose()
    }

    /// Returns true if every row is as the change left it.
    pub(crate) fn is_as_left(&self, connection: &Connection, saved: &TableRows) -> rusqlite::Result<bool> {
        let mut now = connection.prepare(&self.select())?;
        for row in &saved.rows {
            if !is_same(self.read(&mut now, row.id)?.as_deref(), row.after.as_deref()) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Restores every row. Without `force`, each row must be as the change left it.
    pub(crate) fn put_back(
        &self,
        connection: &Connection,
        saved: &TableRows,
        force: bool,
    ) -> Result<(), PutBack> {
        let mut now = connection.prepare(&self.select())?;
        let mut there = Vec::with_capacity(saved.rows.len());
        for row in &saved.rows {
            let found = self.read(&mut now, row.id)?;
            if !force && !is_same(found.as_deref(), row.after.as_deref()) {
                return Err(PutBack::Conflict(format!("row {} of {}", row.id, quoted(&self.table))));
            }
            there.push(found.is_some());
        }
        connection.execute_batch("SAVEPOINT one_by_one")?;
        let rows = saved.rows.iter().zip(there);
        let done = self.exchange(connection, rows.clone(), false);
        if matches!(&done, Err(error) if is_constraint(error)) {
            // Rows may have exchanged values of a unique column: delete all rows first.
            connection.execute_batch("ROLLBACK TO one_by_one")?;
            self.exchange(connection, rows, true)?;
        } else {
            done?;
        }
        connection.execute_batch("RELEASE one_by_one")?;
        Ok(())
    }

    fn exchange<'a>(
        &self,
        connection: &Connection,
        rows: impl Iterator<Item = (&'a TouchedRow, bool)> + Clone,
        all_leave: bool,
    ) -> rusqlite::Result<()> {
        let table = quoted(&self.table);
        let names: Vec<String> = self.columns.iter().map(|name| quoted(name)).collect();
        let mut remove = connection.prepare(&format!("DELETE FROM main.{table} WHERE _rowid_ = ?"))?;
        for (row, is_there) in rows.clone() {
            if is_there && (all_leave || row.before.is_none()) {
                remove.execute(params![row.id])?;
            }
        }
        let set: Vec<String> = names.iter().map(|name| format!("{name} = ?")).collect();
        let mut update =
            connection.prepare(&format!("UPDATE main.{table} SET {} WHERE _rowid_ = ?", set.join(", ")))?;
        let marks = vec!["?"; names.len()].join(", ");
        let mut insert = connection.prepare(&format!(
            "INSERT INTO main.{table}({}, _rowid_) VALUES ({marks}, ?)",
            names.join(", ")
        ))?;
        for (row, is_there) in rows {
            let Some(before) = &row.before else { continue };
            let statement = if is_there && !all_leave { &mut update } else { &mut insert };
            for (number, value) in (1..).zip(before) {
                statement.raw_bind_parameter(number, value)?;
            }
            statement.raw_bind_parameter(before.len() + 1, row.id)?;
            statement.raw_execute()?;
        }
        Ok(())
    }
}

/// Reason why rows could not be restored.
pub(crate) enum PutBack {
    /// A row that is not as the change left it.
    Conflict(String),
    /// Error of the engine.
    Engine(rusqlite::Error),
}

impl From<rusqlite::Error> for PutBack {
    fn from(error: rusqlite::Error) -> Self {
        Self::Engine(error)
    }
}

impl PutBack {
    /// Converts to the error for callers. A violated constraint is a conflict with later changes.
    pub(crate) fn outward(self, sort: impl Fn(rusqlite::Error) -> DatabaseError) -> DatabaseError {
        match self {
            Self::Conflict(what) => DatabaseError::Conflict { what },
            Self::Engine(error) if is_constraint(&error) => {
                DatabaseError::Conflict { what: format!("a row to which these rows belong ({error})") }
            }
            Self::Engine(error) => sort(error),
        }
    }
}

pub(crate) fn is_constraint(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(rusqlite::ErrorCode::ConstraintViolation)
}

fn values(row: &rusqlite::Row<'_>, from: usize, count: usize) -> rusqlite::Result<Vec<Value>> {
    (from..from + count).map(|index| row.get_ref(index).map(Value::of)).collect()
}

fn is_same(one: Option<&[Value]>, two: Option<&[Value]>) -> bool {
    match (one, two) {
        (Some(one), Some(two)) => {
            one.len() == two.len() && one.iter().zip(two).all(|(one, two)| one.is_exactly(two))
        }
        (None, None) => true,
        _ => false,
    }
}
