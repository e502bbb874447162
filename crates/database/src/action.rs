//! Actions of a statement, as SQLite's authorizer reports them during preparation, and the actions
//! that no statement may perform.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use parking_lot::Mutex;
use rusqlite::Connection;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};

/// Pragmas that read properties of the schema and the file, with and without an argument.
const READING_PRAGMAS: [&str; 20] = [
    "application_id",
    "collation_list",
    "data_version",
    "encoding",
    "foreign_key_check",
    "foreign_key_list",
    "freelist_count",
    "function_list",
    "index_info",
    "index_list",
    "index_xinfo",
    "integrity_check",
    "page_count",
    "page_size",
    "pragma_list",
    "quick_check",
    "table_info",
    "table_list",
    "table_xinfo",
    "user_version",
];

/// Pragmas among [`READING_PRAGMAS`] that write if given an argument.
const WRITING_WITH_A_VALUE: [&str; 4] = ["application_id", "encoding", "page_size", "user_version"];

/// Functions that reach beyond the database.
const DENIED_FUNCTIONS: [&str; 4] = ["load_extension", "fts3_tokenizer", "readfile", "writefile"];

/// Virtual table modules that store their content in the same file.
const MODULES: [&str; 3] = ["fts5", "rtree", "rtree_i32"];

/// An action of a statement on one table, index, view or trigger.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Action {
    /// Kind of the action, such as `insert` or `drop table`.
    pub(crate) kind: &'static str,
    /// Name of the object.
    pub(crate) name: String,
}

/// The actions of one statement.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Statement {
    pub(crate) actions: BTreeSet<Action>,
}

impl Statement {
    /// Returns one line per action: its kind, such as `insert`, and the name of its object. A name
    /// other than a single plain word is quoted, so that no name looks like several words.
    pub fn lines(&self) -> Vec<String> {
        let line = |action: &Action| format!("{} {}", action.kind, shown(&action.name));
        self.actions.iter().map(line).collect()
    }

    /// Returns true if the statement may remove data, beyond the replacement of values.
    pub fn takes_away(&self) -> bool {
        let takes = |action: &Action| {
            action.kind == "delete" || action.kind == "alter table" || action.kind.starts_with("drop ")
        };
        self.actions.iter().any(takes)
    }

    /// Removes actions that SQLite derives from another one: dropping a table deletes its rows, and
    /// a new index is filled.
    fn without_what_follows(mut self) -> Self {
        let all = self.actions.clone();
        let has = |kind, name: &String| all.contains(&Action { kind, name: name.clone() });
        self.actions.retain(|action| match action.kind {
            "delete" => !has("drop table", &action.name) && !has("drop view", &action.name),
            "insert" => !has("create table", &action.name),
            "reindex" => !has("create index", &action.name),
            _ => true,
        });
        self
    }

    /// Returns true if the statement changes only rows.
    pub(crate) fn only_rows(&self) -> bool {
        self.actions.iter().all(|action| ROWS.contains(&action.kind))
    }

    /// Returns true if the statement inserts rows.
    pub(crate) fn inserts(&self) -> bool {
        self.actions.iter().any(|action| action.kind == "insert")
    }

    /// Returns the tables whose rows the statement changes.
    pub(crate) fn tables(&self) -> BTreeSet<&str> {
        let rows = self.actions.iter().filter(|action| ROWS.contains(&action.kind));
        rows.map(|action| action.name.as_str()).collect()
    }
}

const ROWS: [&str; 3] = ["delete", "insert", "update"];

fn shown(name: &str) -> String {
    let plain = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
    if plain { name.to_owned() } else { serde_json::Value::from(name).to_string() }
}

/// Recognizes, by its first words, a statement of other databases that SQLite lacks: `truncate` or
/// `drop database`.
///
/// The result only affects messages: SQLite has no such statement, so none is ever run.
pub fn dangerous_spelling(sql: &str) -> Option<&'static str> {
    let mut words = Words(sql);
    match words.next()?.as_str() {
        "truncate" => Some("truncate"),
        "drop" => matches!(words.next()?.as_str(), "database" | "schema").then_some("drop database"),
        _ => None,
    }
}

/// Iterator over the leading words of a text, in lower case and without comments.
struct Words<'a>(&'a str);

impl Iterator for Words<'_> {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        loop {
            self.0 = self.0.trim_start_matches(|c: char| c.is_whitespace() || c == ';' || c == '\u{feff}');
            if let Some(comment) = self.0.strip_prefix("--") {
                self.0 = comment.split_once('\n').map_or("", |(_, rest)| rest);
            } else if let Some(comment) = self.0.strip_prefix("/*") {
                self.0 = comment.split_once("*/").map_or("", |(_, rest)| rest);
            } else {
                break;
            }
        }
        let end = self.0.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(self.0.len());
        let (word, rest) = self.0.split_at(end);
        self.0 = rest;
        (!word.is_empty()).then(|| word.to_ascii_lowercase())
    }
}

/// Origin of the statements that a connection's authorizer sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Statements of this crate. The authorizer allows everything.
    Own = 0,
    /// The caller's statement, during preparation.
    Judged = 1,
    /// Statements while the caller's statement runs, such as those of virtual tables.
    Run = 2,
}

/// Record of one connection's authorizer.
#[derive(Default)]
pub(crate) struct Watch {
    phase: AtomicU8,
    seen: Mutex<StatementSummary>,
}

#[derive(Default)]
struct StatementSummary {
    statement: Statement,
    refused: Option<String>,
}

impl Watch {
    /// Installs the authorizer on a connection.
    pub(crate) fn over(connection: &mut Connection) -> rusqlite::Result<Arc<Self>> {
        let watch = Arc::new(Self::default());
        let asked = watch.clone();
        connection.authorizer(Some(move |context: AuthContext<'_>| asked.judge(&context)))?;
        Ok(watch)
    }

    /// Switches to another phase. [`Phase::Judged`] clears the record.
    pub(crate) fn enter(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::SeqCst);
        if phase == Phase::Judged {
            *self.seen.lock() = StatementSummary::default();
        }
    }

    /// Takes the actions recorded since the last [`Phase::Judged`], and the first refused one.
    pub(crate) fn take(&self) -> (Statement, Option<String>) {
        let seen = std::mem::take(&mut *self.seen.lock());
        (seen.statement.without_what_follows(), seen.refused)
    }

    fn judge(&self, context: &AuthContext<'_>) -> Authorization {
        let phase = self.phase.load(Ordering::SeqCst);
        if phase == Phase::Own as u8 {
            return Authorization::Allow;
        }
        let judged = judged(context);
        if let Ok(None) = judged {
            return Authorization::Allow;
        }
        let mut seen = self.seen.lock();
        match judged {
            // The running statement was judged before. Actions of virtual tables and of the
            // tracking triggers are not the caller's.
            Ok(action) => {
                if phase == Phase::Judged as u8 {
                    seen.statement.actions.extend(action);
                }
                Authorization::Allow
            }
            Err(what) => {
                seen.refused.get_or_insert(what);
                Authorization::Deny
            }
        }
    }
}

/// Returns the action if it is to be recorded; `Err` describes a refused action.
fn judged(context: &AuthContext<'_>) -> Result<Option<Action>, String> {
    use AuthAction as A;
    let named = |kind, name: &str| Ok(Some(Action { kind, name: name.to_owned() }));
    match context.action {
        A::Select | A::Read { .. } | A::Recursive => Ok(None),
        A::Function { function_name } => {
            let denied = DENIED_FUNCTIONS.iter().any(|name| name.eq_ignore_ascii_case(function_name));
            if denied { Err(format!("the function {function_name}")) } else { Ok(None) }
        }
        A::Pragma { pragma_name, pragma_value } => {
            let name = pragma_name.to_ascii_lowercase();
            let writes = pragma_value.is_some() && WRITING_WITH_A_VALUE.contains(&name.as_str());
            if READING_PRAGMAS.contains(&name.as_str()) && !writes {
                return Ok(None);
            }
            Err(format!("PRAGMA {}", shown(&name)))
        }
        A::Insert { table_name } => Ok(rows("insert", table_name)),
        A::Update { table_name, .. } => Ok(rows("update", table_name)),
        A::Delete { table_name } => Ok(rows("delete", table_name)),
        A::CreateTable { table_name } => named("create table", table_name),
        A::CreateIndex { index_name, .. } => named("create index", index_name),
        A::CreateView { view_name } => named("create view", view_name),
        A::CreateTrigger { trigger_name, .. } => named("create trigger", trigger_name),
        A::CreateVtable { table_name, module_name } => {
            if MODULES.iter().any(|module| module.eq_ignore_ascii_case(module_name)) {
                return named("create table", table_name);
            }
            Err(format!("a virtual table of {}", shown(module_name)))
        }
        A::DropTable { table_name } | A::DropVtable { table_name, .. } => named("drop table", table_name),
        A::DropIndex { index_name, .. } => named("drop index", index_name),
        A::DropView { view_name } => named("drop view", view_name),
        A::DropTrigger { trigger_name, .. } => named("drop trigger", trigger_name),
        A::AlterTable { table_name, .. } => named("alter table", table_name),
        A::Reindex { index_name } => named("reindex", index_name),
        A::Analyze { table_name } => named("analyze", table_name),
        A::Attach { .. } => Err("ATTACH (also by VACUUM)".to_owned()),
        A::Detach { .. } => Err("DETACH".to_owned()),
        A::Transaction { .. } => Err("transaction control (every call is one transaction)".to_owned()),
        A::Savepoint { .. } => Err("a savepoint (every call is one transaction)".to_owned()),
        A::CreateTempTable { .. }
        | A::CreateTempIndex { .. }
        | A::CreateTempView { .. }
        | A::CreateTempTrigger { .. }
        | A::DropTempTable { .. }
        | A::DropTempIndex { .. }
        | A::DropTempView { .. }
        | A::DropTempTrigger { .. } => {
            Err("a temporary table, view or trigger (it would end with the call)".to_owned())
        }
        _ => Err("an unknown action".to_owned()),
    }
}

/// Returns a change of rows. Rows of the schema table are omitted: every change of the schema writes them.
fn rows(kind: &'static str, table: &str) -> Option<Action> {
    const OF_THE_SCHEMA: [&str; 4] =
        ["sqlite_master", "sqlite_schema", "sqlite_temp_master", "sqlite_temp_schema"];
    if OF_THE_SCHEMA.contains(&table) {
        return None;
    }
    Some(Action { kind, name: table.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_other_databases_are_known_behind_comments_and_in_any_case() {
        for sql in ["TRUNCATE t", "-- a\n/* b */ truncate table t", " ;Truncate t", "\u{feff}truncate t"] {
            assert_eq!(dangerous_spelling(sql), Some("truncate"), "{sql}");
        }
        for sql in ["DROP DATABASE main", "drop/**/schema x"] {
            assert_eq!(dangerous_spelling(sql), Some("drop database"), "{sql}");
        }
        for sql in ["DROP TABLE t", "SELECT 'truncate'", "truncated", "", "/* truncate", "-- truncate t"] {
            assert_eq!(dangerous_spelling(sql), None, "{sql}");
        }
    }

    #[test]
    fn a_name_of_several_words_cannot_pass_for_another() {
        let action = |name: &str| Action { kind: "update", name: name.to_owned() };
        let statement = Statement { actions: [action("users x"), action("users")].into() };
        assert_eq!(statement.lines(), ["update users", "update \"users x\""]);
    }
}
