//! Tests of files that other programs lock, damage or replace.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use database::{DatabaseError, StopCheck, Value};
use rusqlite::Connection;

use crate::world::{ALL, Kept, NOTES, World, integer, never};

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
    let stopped: StopCheck = Arc::new(move || seen.fetch_add(1, Ordering::SeqCst) > 2);
    let planned = world.database().plan("DELETE FROM notes").unwrap();
    let locked = world.database().write(("DELETE FROM notes", &[]), &planned, ALL, &world.kept, &stopped);
    assert!(matches!(locked, Err(DatabaseError::Locked)), "{locked:?}");
    assert_eq!(world.rows("SELECT count(*) FROM notes"), [[integer(3)]]);
    other.execute_batch("ROLLBACK").unwrap();
    world.write("DELETE FROM notes").unwrap();
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
    // A symbolic link, a hard link, a folder, a FIFO.
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
    // A symbolic link in place of the folder.
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
    for sql in NOTES {
        world.write(sql).unwrap();
    }
    assert_eq!(world.rows("SELECT count(*) FROM notes"), [[integer(3)]]);
    std::fs::remove_dir_all(world.database().path().parent().unwrap()).unwrap();
    assert!(matches!(world.query("SELECT * FROM notes"), Err(DatabaseError::Syntax(_))));
    assert_eq!(world.database().describe(None).unwrap(), []);
}
