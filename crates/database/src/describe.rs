//! Description of a database: tables with their columns, indexes and foreign keys.

use rusqlite::{Connection, Row};

use crate::{Database, DatabaseError};

/// A table or a view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableDescription {
    /// Name of the table or view.
    pub name: String,
    /// Kind: `table`, `view` or `virtual`.
    pub kind: String,
    /// Columns in order of declaration.
    pub columns: Vec<Column>,
    /// Indexes, without the automatic ones of primary keys.
    pub indexes: Vec<Index>,
    /// Foreign keys of the table.
    pub foreign_keys: Vec<ForeignKey>,
    /// Names of the triggers.
    pub triggers: Vec<String>,
}

/// A column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Name of the column.
    pub name: String,
    /// Declared type; empty if none was declared.
    pub kind: String,
    /// True if the column is declared NOT NULL.
    pub not_null: bool,
    /// Default value, as an SQL expression.
    pub default: Option<String>,
    /// Position in the primary key, from 1; 0 if the column is not part of it.
    pub primary_key: u32,
}

/// An index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Index {
    /// Name of the index.
    pub name: String,
    /// True for a UNIQUE index.
    pub unique: bool,
    /// Indexed columns in order; `None` for an expression.
    pub columns: Vec<Option<String>>,
}

/// A foreign key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignKey {
    /// Referencing column.
    pub column: String,
    /// Referenced table.
    pub table: String,
    /// Referenced column; `None` for the primary key.
    pub to: Option<String>,
}

impl Database {
    /// Returns the tables and views in order of their names. With `only`, returns just the one with
    /// this name (if it exists).
    pub fn describe(&self, only: Option<&str>) -> Result<Vec<TableDescription>, DatabaseError> {
        self.with_reader(|reader| described(&reader.connection, only).map_err(|error| self.error(error)))
    }
}

fn described(connection: &Connection, only: Option<&str>) -> rusqlite::Result<Vec<TableDescription>> {
    let mut tables = connection.prepare(
        "SELECT name, type FROM pragma_table_list
         WHERE schema = 'main' AND type <> 'shadow' AND substr(name, 1, 7) <> 'sqlite_'
           AND (?1 IS NULL OR name = ?1 COLLATE NOCASE)
         ORDER BY name",
    )?;
    let named: Vec<(String, String)> =
        collected(tables.query([only])?, |row| Ok((row.get(0)?, row.get(1)?)))?;
    named.into_iter().map(|(name, kind)| one(connection, name, kind)).collect()
}

fn one(connection: &Connection, name: String, kind: String) -> rusqlite::Result<TableDescription> {
    let mut columns = connection.prepare_cached(
        "SELECT name, type, \"notnull\", dflt_value, pk FROM pragma_table_xinfo(?) WHERE hidden <> 1",
    )?;
    let columns = collected(columns.query([&name])?, |row| {
        Ok(Column {
            name: row.get(0)?,
            kind: row.get(1)?,
            not_null: row.get(2)?,
            default: row.get(3)?,
            primary_key: row.get(4)?,
        })
    })?;
    let mut indexes = connection.prepare_cached(
        "SELECT name, \"unique\" FROM pragma_index_list(?) WHERE origin <> 'pk' ORDER BY name",
    )?;
    let mut indexes: Vec<Index> = collected(indexes.query([&name])?, |row| {
        Ok(Index { name: row.get(0)?, unique: row.get(1)?, columns: Vec::new() })
    })?;
    let mut parts = connection.prepare_cached("SELECT name FROM pragma_index_info(?) ORDER BY seqno")?;
    for index in &mut indexes {
        index.columns = collected(parts.query([&index.name])?, |row| row.get(0))?;
    }
    let mut references = connection.prepare_cached(
        "SELECT \"from\", \"table\", \"to\" FROM pragma_foreign_key_list(?) ORDER BY id, seq",
    )?;
    let foreign_keys = collected(references.query([&name])?, |row| {
        Ok(ForeignKey { column: row.get(0)?, table: row.get(1)?, to: row.get(2)? })
    })?;
    let mut triggers = connection.prepare_cached(
        "SELECT name FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = ? COLLATE NOCASE ORDER BY name",
    )?;
    let triggers = collected(triggers.query([&name])?, |row| row.get(0))?;
    Ok(TableDescription { name, kind, columns, indexes, foreign_keys, triggers })
}

fn collected<T>(
    mut rows: rusqlite::Rows<'_>,
    read: impl Fn(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Vec<T>> {
    let mut all = Vec::new();
    while let Some(row) = rows.next()? {
        all.push(read(row)?);
    }
    Ok(all)
}
