//! Every change can be undone exactly, and what stands against that is a conflict.

use std::sync::atomic::Ordering;

use database::{Change, DatabaseError, Value};

use crate::world::{ALL, NOTES, World, integer, never};

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
fn in_a_large_database_rows_are_undone_and_what_only_all_of_it_would_undo_says_that_it_is_not() {
    let world = World::with(NOTES);
    world.write("CREATE TABLE large (b BLOB)").unwrap();
    // Each step is less than what is kept row by row.
    for _ in 0..4 {
        world
            .write("INSERT INTO large SELECT zeroblob(17 << 20)")
            .unwrap_or_else(|error| panic!("it is filled: {error}"));
    }
    let before = world.rows("SELECT * FROM notes");
    let written = world.write("UPDATE notes SET body = 'changed'").unwrap();
    assert_eq!(written.not_undoable, None);
    world.undo(&[world.kept.last()], false).unwrap();
    assert_eq!(world.rows("SELECT * FROM notes"), before);
    let many = || world.kept.happened.lock().unwrap().len();
    let kept = many();
    for sql in [
        "ALTER TABLE notes ADD COLUMN c DEFAULT 5",
        "CREATE TABLE keyed (k TEXT PRIMARY KEY) WITHOUT ROWID",
        "INSERT INTO keyed VALUES ('a')",
        // More rows than are kept one by one.
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50001) INSERT INTO notes(title) SELECT i FROM n",
    ] {
        let planned = world.database().plan(sql).unwrap();
        let tried = world.database().try_write((sql, &[]), &planned, ALL, &never()).unwrap();
        assert!(tried.written.not_undoable.is_some(), "{sql}: told before it happens");
        let why = world.write(sql).unwrap().not_undoable;
        assert!(why.is_some_and(|why| why.contains("larger than 64 MiB")), "{sql}");
        assert_eq!(many(), kept, "{sql}");
    }
    assert_eq!(world.rows("SELECT count(*) FROM notes"), [[integer(50_004)]]);
    // What came before it is undone all the same, by its rows, unless its table is another one now.
    let earlier = world.kept.happened.lock().unwrap()[1].clone();
    assert!(matches!(world.undo(&[earlier], true), Err(DatabaseError::Conflict { .. })));
}
