//! Tests of statements and their permissions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use database::{Bounds, DatabaseError, StopCheck, Value};

use crate::world::{ALL, NOTES, World, integer, never};

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
    // Controls: reading pragmas, and ordinary statements.
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
    // A comment and a semicolon at the end do not make a second statement.
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
    let stopped: StopCheck = Arc::new(move || seen.fetch_add(1, Ordering::SeqCst) > 50);
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
