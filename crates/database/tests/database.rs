//! Statements on real files: what may be done, what is refused, what comes back.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use database::{
    Bounds, Change, DEFAULT_NAME, Database, DatabaseError, Databases, Keep, KeepError, Page, Stopped, Value,
    Written,
};
use rusqlite::Connection;

const ALL: Bounds = Bounds { skip: 0, rows: 100_000, bytes: 64 << 20 };

struct World {
    _folder: tempfile::TempDir,
    databases: Databases,
    kept: Kept,
}

/// Keeps changes in memory; those that have happened in their order.
#[derive(Default)]
struct Kept {
    waiting: Mutex<Option<Change>>,
    happened: Mutex<Vec<Change>>,
    refuses: AtomicBool,
}

impl Keep for Kept {
    fn keep(&self, _database: &Path, change: &Change) -> Result<(), KeepError> {
        if self.refuses.load(Ordering::SeqCst) {
            return Err("the disk is full".into());
        }
        let kept = Change::decode(&change.encode()?)?;
        assert_eq!(kept, *change);
        *self.waiting.lock().unwrap() = Some(kept);
        Ok(())
    }

    fn happened(&self) {
        let change = self.waiting.lock().unwrap().take().unwrap();
        self.happened.lock().unwrap().push(change);
    }

    fn forget(&self) {
        assert!(self.waiting.lock().unwrap().take().is_some());
    }
}

impl Kept {
    fn last(&self) -> Change {
        self.happened.lock().unwrap().last().unwrap().clone()
    }
}

fn never() -> Stopped {
    Arc::new(|| false)
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let databases = Databases::new(&folder.path().canonicalize().unwrap(), &BTreeMap::new());
        Self { _folder: folder, databases, kept: Kept::default() }
    }

    fn with(statements: &[&str]) -> Self {
        let world = Self::new();
        statements.iter().for_each(|sql| drop(world.write(sql).unwrap()));
        world
    }

    fn database(&self) -> &Database {
        self.databases.named(DEFAULT_NAME).unwrap()
    }

    fn write(&self, sql: &str) -> Result<Written, DatabaseError> {
        self.write_with(sql, &[])
    }

    fn write_with(&self, sql: &str, parameters: &[Value]) -> Result<Written, DatabaseError> {
        let planned = self.database().plan(sql)?;
        self.database().write((sql, parameters), &planned, ALL, &self.kept, &never())
    }

    fn query(&self, sql: &str) -> Result<Page, DatabaseError> {
        self.database().query(sql, &[], ALL, &never())
    }

    fn rows(&self, sql: &str) -> Vec<Vec<Value>> {
        self.query(sql).unwrap().rows
    }

    fn planned(&self, sql: &str) -> String {
        self.database().plan(sql).unwrap().lines().join("; ")
    }

    fn undo(&self, changes: &[Change], force: bool) -> Result<u64, DatabaseError> {
        let checked = self.database().undo(changes, force, None, &never());
        let done = self.database().undo(changes, force, Some(&self.kept), &never());
        assert_eq!(checked.is_ok(), done.is_ok(), "{checked:?} {done:?}");
        done.map(|undone| undone.rows)
    }

    /// Everything that is in it, as text.
    fn dump(&self) -> String {
        let mut all = format!("{:?}\n", self.rows("SELECT type, name, sql FROM sqlite_schema ORDER BY 1, 2"));
        for table in self.database().describe(None).unwrap().iter().filter(|table| table.kind != "view") {
            let sql = format!("SELECT * FROM \"{}\"", table.name);
            all.push_str(&format!("{} {:?}\n", table.name, self.rows(&sql)));
        }
        all
    }
}

fn integer(number: i64) -> Value {
    Value::Integer(number)
}

const NOTES: &[&str] = &[
    "CREATE TABLE notes (id INTEGER PRIMARY KEY, title TEXT UNIQUE, body TEXT)",
    "INSERT INTO notes VALUES (1, 'a', 'one'), (2, 'b', 'two'), (3, 'c', NULL)",
];

#[test]
fn values_of_every_type_go_in_and_come_out_exactly() {
    let world = World::with(&["CREATE TABLE v (a)"]);
    let values = [
        Value::Null,
        integer(i64::MAX),
        integer(9_007_199_254_740_993),
        Value::Real(0.1),
        Value::Real(f64::NEG_INFINITY),
        Value::Text("'; DROP TABLE v; --".to_owned()),
        Value::Text("ä\n".to_owned()),
        Value::Blob(vec![0, 255, 128]),
    ];
    for value in &values {
        let written = world.write_with("INSERT INTO v VALUES (?)", std::slice::from_ref(value)).unwrap();
        assert_eq!(written.affected, 1);
    }
    assert_eq!(world.rows("SELECT a FROM v ORDER BY rowid").concat(), values);
    let page = world.query("SELECT a, a, 1 AS a_2 FROM v LIMIT 1").unwrap();
    assert_eq!(page.columns, ["a", "a_2", "a_2_2"]);
}

#[test]
fn what_a_statement_does_is_told_by_its_preparation() {
    let world = World::with(NOTES);
    world.write("CREATE TABLE log (t)").unwrap();
    world.write("CREATE VIEW seen AS SELECT title FROM notes").unwrap();
    world.write("CREATE TABLE gone (a)").unwrap();
    world
        .write("CREATE TRIGGER forgets AFTER INSERT ON log BEGIN DELETE FROM gone; UPDATE notes SET body = 1; END")
        .unwrap();
    for (sql, lines) in [
        ("INSERT INTO notes(title) VALUES ('DELETE FROM notes')", "insert notes"),
        (
            "insert into notes(id, title) values (1, 'x') on conflict do update set title = 'y'",
            "insert notes; update notes",
        ),
        ("/* DROP */ UPDATE notes SET title = 'x', body = 'y' -- DELETE", "update notes"),
        ("WITH x AS (SELECT 1) DELETE FROM notes", "delete notes"),
        ("INSERT INTO log VALUES (1)", "delete gone; insert log; update notes"),
        ("CREATE INDEX i ON notes(body)", "create index i"),
        ("CREATE TABLE \"a b\" AS SELECT 1 AS x", "create table \"a b\""),
        ("DROP TABLE notes", "drop table notes"),
        ("DROP VIEW seen", "drop view seen"),
        ("ALTER TABLE notes DROP COLUMN body", "alter table notes"),
        ("CREATE VIRTUAL TABLE f USING fts5(body)", "create table f"),
    ] {
        assert_eq!(world.planned(sql), lines, "{sql}");
    }
    let takes = |sql: &str| world.database().plan(sql).unwrap().takes_away();
    assert!(takes("INSERT INTO log VALUES (1)") && takes("DROP VIEW seen") && takes("DELETE FROM gone"));
    assert!(!takes("UPDATE notes SET title = 'x'") && !takes("CREATE TABLE t (a)"));
}

#[test]
fn what_no_statement_may_do_is_denied_and_nothing_happens() {
    let world = World::with(NOTES);
    let other = world.database().path().with_file_name("other.db");
    let before = world.dump();
    for sql in [
        format!("ATTACH '{}' AS o", other.display()),
        format!("VACUUM INTO '{}'", other.display()),
        "DETACH main".to_owned(),
        "SELECT load_extension('x')".to_owned(),
        "INSERT INTO notes(body) SELECT load_extension('x')".to_owned(),
        "PRAGMA writable_schema = ON".to_owned(),
        "PRAGMA journal_mode = DELETE".to_owned(),
        "PRAGMA journal_mode".to_owned(),
        "PRAGMA user_version = 7".to_owned(),
        "PRAGMA temp_store_directory = '/'".to_owned(),
        "SELECT * FROM pragma_journal_mode".to_owned(),
        "BEGIN".to_owned(),
        "COMMIT".to_owned(),
        "SAVEPOINT s".to_owned(),
        "CREATE TEMP TABLE t (a)".to_owned(),
        "CREATE VIRTUAL TABLE d USING dbstat".to_owned(),
        "CREATE VIRTUAL TABLE f USING fts3(a)".to_owned(),
    ] {
        let (read, written) = (world.query(&sql), world.write(&sql));
        let is_denied = |error: &DatabaseError| {
            matches!(
                error,
                DatabaseError::Denied(_)
                    | DatabaseError::Empty
                    | DatabaseError::Writes
                    | DatabaseError::OnlyReads
            )
        };
        assert!(is_denied(read.as_ref().unwrap_err()), "{sql}: {read:?}");
        assert!(is_denied(written.as_ref().unwrap_err()), "{sql}: {written:?}");
        assert!(
            [&read.unwrap_err(), &written.unwrap_err()].iter().any(|e| matches!(e, DatabaseError::Denied(_))),
            "{sql}"
        );
    }
    for sql in ["VACUUM", "DELETE FROM sqlite_master", "UPDATE sqlite_schema SET sql = ''"] {
        let written = world.write(sql);
        assert!(written.is_err(), "{sql}: {written:?}");
    }
    assert!(!other.exists());
    assert_eq!(world.dump(), before);
    // The controls: the pragmas that read, and ordinary statements.
    assert_eq!(world.rows("PRAGMA user_version"), [[integer(0)]]);
    assert_eq!(world.rows("SELECT count(*) FROM pragma_table_info('notes')"), [[integer(3)]]);
}

#[test]
fn a_query_can_only_read() {
    let world = World::with(NOTES);
    for sql in
        ["DELETE FROM notes", "INSERT INTO notes(title) VALUES ('x') RETURNING id", "CREATE TABLE t (a)"]
    {
        assert!(matches!(world.query(sql), Err(DatabaseError::Writes)), "{sql}");
    }
    assert!(matches!(world.write("SELECT 1"), Err(DatabaseError::OnlyReads)));
    assert_eq!(world.rows("SELECT count(*) FROM notes"), [[integer(3)]]);
}

#[test]
fn bad_statements_are_refused_by_what_is_wrong_with_them() {
    let world = World::with(NOTES);
    assert!(matches!(world.query("SELECT 1; SELECT 2"), Err(DatabaseError::Several)));
    assert!(matches!(world.write("DELETE FROM notes; DELETE FROM notes"), Err(DatabaseError::Several)));
    for empty in ["", "  ", "-- only a comment", "/* */"] {
        assert!(matches!(world.query(empty), Err(DatabaseError::Empty)), "{empty:?}");
        assert!(matches!(world.write(empty), Err(DatabaseError::Empty)), "{empty:?}");
    }
    assert!(matches!(world.query("SELECT 1\0"), Err(DatabaseError::Syntax(_))));
    let Err(DatabaseError::Syntax(said)) = world.query("SELEC 1") else { panic!("it is no statement") };
    assert!(said.contains("syntax error"), "{said}");
    let wrong = world.database().query("SELECT ?, ?2", &[integer(1)], ALL, &never());
    assert!(matches!(wrong, Err(DatabaseError::Parameters { wanted: 2, given: 1 })));
    assert!(matches!(
        world.write("INSERT INTO notes(title) VALUES ('a')"),
        Err(DatabaseError::Constraint(_))
    ));
    // A comment and a semicolon at the end are no second statement.
    assert_eq!(world.rows("SELECT 1; -- done").len(), 1);
    assert_eq!(world.rows("SELECT count(*) FROM notes"), [[integer(3)]]);
}

#[test]
fn results_come_page_by_page_and_are_bounded() {
    let world = World::with(NOTES);
    let page = |skip, rows, bytes| {
        let bounds = Bounds { skip, rows, bytes };
        world.database().query("SELECT id FROM notes ORDER BY id", &[], bounds, &never()).unwrap()
    };
    assert_eq!((page(0, 2, 1000).rows.len(), page(0, 2, 1000).has_more), (2, true));
    assert_eq!((page(2, 2, 1000).rows, page(2, 2, 1000).has_more), (vec![vec![integer(3)]], false));
    assert_eq!((page(0, 10, 20).rows.len(), page(0, 10, 20).has_more), (1, true));
    assert_eq!((page(9, 10, 20).rows.len(), page(9, 10, 20).has_more), (0, false));
    let large = Bounds { bytes: 1 << 20, ..ALL };
    let huge = world.database().query("SELECT randomblob(2000000)", &[], large, &never());
    assert!(matches!(huge, Err(DatabaseError::TooLarge(_))), "{huge:?}");
    let endless = world.query("SELECT zeroblob(1000000000)");
    assert!(matches!(endless, Err(DatabaseError::TooLarge(_))), "{endless:?}");
}

#[test]
fn a_statement_that_never_ends_is_ended_and_the_database_goes_on() {
    let world = World::with(NOTES);
    let looks = Arc::new(AtomicU32::new(0));
    let seen = looks.clone();
    let stopped: Stopped = Arc::new(move || seen.fetch_add(1, Ordering::SeqCst) > 50);
    let forever = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c";
    let ended = world.database().query(forever, &[], ALL, &stopped);
    assert!(matches!(ended, Err(DatabaseError::Stopped)), "{ended:?}");
    let endless = format!("INSERT INTO notes(body) {forever}");
    let planned = world.database().plan(&endless).unwrap();
    let ended = world.database().write((&endless, &[]), &planned, ALL, &world.kept, &stopped);
    assert!(matches!(ended, Err(DatabaseError::Stopped)), "{ended:?}");
    assert_eq!(world.rows("SELECT count(*) FROM notes"), [[integer(3)]]);
}

#[test]
fn every_change_of_rows_is_undone_exactly_and_done_again() {
    let statements = [
        "INSERT INTO notes(title) VALUES ('x'), ('y')",
        "UPDATE notes SET title = title || '!', body = NULL",
        "UPDATE notes SET id = id + 10",
        "UPDATE notes SET title = CASE title WHEN 'a' THEN 'b' WHEN 'b' THEN 'a' ELSE title END WHERE id < 0",
        "DELETE FROM notes",
        "DELETE FROM notes WHERE id = 2",
        "INSERT OR REPLACE INTO notes VALUES (1, 'b', 'takes two places')",
        "INSERT OR IGNORE INTO notes VALUES (1, 'b', 'nothing'), (7, 'g', 'seven')",
        "INSERT INTO notes VALUES (1, 'z', 'z') ON CONFLICT(id) DO UPDATE SET body = 'upserted'",
        "UPDATE OR REPLACE notes SET title = 'a' WHERE id = 3",
        "INSERT INTO kinds VALUES (1, 2, 3, x'00ff', 4.5), (NULL, 'x', '5', 6, '7')",
        "UPDATE kinds SET r = r + 1, t = CAST(x'ff' AS TEXT)",
    ];
    for sql in statements {
        let world = World::with(NOTES);
        world.write("CREATE TABLE kinds (n NUMERIC, t TEXT, i INTEGER, b BLOB, r REAL)").unwrap();
        world.write("INSERT INTO kinds VALUES (1.0, 1, '1', 'b', 1)").unwrap();
        let (before, many) = (world.dump(), world.kept.happened.lock().unwrap().len());
        world.write(sql).unwrap();
        let after = world.dump();
        if before == after {
            assert_eq!(world.kept.happened.lock().unwrap().len(), many, "{sql} changed nothing");
            continue;
        }
        let change = world.kept.last();
        assert!(matches!(change, Change::Rows(_)), "{sql}");
        world.undo(&[change], false).unwrap_or_else(|error| panic!("{sql}: {error}"));
        assert_eq!(world.dump(), before, "{sql}");
        world.undo(&[world.kept.last()], false).unwrap();
        assert_eq!(world.dump(), after, "{sql}, done again");
    }
}

#[test]
fn every_change_of_the_schema_is_undone_and_done_again() {
    let statements = [
        "CREATE TABLE more (a)",
        "CREATE INDEX i ON notes(body)",
        "DROP TABLE notes",
        "ALTER TABLE notes ADD COLUMN c DEFAULT 5",
        "ALTER TABLE notes RENAME TO others",
        "INSERT INTO words VALUES ('full text search')",
        "DELETE FROM words",
        "INSERT INTO told VALUES (2)",
        "INSERT INTO keyed VALUES ('b', 2)",
        "DELETE FROM parents",
        "CREATE VIEW v AS SELECT 1",
    ];
    for sql in statements {
        let world = World::with(NOTES);
        for made in [
            "CREATE VIRTUAL TABLE words USING fts5(body)",
            "INSERT INTO words VALUES ('some words')",
            "CREATE TABLE told (a)",
            "CREATE TRIGGER tells AFTER INSERT ON told BEGIN UPDATE notes SET body = NEW.a; END",
            "CREATE TABLE keyed (k TEXT PRIMARY KEY, v) WITHOUT ROWID",
            "CREATE TABLE parents (id INTEGER PRIMARY KEY)",
            "CREATE TABLE children (parent REFERENCES parents(id) ON DELETE CASCADE)",
            "INSERT INTO parents VALUES (1)",
            "INSERT INTO children VALUES (1)",
        ] {
            world.write(made).unwrap_or_else(|error| panic!("{made}: {error}"));
        }
        let before = world.dump();
        world.write(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        let after = world.dump();
        assert_ne!(before, after, "{sql}");
        let change = world.kept.last();
        assert!(matches!(change, Change::Whole { .. }), "{sql}");
        world.undo(&[change], false).unwrap_or_else(|error| panic!("{sql}: {error}"));
        assert_eq!(world.dump(), before, "{sql}");
        assert_eq!(world.rows("PRAGMA integrity_check"), [[Value::Text("ok".into())]], "{sql}");
        world.undo(&[world.kept.last()], false).unwrap();
        assert_eq!(world.dump(), after, "{sql}, done again");
    }
}

#[test]
fn several_changes_are_undone_together_or_not_at_all() {
    let world = World::new();
    let mut changes = Vec::new();
    for sql in [NOTES[0], NOTES[1], "UPDATE notes SET body = 'x'", "CREATE TABLE t (a)", "DELETE FROM notes"]
    {
        world.write(sql).unwrap();
        changes.insert(0, world.kept.last());
    }
    let after = world.dump();
    // Without the first of them, the others are not as they were left.
    assert!(matches!(world.undo(&changes[1..], false), Err(DatabaseError::Conflict { .. })));
    assert_eq!(world.dump(), after);
    world.undo(&changes, false).unwrap();
    assert_eq!(world.dump(), "[]\n");
    world.undo(&[world.kept.last()], false).unwrap();
    assert_eq!(world.dump(), after);
}

#[test]
fn what_came_since_is_a_conflict_unless_it_is_forced() {
    let world = World::with(NOTES);
    world.write("UPDATE notes SET body = 'mine' WHERE id = 1").unwrap();
    let change = world.kept.last();
    world.write("UPDATE notes SET title = 'theirs' WHERE id = 2").unwrap();
    // Another row is none.
    world.undo(std::slice::from_ref(&change), false).unwrap();
    world.undo(&[world.kept.last()], false).unwrap();
    world.write("UPDATE notes SET body = 'theirs' WHERE id = 1").unwrap();
    let refused = world.undo(std::slice::from_ref(&change), false);
    assert!(
        matches!(&refused, Err(DatabaseError::Conflict { what }) if what.contains("row 1")),
        "{refused:?}"
    );
    assert_eq!(world.rows("SELECT body FROM notes WHERE id = 1"), [[Value::Text("theirs".into())]]);
    world.undo(&[change], true).unwrap();
    assert_eq!(world.rows("SELECT body FROM notes WHERE id = 1"), [[Value::Text("one".into())]]);
    assert_eq!(world.rows("SELECT title FROM notes WHERE id = 2"), [[Value::Text("theirs".into())]]);
}

#[test]
fn a_change_that_cannot_be_kept_does_not_happen_and_one_that_did_not_happen_is_known() {
    let world = World::with(NOTES);
    let before = world.dump();
    world.kept.refuses.store(true, Ordering::SeqCst);
    assert!(matches!(world.write("DELETE FROM notes"), Err(DatabaseError::Unkept(_))));
    assert!(matches!(world.write("DROP TABLE notes"), Err(DatabaseError::Unkept(_))));
    assert_eq!(world.dump(), before);
    world.kept.refuses.store(false, Ordering::SeqCst);
    for sql in ["DELETE FROM notes WHERE id = 1", "CREATE TABLE t (a)"] {
        world.write(sql).unwrap();
        let change = world.kept.last();
        assert!(world.database().has_happened(&change).unwrap(), "{sql}");
        world.undo(std::slice::from_ref(&change), false).unwrap();
        assert!(!world.database().has_happened(&change).unwrap(), "{sql}");
    }
}

#[test]
fn many_agents_write_at_once_and_wait_for_one_another() {
    let world = World::with(&["CREATE TABLE n (v)"]);
    std::thread::scope(|scope| {
        for agent in 0..8 {
            let world = &world;
            scope.spawn(move || {
                let kept = Kept::default();
                for _ in 0..20 {
                    let sql = "INSERT INTO n VALUES (?)";
                    let planned = world.database().plan(sql).unwrap();
                    world.database().write((sql, &[integer(agent)]), &planned, ALL, &kept, &never()).unwrap();
                    world.query("SELECT count(*) FROM n").unwrap();
                }
            });
        }
    });
    assert_eq!(world.rows("SELECT count(*), count(DISTINCT v) FROM n"), [[integer(160), integer(8)]]);
    assert_eq!(world.rows("PRAGMA integrity_check"), [[Value::Text("ok".into())]]);
}

#[test]
fn a_lock_that_does_not_go_ends_with_the_call() {
    let world = World::with(NOTES);
    let other = Connection::open(world.database().path()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let waits = AtomicU32::new(0);
    let waits = Arc::new(waits);
    let seen = waits.clone();
    let stopped: Stopped = Arc::new(move || seen.fetch_add(1, Ordering::SeqCst) > 2);
    let planned = world.database().plan("DELETE FROM notes").unwrap();
    let locked = world.database().write(("DELETE FROM notes", &[]), &planned, ALL, &world.kept, &stopped);
    assert!(matches!(locked, Err(DatabaseError::Locked)), "{locked:?}");
    assert_eq!(world.rows("SELECT count(*) FROM notes"), [[integer(3)]]);
    other.execute_batch("ROLLBACK").unwrap();
    world.write("DELETE FROM notes").unwrap();
}

#[test]
fn a_schema_that_changes_between_plan_and_run_is_not_obeyed() {
    let world = World::with(NOTES);
    let planned = world.database().plan("UPDATE notes SET body = 'x'").unwrap();
    world.write("CREATE TABLE log (a)").unwrap();
    world.write("CREATE TRIGGER t AFTER UPDATE ON notes BEGIN DELETE FROM log; END").unwrap();
    let drifted =
        world.database().write(("UPDATE notes SET body = 'x'", &[]), &planned, ALL, &world.kept, &never());
    assert!(matches!(drifted, Err(DatabaseError::Drifted)), "{drifted:?}");
}

#[test]
fn damaged_and_strange_files_are_told_apart_and_never_followed() {
    let world = World::with(NOTES);
    let path = world.database().path().to_owned();
    let folder = path.parent().unwrap();
    let fresh = |content: &[u8]| {
        std::fs::remove_dir_all(folder).unwrap();
        std::fs::create_dir(folder).unwrap();
        std::fs::write(&path, content).unwrap();
    };
    fresh(b"this is no database, and long enough to have a header of one hundred bytes if it were one, but it is not");
    for error in
        [world.query("SELECT * FROM notes").unwrap_err(), world.write("CREATE TABLE t (a)").unwrap_err()]
    {
        assert!(matches!(error, DatabaseError::Damaged { .. }), "{error:?}");
    }
    // A link, a further name, a folder, a pipe.
    let victim = folder.with_file_name("victim");
    fresh(b"");
    std::fs::rename(&path, &victim).unwrap();
    std::os::unix::fs::symlink(&victim, &path).unwrap();
    assert!(matches!(world.write("CREATE TABLE t (a)"), Err(DatabaseError::Refused { .. })));
    std::fs::remove_file(&path).unwrap();
    std::fs::hard_link(&victim, &path).unwrap();
    assert!(matches!(world.write("CREATE TABLE t (a)"), Err(DatabaseError::Refused { .. })));
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    assert!(matches!(world.query("SELECT 1"), Err(DatabaseError::Refused { .. })));
    std::fs::remove_dir(&path).unwrap();
    // The folder itself is a link.
    std::fs::remove_dir(folder).unwrap();
    let elsewhere = folder.with_file_name("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, folder).unwrap();
    let through = world.write("CREATE TABLE t (a)");
    assert!(through.is_err(), "{through:?}");
    assert_eq!(std::fs::read(&victim).unwrap(), b"");
    assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 0);
}

#[test]
fn a_journal_that_names_another_file_is_not_played_back() {
    let world = World::with(NOTES);
    let path = world.database().path().to_owned();
    let journal = path.with_file_name("data.db-journal");
    std::fs::write(&journal, [&[7; 600][..], &[0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7]].concat())
        .unwrap();
    let refused = world.query("SELECT count(*) FROM notes");
    assert!(matches!(refused, Err(DatabaseError::Refused { .. })), "{refused:?}");
    std::fs::remove_file(&journal).unwrap();
    assert_eq!(world.rows("SELECT count(*) FROM notes"), [[integer(3)]]);
}

#[test]
fn a_file_that_is_exchanged_is_read_anew_and_an_absent_one_is_empty() {
    let world = World::new();
    assert_eq!(world.rows("SELECT 1"), [[integer(1)]]);
    assert!(matches!(world.query("SELECT * FROM notes"), Err(DatabaseError::Syntax(_))));
    assert!(!world.database().path().exists());
    NOTES.iter().for_each(|sql| drop(world.write(sql).unwrap()));
    assert_eq!(world.rows("SELECT count(*) FROM notes"), [[integer(3)]]);
    std::fs::remove_dir_all(world.database().path().parent().unwrap()).unwrap();
    assert!(matches!(world.query("SELECT * FROM notes"), Err(DatabaseError::Syntax(_))));
    assert_eq!(world.database().describe(None).unwrap(), []);
}

#[test]
fn tables_are_described() {
    let world = World::with(NOTES);
    world
        .write("CREATE TABLE tags (note INTEGER NOT NULL REFERENCES notes(id), tag TEXT DEFAULT 'x')")
        .unwrap();
    world.write("CREATE UNIQUE INDEX tags_by_note ON tags(note, tag)").unwrap();
    let described = world.database().describe(Some("TAGS")).unwrap();
    let [tags] = described.as_slice() else { panic!("{described:?}") };
    assert_eq!((tags.name.as_str(), tags.kind.as_str(), tags.columns.len()), ("tags", "table", 2));
    assert!(tags.columns[0].not_null && tags.columns[1].default.as_deref() == Some("'x'"));
    assert_eq!((tags.indexes[0].unique, tags.foreign_keys[0].table.as_str()), (true, "notes"));
    assert_eq!(world.database().describe(None).unwrap().len(), 2);
}
