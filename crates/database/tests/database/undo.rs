//! Tests of undo: every change is undone exactly, or the undo reports a conflict.

use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use database::{Change, DatabaseError, ReadPieces, StopCheck, Value};

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
        let (before, many) = (world.dump(), world.kept.happened.lock().len());
        world.write(sql).unwrap();
        let after = world.dump();
        if before == after {
            assert_eq!(world.kept.happened.lock().len(), many, "{sql} changed nothing");
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

/// Tables with foreign key actions, over several steps and in a cycle.
const FAMILIES: &[&str] = &[
    "CREATE TABLE parents (id INTEGER PRIMARY KEY, name TEXT UNIQUE, size, twice AS (size * 2) STORED, half AS (size / 2))",
    "CREATE TABLE children (id INTEGER PRIMARY KEY, parent REFERENCES Parents(id) ON DELETE CASCADE ON UPDATE CASCADE)",
    "CREATE TABLE toys (child REFERENCES children(id) ON DELETE SET NULL ON UPDATE CASCADE, name TEXT)",
    "CREATE TABLE \"Named ones\" (name DEFAULT 'b' REFERENCES parents(name) ON DELETE SET DEFAULT ON UPDATE SET NULL)",
    "CREATE TABLE branches (id INTEGER PRIMARY KEY, above REFERENCES branches(id) ON DELETE CASCADE)",
    "CREATE TABLE strict (parent REFERENCES parents(id))",
    "INSERT INTO parents(id, name, size) VALUES (1, 'a', 10), (2, 'b', 20), (3, 'c', 30)",
    "INSERT INTO children VALUES (1, 1), (2, 1), (3, 2), (4, 3)",
    "INSERT INTO toys VALUES (1, 'ball'), (3, 'car'), (NULL, 'nobody''s')",
    "INSERT INTO \"Named ones\" VALUES ('a'), ('b'), ('c')",
    "INSERT INTO branches VALUES (1, NULL), (2, 1), (3, 2), (4, 3)",
];

#[test]
fn what_follows_a_change_of_rows_is_undone_with_it_and_done_again() {
    for sql in [
        "INSERT INTO parents(name, size) VALUES ('d', 40)",
        "UPDATE parents SET size = size + 1",
        "UPDATE parents SET id = id + 10",
        "UPDATE parents SET name = name || '!' WHERE id <> 2",
        "DELETE FROM parents WHERE id = 1",
        "DELETE FROM parents WHERE id <> 2",
        "INSERT OR REPLACE INTO parents(id, name) VALUES (1, 'c')",
        "UPDATE children SET id = id * 100",
        "DELETE FROM children",
        "DELETE FROM branches WHERE id = 2",
        "DELETE FROM branches",
        "UPDATE branches SET above = NULL",
    ] {
        let world = World::with(FAMILIES);
        let before = world.dump();
        world.write(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        let (after, change) = (world.dump(), world.kept.last());
        assert_ne!(before, after, "{sql}");
        assert!(matches!(change, Change::Rows(_)), "{sql}");
        assert!(world.database().has_happened(&change).unwrap(), "{sql}");
        world.undo(std::slice::from_ref(&change), false).unwrap_or_else(|error| panic!("{sql}: {error}"));
        assert_eq!(world.dump(), before, "{sql}");
        assert_eq!(world.rows("PRAGMA integrity_check"), [[Value::Text("ok".into())]], "{sql}");
        world.undo(&[world.kept.last()], false).unwrap_or_else(|error| panic!("{sql}, again: {error}"));
        assert_eq!(world.dump(), after, "{sql}, done again");
        // Undo together with a later change of the schema, on a copy.
        world.write("CREATE TABLE further (a)").unwrap();
        let both = [world.kept.last(), change];
        world.undo(&both, false).unwrap_or_else(|error| panic!("{sql}, with another: {error}"));
        assert_eq!(world.dump(), before, "{sql}, with another");
    }
}

#[test]
fn what_came_to_follow_a_row_since_stands_against_undoing_it() {
    for (follower, is_gone) in [
        ("INSERT INTO children VALUES (9, 4)", "DELETE FROM children WHERE id = 9"),
        ("INSERT INTO strict VALUES (4)", "DELETE FROM strict"),
        ("INSERT INTO \"Named ones\" VALUES ('d')", "DELETE FROM \"Named ones\" WHERE name = 'd'"),
    ] {
        let world = World::with(FAMILIES);
        world.write("INSERT INTO parents(id, name) VALUES (4, 'd')").unwrap();
        let change = world.kept.last();
        world.write(follower).unwrap();
        let there = world.dump();
        for force in [false, true] {
            let refused = world.undo(std::slice::from_ref(&change), force);
            assert!(
                matches!(&refused, Err(DatabaseError::Conflict { what }) if what.contains("belong")),
                "{follower}: {refused:?}"
            );
        }
        assert_eq!(world.dump(), there, "{follower}");
        world.write(is_gone).unwrap();
        world.undo(&[change], false).unwrap();
        assert_eq!(world.rows("SELECT count(*) FROM parents"), [[integer(3)]]);
    }
    // Rows whose reference was already missing do not prevent the undo.
    let world = World::with(FAMILIES);
    let path = world.database().path();
    let loose = rusqlite::Connection::open(path).unwrap();
    loose.execute_batch("PRAGMA foreign_keys = OFF; INSERT INTO children VALUES (77, 777)").unwrap();
    world.write("DELETE FROM parents WHERE id = 1").unwrap();
    world.undo(&[world.kept.last()], false).unwrap();
    assert_eq!(world.rows("SELECT count(*) FROM children"), [[integer(5)]]);
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
    // Without the first change, the others are not as they were left.
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
    // A change of another row is not a conflict.
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

/// Statements whose undo needs a snapshot of the whole database.
const OF_THE_WHOLE: [&str; 6] = [
    "ALTER TABLE notes ADD COLUMN c DEFAULT 5",
    "CREATE TABLE keyed (k TEXT PRIMARY KEY) WITHOUT ROWID",
    "INSERT INTO keyed VALUES ('a')",
    // More rows than are tracked one by one.
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50001) INSERT INTO notes(title) SELECT i FROM n",
    "DROP TABLE large",
    "DROP TABLE notes",
];

#[test]
fn what_only_all_of_a_database_of_many_pieces_undoes_is_undone_one_after_the_other_and_all_together() {
    let world = World::with(NOTES);
    world.write("CREATE TABLE large (b BLOB)").unwrap();
    for _ in 0..5 {
        world.write("INSERT INTO large SELECT randomblob(3 << 20)").unwrap();
    }
    world.write("UPDATE notes SET body = 'changed'").unwrap();
    world.undo(&[world.kept.last()], false).unwrap();
    let digest = || {
        let rows =
            |sql| world.query(sql).map_or_else(|error| error.to_string(), |page| format!("{:?}", page.rows));
        [
            rows("SELECT type, name, sql FROM sqlite_schema ORDER BY 1, 2"),
            rows("SELECT count(*), sum(length(b)) FROM large"),
            rows("SELECT * FROM notes ORDER BY 1"),
            rows("SELECT * FROM keyed"),
        ]
    };
    let (mut states, mut changes) = (vec![digest()], Vec::new());
    for sql in OF_THE_WHOLE {
        let planned = world.database().plan(sql).unwrap();
        let tried = world.database().try_write((sql, &[]), &planned, ALL, &never()).unwrap();
        assert_eq!(tried.written.not_undoable, None, "{sql}");
        assert_eq!(world.write(sql).unwrap().not_undoable, None, "{sql}");
        changes.insert(0, world.kept.last());
        states.push(digest());
    }
    world.undo(&changes, false).unwrap();
    assert_eq!(digest(), states[0]);
    world.undo(&[world.kept.last()], false).unwrap();
    assert_eq!(digest(), states[OF_THE_WHOLE.len()]);
    for (change, state) in changes.iter().zip(states.iter().rev().skip(1)) {
        world.undo(std::slice::from_ref(change), false).unwrap();
        assert_eq!(digest(), *state);
    }
    assert_eq!(world.spooled(), 0);
}

#[test]
fn beyond_what_can_be_saved_rows_are_undone_and_what_only_all_of_it_would_undo_says_that_it_is_not() {
    let world = World::new();
    let path = world.database().path();
    std::fs::create_dir(path.parent().unwrap()).unwrap();
    let connection = rusqlite::Connection::open(path).unwrap();
    connection.execute_batch(&format!("{}; {}; CREATE TABLE large (b BLOB)", NOTES[0], NOTES[1])).unwrap();
    drop(connection);
    // Append empty pages as a sparse file, which takes no room on the disk. The header holds the
    // number of pages.
    let file = std::fs::File::options().write(true).open(path).unwrap();
    let pages = (4 << (30 - 12)) + 1_u32;
    file.set_len(u64::from(pages) * 4096).unwrap();
    file.write_all_at(&pages.to_be_bytes(), 28).unwrap();
    drop(file);
    let before = world.rows("SELECT * FROM notes");
    let written = world.write("UPDATE notes SET body = 'changed'").unwrap();
    assert_eq!(written.not_undoable, None);
    world.undo(&[world.kept.last()], false).unwrap();
    assert_eq!(world.rows("SELECT * FROM notes"), before);
    let many = || world.kept.happened.lock().len();
    let kept = many();
    for sql in OF_THE_WHOLE {
        let planned = world.database().plan(sql).unwrap();
        let tried = world.database().try_write((sql, &[]), &planned, ALL, &never()).unwrap();
        assert!(tried.written.not_undoable.is_some(), "{sql}: told before it happens");
        let why = world.write(sql).unwrap().not_undoable;
        assert!(why.is_some_and(|why| why.contains("larger than 4 GiB")), "{sql}");
        assert_eq!(many(), kept, "{sql}");
    }
    // Earlier changes are undone by their rows, unless the table was recreated.
    let earlier = world.kept.happened.lock()[0].clone();
    assert!(matches!(world.undo(&[earlier], true), Err(DatabaseError::Conflict { .. })));
}

#[test]
fn what_is_stopped_while_it_is_saved_or_put_back_changes_nothing() {
    let world = World::with(NOTES);
    world.write("CREATE TABLE large (b BLOB)").unwrap();
    world.write("INSERT INTO large SELECT randomblob(8 << 20)").unwrap();
    let (before, many) = (world.dump(), world.kept.happened.lock().len());
    let sql = "ALTER TABLE notes ADD COLUMN c DEFAULT 5";
    let planned = world.database().plan(sql).unwrap();
    // Stop at every check in turn, until the undo is no longer stopped.
    let stopped_at = |most: usize| {
        let looks = Arc::new(AtomicUsize::new(0));
        let stopped: StopCheck = Arc::new(move || looks.fetch_add(1, Ordering::SeqCst) >= most);
        stopped
    };
    let mut stops = 0;
    for most in 0.. {
        match world.database().write((sql, &[]), &planned, ALL, &world.kept, &stopped_at(most)) {
            Ok(_) => break,
            Err(DatabaseError::Stopped) => stops += 1,
            Err(other) => panic!("{other}"),
        }
        assert_eq!(world.dump(), before);
        assert_eq!(world.kept.happened.lock().len(), many);
    }
    assert!(stops > 2, "{stops}");
    let (after, change) = (world.dump(), world.kept.last());
    let mut stops = 0;
    for most in (0..).map(|step| 1 << step) {
        let changes = std::slice::from_ref(&change);
        match world.database().undo(changes, false, Some(&world.kept), &stopped_at(most)) {
            Ok(_) => break,
            Err(DatabaseError::Stopped) => stops += 1,
            Err(other) => panic!("{other}"),
        }
        assert_eq!(world.dump(), after);
    }
    assert!(stops > 2, "{stops}");
    assert_eq!(world.dump(), before);
    assert_eq!(world.spooled(), 0);
}

#[test]
fn what_was_saved_and_is_damaged_or_gone_is_said_and_nothing_changes() {
    let world = World::with(NOTES);
    world.write("CREATE TABLE large (b BLOB)").unwrap();
    world.write("INSERT INTO large SELECT randomblob(2 << 20)").unwrap();
    world.write("DROP TABLE large").unwrap();
    let (after, change) = (world.dump(), world.kept.last());
    let saved = world.kept.pieces.lock().clone();
    let hashes = world.kept.hashes.lock().clone();
    assert!(hashes.len() > 4, "{}", hashes.len());
    for (number, hash) in hashes.iter().enumerate() {
        let damage = |how: fn(&mut Vec<u8>)| {
            let mut damaged = saved.clone();
            how(damaged.get_mut(hash).unwrap());
            *world.kept.pieces.lock() = damaged;
            // A dry run reads no piece, because it would have to assemble all of them.
            world.database().undo(std::slice::from_ref(&change), false, Some(&world.kept), &never())
        };
        if number == 2 {
            // Flip a bit within the value.
            let flipped = damage(|piece| piece[5000] ^= 1);
            assert!(matches!(flipped, Err(DatabaseError::SavedDamaged)), "{flipped:?}");
        }
        let cut = damage(|piece| piece.truncate(4096));
        assert!(matches!(cut, Err(DatabaseError::SavedDamaged)), "{cut:?}");
        world.kept.pieces.lock().remove(hash);
        let gone = world.database().undo(std::slice::from_ref(&change), false, Some(&world.kept), &never());
        assert!(matches!(gone, Err(DatabaseError::SavedGone(_))), "{gone:?}");
        assert_eq!(world.dump(), after);
    }
    *world.kept.pieces.lock() = saved;
    world.undo(&[change], false).unwrap();
    assert_eq!(world.rows("SELECT length(b) FROM large"), [[integer(2 << 20)]]);
}

#[test]
fn what_the_first_format_kept_of_a_whole_database_is_undone() {
    let world = World::with(NOTES);
    let before = world.dump();
    world.write("CREATE TABLE t (a)").unwrap();
    let (after, change) = (world.dump(), world.kept.last());
    let hashes = world.kept.hashes.lock().clone();
    let encoded = change.encode(&hashes).unwrap();
    let told = encoded.iter().position(|byte| *byte == b'{').unwrap();
    let told: serde_json::Value = serde_json::from_slice(&encoded[told..]).unwrap();
    let digest: Vec<u8> = serde_json::from_value(told["after"].clone()).unwrap();
    let image: Vec<u8> = hashes.iter().flat_map(|hash| world.kept.pieces.lock()[hash].clone()).collect();
    let none: ReadPieces = Arc::new(|_, _| Err("there are none".into()));
    let first = Change::decode(&[b"file1\n", &*digest, &*image].concat(), &none).unwrap();
    assert!(world.database().has_happened(&first).unwrap());
    world.undo(std::slice::from_ref(&first), false).unwrap();
    assert_eq!(world.dump(), before);
    assert!(!world.database().has_happened(&first).unwrap());
    world.undo(&[world.kept.last()], false).unwrap();
    assert_eq!(world.dump(), after);
    // Undo both changes, the later one first.
    world.write("DROP TABLE t").unwrap();
    let later = world.kept.last();
    world.undo(&[later, first], false).unwrap();
    assert_eq!(world.dump(), before);
}

#[test]
fn a_change_of_the_schema_shows_its_statements() {
    let world = World::with(NOTES);
    world.write("CREATE TABLE more (a)").unwrap();
    assert_eq!(world.kept.last().lines(false), ["+CREATE TABLE more (a)"]);
    world.write("ALTER TABLE more ADD COLUMN b").unwrap();
    let altered = ["-CREATE TABLE more (a)", "+CREATE TABLE more (a, b)"];
    assert_eq!(world.kept.last().lines(false), altered);
    assert_eq!(world.kept.last().lines(true), ["-CREATE TABLE more (a, b)", "+CREATE TABLE more (a)"]);
    world.undo(&[world.kept.last()], false).unwrap();
    assert_eq!(world.kept.last().lines(true), altered, "what undoes the undoing");
}

#[test]
fn whether_a_change_of_many_rows_has_happened_is_found_out_without_waiting() {
    let world = World::with(&[
        "CREATE TABLE parents (id INTEGER PRIMARY KEY)",
        "CREATE TABLE children (id INTEGER PRIMARY KEY, parent REFERENCES parents(id))",
    ]);
    let many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)";
    world.write(&format!("{many} INSERT INTO parents SELECT i FROM n")).unwrap();
    world.write(&format!("{many} INSERT INTO children SELECT i, i FROM n")).unwrap();
    let change = world.kept.last();
    assert!(matches!(change, Change::Rows(_)));
    assert!(world.database().has_happened(&change).unwrap());
    world.undo(std::slice::from_ref(&change), false).unwrap();
    assert!(!world.database().has_happened(&change).unwrap());
}
