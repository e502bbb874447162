//! Tests of changes to the log by somebody who can write the database, and of the faults that
//! `verify` reports.
#![expect(clippy::unwrap_used, reason = "a helper of a test fails it by panicking")]

use std::path::Path;

use jiff::Timestamp;
use rusqlite::Connection;
use store_api::{AuditRow, Durability, Fault, Hash, HeadFileState, Kind, Store as _, Verification};
use store_sqlite::SqliteStore;

const ROWS: i64 = 10;

/// Creates a state folder with ten rows, and returns it with the hash of the last row.
fn folder() -> (tempfile::TempDir, Hash) {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path()).unwrap();
    append(&store, ROWS);
    let verification = store.audit().verify(None).unwrap();
    // The positive control of every test here: before the tampering there is no fault.
    assert_eq!((verification.rows, &verification.fault), (ROWS, &None));
    store.close().unwrap();
    (folder, verification.head)
}

fn append(store: &SqliteStore, rows: i64) {
    for number in 1..=rows {
        let call = format!("c{number}");
        let mut row = AuditRow::new(Kind::Call, Timestamp::UNIX_EPOCH, &call, "cli", "handfast", "file_read");
        row.outcome = Some("ok".to_owned());
        store.audit().append(row, Durability::Flushed).wait().unwrap();
    }
}

fn raw(folder: &Path) -> Connection {
    Connection::open(folder.join("handfast.db")).unwrap()
}

/// Runs SQL after removing the triggers, as an attacker would.
fn tamper(folder: &Path, sql: &str) {
    let connection = raw(folder);
    connection
        .execute_batch(
            "DROP TRIGGER audit_rows_are_never_changed;
             DROP TRIGGER audit_rows_are_never_deleted;
             DROP TRIGGER audit_rows_are_added_at_the_end;",
        )
        .unwrap();
    let before = connection.total_changes();
    connection.execute_batch(sql).unwrap();
    assert!(connection.total_changes() > before, "nothing was tampered with");
}

/// Lists the stored columns of the audit, without the generated ones.
fn stored_columns(folder: &Path) -> String {
    raw(folder)
        .query_row("SELECT group_concat(name, ', ') FROM pragma_table_info('audit')", [], |row| row.get(0))
        .unwrap()
}

fn verify(folder: &Path, expect: Option<Hash>) -> Verification {
    SqliteStore::open(folder).unwrap().audit().verify(expect).unwrap()
}

fn fault_after(sql: &str) -> Verification {
    let (folder, _) = folder();
    tamper(folder.path(), sql);
    verify(folder.path(), None)
}

#[test]
fn the_table_refuses_every_change_but_a_row_at_its_end() {
    let (folder, _) = folder();
    let connection = raw(folder.path());
    let copy_as = |verb: &str, number: i64| {
        format!(
            "{verb} INTO audit SELECT {number}, format, kind, time_us, call, session, door, dialect, tool, plan,
             decision, rule, approved_by, sandbox, duration_us, outcome, effect, output_ref, previous, hash
             FROM audit WHERE sequence = 1"
        )
    };
    for sql in [
        "UPDATE audit SET outcome = 'x' WHERE sequence = 3".to_owned(),
        "DELETE FROM audit WHERE sequence = 10".to_owned(),
        "DELETE FROM audit".to_owned(),
        "UPDATE OR REPLACE audit SET sequence = 3 WHERE sequence = 4".to_owned(),
        copy_as("INSERT OR REPLACE", 5),
        copy_as("INSERT", 12),
        copy_as("INSERT", 0),
    ] {
        let error = connection.execute_batch(&sql).unwrap_err();
        assert!(error.to_string().contains("append-only"), "{sql}: {error}");
    }
    assert_eq!(verify(folder.path(), None).fault, None);
    // Control: the table accepts the same statement with the next number.
    connection.execute_batch(&copy_as("INSERT", ROWS + 1)).unwrap();
    assert_eq!(verify(folder.path(), None).fault, Some(Fault::ChangedRow { sequence: ROWS + 1 }));
}

#[test]
fn a_change_of_any_column_is_found_at_its_row() {
    for change in [
        "kind = 'intent'",
        "time_us = time_us + 1",
        "call = 'x'",
        "session = ''",
        "door = 'mcp'",
        "dialect = 'msc'",
        "tool = 'file_write'",
        "plan = '{}'",
        "decision = 'pass'",
        "rule = 'x'",
        "approved_by = 'x'",
        "sandbox = 'x'",
        "duration_us = 0",
        "outcome = NULL",
        "outcome = CAST(x'ff' AS TEXT)",
        "effect = 'none'",
        "output_ref = 'x'",
        "format = 2",
        "hash = zeroblob(32)",
        "hash = x'00'",
    ] {
        let verification = fault_after(&format!("UPDATE audit SET {change} WHERE sequence = 4"));
        assert_eq!(verification.fault, Some(Fault::ChangedRow { sequence: 4 }), "{change}");
        assert_eq!(verification.rows, 3);
    }
}

#[test]
fn moving_a_value_into_the_next_column_is_a_change() {
    let sql = "UPDATE audit SET outcome = NULL, effect = outcome WHERE sequence = 4";
    assert_eq!(fault_after(sql).fault, Some(Fault::ChangedRow { sequence: 4 }));
}

#[test]
fn a_missing_row_is_named() {
    let verification = fault_after("DELETE FROM audit WHERE sequence = 4");
    assert_eq!(verification.fault, Some(Fault::MissingRow { sequence: 4 }));
    let first = fault_after("DELETE FROM audit WHERE sequence = 1");
    assert_eq!(first.fault, Some(Fault::MissingRow { sequence: 1 }));
}

#[test]
fn a_row_removed_with_its_gap_closed_is_found() {
    let verification = fault_after(
        "DELETE FROM audit WHERE sequence = 4;
         UPDATE audit SET sequence = -sequence WHERE sequence > 4;
         UPDATE audit SET sequence = -sequence - 1 WHERE sequence < 0",
    );
    assert_eq!(verification.fault, Some(Fault::ChangedRow { sequence: 4 }));
}

#[test]
fn swapped_rows_are_found() {
    let verification = fault_after(
        "UPDATE audit SET sequence = -4 WHERE sequence = 4;
         UPDATE audit SET sequence = 4 WHERE sequence = 5;
         UPDATE audit SET sequence = 5 WHERE sequence = -4",
    );
    assert_eq!(verification.fault, Some(Fault::ChangedRow { sequence: 4 }));
}

#[test]
fn a_row_inserted_with_a_right_hash_does_not_hide_that_a_later_one_moved() {
    // The other log has the same ten rows and an eleventh, which would follow the tenth row here
    // too.
    let (other, _) = folder();
    let store = SqliteStore::open(other.path()).unwrap();
    append(&store, 1);
    store.close().unwrap();
    let (folder, _) = folder();
    let columns = stored_columns(folder.path());
    tamper(
        folder.path(),
        &format!(
            "ATTACH '{}' AS other;
             UPDATE audit SET sequence = 12 WHERE sequence = 10;
             INSERT INTO audit ({columns}) SELECT {columns} FROM other.audit WHERE sequence IN (10, 11)",
            other.path().join("handfast.db").display()
        ),
    );
    let verification = verify(folder.path(), None);
    assert_eq!((verification.rows, verification.fault), (11, Some(Fault::ChangedRow { sequence: 12 })));
}

#[test]
fn a_row_that_names_another_row_before_it_is_a_broken_link() {
    let (folder, _) = folder();
    let second = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(second.path()).unwrap();
    // One more row at the start gives the same calls other hashes.
    append(&store, 1);
    append(&store, ROWS);
    store.close().unwrap();
    let columns = stored_columns(folder.path());
    tamper(
        folder.path(),
        &format!(
            "ATTACH '{}' AS other;
             DELETE FROM audit WHERE sequence = 6;
             INSERT INTO audit ({columns}) SELECT {columns} FROM other.audit WHERE sequence = 6",
            second.path().join("handfast.db").display()
        ),
    );
    assert_eq!(verify(folder.path(), None).fault, Some(Fault::BrokenLink { sequence: 6 }));
}

#[test]
fn a_row_before_the_first_is_found() {
    let verification = fault_after("UPDATE audit SET sequence = 0 WHERE sequence = 1");
    assert_eq!(verification.fault, Some(Fault::BrokenLink { sequence: 0 }));
}

#[test]
fn a_cut_tail_shows_in_the_head_file() {
    let verification = fault_after("DELETE FROM audit WHERE sequence > 7");
    assert_eq!(verification.fault, Some(Fault::CutTail { rows: 7, recorded: ROWS }));
    let all = fault_after("DELETE FROM audit");
    assert_eq!(all.fault, Some(Fault::CutTail { rows: 0, recorded: ROWS }));
}

#[test]
fn a_database_that_was_deleted_shows_too() {
    let (folder, _) = folder();
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().unwrap().to_str().unwrap().starts_with("handfast.db") {
            std::fs::remove_file(path).unwrap();
        }
    }
    assert_eq!(verify(folder.path(), None).fault, Some(Fault::CutTail { rows: 0, recorded: ROWS }));
}

#[test]
fn rows_appended_after_a_cut_do_not_cover_it_up() {
    let (folder, head) = folder();
    tamper(folder.path(), "DELETE FROM audit WHERE sequence > 7");
    let store = SqliteStore::open(folder.path()).unwrap();
    append(&store, 20);
    store.close().unwrap();
    assert_eq!(verify(folder.path(), None).fault, Some(Fault::Rewritten { sequence: ROWS }));
    assert_eq!(verify(folder.path(), Some(head)).expected_at, None);
}

#[test]
fn a_head_file_that_is_gone_or_damaged_is_a_finding_for_good() {
    for (content, expected) in [(None, Fault::HeadFileMissing), (Some("x"), Fault::HeadFileBroken)] {
        let (folder, _) = folder();
        let head = folder.path().join("audit.head");
        match content {
            None => std::fs::remove_file(&head).unwrap(),
            Some(content) => std::fs::write(&head, content).unwrap(),
        }
        let store = SqliteStore::open(folder.path()).unwrap();
        append(&store, 1);
        store.close().unwrap();
        assert_eq!(verify(folder.path(), None).fault, Some(expected));
    }
}

#[test]
fn who_cuts_the_log_and_puts_back_an_old_head_file_is_found_by_a_hash_kept_elsewhere() {
    let (folder, old) = folder();
    let head = folder.path().join("audit.head");
    let old_head = std::fs::read(&head).unwrap();
    let store = SqliteStore::open(folder.path()).unwrap();
    append(&store, 3);
    let kept_elsewhere = store.audit().verify(None).unwrap().head;
    store.close().unwrap();
    // Control: both hashes are found at their positions before the cut.
    assert_eq!(verify(folder.path(), Some(kept_elsewhere)).expected_at, Some(ROWS + 3));
    assert_eq!(verify(folder.path(), Some(old)).expected_at, Some(ROWS));

    tamper(folder.path(), "DELETE FROM audit WHERE sequence > 10");
    std::fs::write(&head, old_head).unwrap();
    let blind = verify(folder.path(), None);
    assert_eq!((blind.fault, blind.head_file), (None, Some(HeadFileState::Current)));
    let seeing = verify(folder.path(), Some(kept_elsewhere));
    assert_eq!(seeing.fault, Some(Fault::ExpectedAbsent { hash: kept_elsewhere }));
}
