//! Tests of dry runs.

use database::{Change, DatabaseError, DryRunResult, Value};
use rusqlite::Connection;

use crate::world::{ALL, NOTES, World, never};

fn tried(world: &World, sql: &str) -> Result<DryRunResult, DatabaseError> {
    let planned = world.database().plan(sql)?;
    world.database().try_write((sql, &[]), &planned, ALL, &never())
}

#[test]
fn what_is_tried_is_what_the_call_then_does_and_nothing_has_changed_before_it() {
    let world = World::with(NOTES);
    world.write("CREATE TABLE plain (a)").unwrap();
    world.write("CREATE TABLE noted (a)").unwrap();
    world
        .write("CREATE TRIGGER notes_it AFTER INSERT ON noted BEGIN INSERT INTO plain VALUES (NEW.a); END")
        .unwrap();
    for sql in [
        "INSERT INTO plain VALUES (1), (2), (3)",
        "UPDATE plain SET a = 'x' WHERE a = 2 RETURNING a",
        "UPDATE plain SET a = a",
        "DELETE FROM plain WHERE a = 1",
        "INSERT INTO noted VALUES (9)",
        "CREATE TABLE made AS SELECT a FROM plain",
        "CREATE INDEX i ON plain(a)",
        "ALTER TABLE plain RENAME COLUMN a TO b",
        "CREATE VIRTUAL TABLE f USING fts5(body)",
        "INSERT INTO f VALUES ('words')",
        "DROP TABLE made",
        "DELETE FROM plain",
    ] {
        let before = world.dump();
        let tried = tried(&world, sql).unwrap();
        assert_eq!(world.dump(), before, "{sql}");
        let kept = world.kept.happened.lock().len();
        let written = world.write(sql).unwrap();
        assert_eq!(tried.written, written, "{sql}");
        let changes = world.kept.happened.lock();
        match changes.get(kept) {
            Some(change @ Change::Rows(_)) => assert_eq!(tried.lines, change.lines(false), "{sql}"),
            Some(Change::Whole { .. }) => assert!(!tried.lines.is_empty(), "{sql}"),
            None => assert!(tried.lines.is_empty(), "{sql}: {:?}", tried.lines),
        }
    }
    let altered = tried(&world, "ALTER TABLE noted ADD COLUMN b").unwrap();
    assert_eq!(altered.lines, ["-CREATE TABLE noted (a)", "+CREATE TABLE noted (a, b)"]);
}

#[test]
fn what_the_call_would_be_refused_for_is_refused() {
    let world = World::with(&[
        "CREATE TABLE parents (id INTEGER PRIMARY KEY)",
        "CREATE TABLE children (parent REFERENCES parents(id) DEFERRABLE INITIALLY DEFERRED)",
        "CREATE TABLE single (a UNIQUE)",
        "INSERT INTO single VALUES (1)",
    ]);
    for sql in ["INSERT INTO single VALUES (1)", "INSERT INTO children VALUES (7)"] {
        let told = tried(&world, sql).unwrap_err();
        assert!(matches!(told, DatabaseError::Constraint(_)), "{sql}: {told}");
        assert_eq!(told.to_string(), world.write(sql).unwrap_err().to_string(), "{sql}");
    }
    tried(&world, "INSERT INTO single VALUES (2)").unwrap();
}

#[test]
fn a_database_that_is_not_there_is_not_made() {
    let world = World::new();
    let sql = "CREATE TABLE t AS SELECT 1 AS a";
    assert_eq!(tried(&world, sql).unwrap().lines, ["+CREATE TABLE t(a)"]);
    assert!(!world.database().path().exists());
    assert!(!world.database().path().parent().unwrap().exists());
}

#[test]
fn the_file_of_another_program_stays_as_it_is_to_the_last_byte() {
    let world = World::new();
    let path = world.database().path();
    std::fs::create_dir(path.parent().unwrap()).unwrap();
    Connection::open(path).unwrap().execute_batch("CREATE TABLE t (a); INSERT INTO t VALUES (1)").unwrap();
    let before = std::fs::read(path).unwrap();
    assert_eq!(tried(&world, "UPDATE t SET a = 2").unwrap().lines, ["-t(1)", "+t(2)"]);
    assert_eq!(std::fs::read(path).unwrap(), before);
    assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    assert_eq!(world.rows("SELECT a FROM t"), [[Value::Integer(1)]]);
}

#[test]
fn a_change_without_end_is_ended_before_it_fills_the_memory() {
    let world = World::new();
    let sql = "CREATE TABLE t AS WITH RECURSIVE c(x) AS
               (SELECT zeroblob(1000000) UNION ALL SELECT x FROM c) SELECT x FROM c";
    let told = tried(&world, sql).unwrap_err();
    assert!(matches!(told, DatabaseError::TooLarge(_)), "{told}");
}
