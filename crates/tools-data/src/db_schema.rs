//! `db_schema`: the tables of the agent's database.

use std::sync::Arc;

use database::{Databases, TableDescription};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{Code, Context, Example, Place, Plan, Spec, Tool, ToolError};

use crate::failure::{failed_in, named};

/// The `db_schema` tool.
pub struct DbSchema(pub(crate) Arc<Databases>);

/// Arguments of `db_schema`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Name of one table or view; default all.
    table: Option<String>,
    /// Configured name of a database other than the default one.
    database: Option<String>,
}

/// Result of `db_schema`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Tables and views, sorted by name.
    tables: Vec<Table>,
}

/// A table or a view.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
pub(crate) struct Table {
    /// Name of the table.
    name: String,
    /// `table`, `view` or `virtual`.
    kind: String,
    /// Columns, in order.
    columns: Vec<Column>,
    /// Indexes, except the one of the primary key.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    indexes: Vec<Index>,
    /// Foreign keys of the table.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    foreign_keys: Vec<ForeignKey>,
    /// Names of the triggers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    triggers: Vec<String>,
}

/// A column.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
pub(crate) struct Column {
    /// Name of the column.
    name: String,
    /// Type as declared.
    r#type: String,
    /// True if the column forbids NULL.
    not_null: bool,
    /// Default value, as an SQL expression.
    #[serde(skip_serializing_if = "Option::is_none")]
    default: Option<String>,
    /// Position in the primary key, starting at 1; 0 if the column is not part of it.
    primary_key: u32,
}

/// An index.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
pub(crate) struct Index {
    /// Name of the index.
    name: String,
    /// True if each value occurs once.
    unique: bool,
    /// Column names, in order; an expression is an empty string.
    columns: Vec<String>,
}

/// A foreign key.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
pub(crate) struct ForeignKey {
    /// Column that refers to another table.
    column: String,
    /// Table that it refers to.
    table: String,
    /// Column that it refers to; absent for the primary key.
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<String>,
}

impl From<TableDescription> for Table {
    fn from(described: TableDescription) -> Self {
        let TableDescription { name, kind, columns, indexes, foreign_keys, triggers } = described;
        let column = |column: database::Column| Column {
            name: column.name,
            r#type: column.kind,
            not_null: column.not_null,
            default: column.default,
            primary_key: column.primary_key,
        };
        let index = |index: database::Index| Index {
            name: index.name,
            unique: index.unique,
            columns: index.columns.into_iter().map(Option::unwrap_or_default).collect(),
        };
        let reference =
            |key: database::ForeignKey| ForeignKey { column: key.column, table: key.table, to: key.to };
        Self {
            name,
            kind,
            columns: columns.into_iter().map(column).collect(),
            indexes: indexes.into_iter().map(index).collect(),
            foreign_keys: foreign_keys.into_iter().map(reference).collect(),
            triggers,
        }
    }
}

impl Tool for DbSchema {
    type Args = Args;
    type Output = Output;

    const SPEC: Spec = Spec {
        title: "Describe the database",
        example: Example { files: &[], arguments: "{}", result: r#"{"tables": []}"# },
        ..Spec::reading(
            "db_schema",
            "Describe the tables, columns and indexes of the workspace's SQLite database.",
        )
    };

    fn plan(&self, args: &Args, _place: &Place) -> Result<Plan, ToolError> {
        named(&self.0, args.database.as_deref())?;
        Ok(Plan::of(vec![]))
    }

    async fn run(&self, context: &Context, args: Args) -> Result<Output, ToolError> {
        let described = named(&self.0, args.database.as_deref())?
            .describe(args.table.as_deref())
            .map_err(|error| failed_in(context, error))?;
        if let (Some(table), true) = (&args.table, described.is_empty()) {
            return Err(ToolError::new(Code::NotFound, format!("unknown table {}", tool::visible(table)))
                .hint("omit `table` to list all"));
        }
        Ok(Output { tables: described.into_iter().map(Table::from).collect() })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tool::Code;

    use crate::tests::World;

    #[test]
    fn tables_are_shown_with_what_a_statement_needs_and_another_name_is_refused() {
        let world = World::new();
        world
            .run(
                "db_write",
                json!({"sql": "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT NOT NULL DEFAULT 'x' UNIQUE)"}),
            )
            .unwrap();
        let shown = world.run("db_schema", json!({})).unwrap();
        testkit::assert_contains(
            &shown,
            &json!({"tables": [{"name": "t", "kind": "table", "columns": [
                {"name": "id", "type": "INTEGER", "primary_key": 1},
                {"name": "a", "type": "TEXT", "not_null": true, "default": "'x'", "primary_key": 0},
            ], "indexes": [{"unique": true, "columns": ["a"]}]}]}),
        );
        assert_eq!(world.run("db_schema", json!({"table": "u"})).unwrap_err().code, Code::NotFound);
    }
}
