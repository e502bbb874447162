//! Tests of the log in one process: recorded rows, their times, and the state after each kind of
//! interruption.

use std::path::Path;
use std::time::Duration;

use jiff::{Timestamp, ToSpan};
use store_api::{Fault, HeadFileState, Kind, ROW_BYTES_MAX, Store as _};

use super::head::tests::write_as_another_boot;
use super::head::{HeadFile, HeadRead, Point};
use super::*;
use crate::SqliteStore;

fn store() -> (tempfile::TempDir, SqliteStore) {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path()).unwrap();
    (folder, store)
}

fn row(call: &str) -> AuditRow {
    AuditRow::new(Kind::Call, Timestamp::UNIX_EPOCH, call, "cli", "handfast", "file_read")
}

fn append(store: &SqliteStore, calls: std::ops::RangeInclusive<u32>, durability: Durability) {
    for call in calls {
        store.audit().append(row(&call.to_string()), durability).wait().unwrap();
    }
}

fn calls(store: &SqliteStore) -> Vec<String> {
    let newest_first = store.audit().list(&Filter { limit: u32::MAX, ..Filter::default() }).unwrap();
    newest_first.into_iter().rev().map(|recorded| recorded.row.call).collect()
}

fn head_of(folder: &Path) -> (i64, i64) {
    match HeadFile::look(&folder.join("audit.head")).unwrap() {
        HeadRead::Head(head) => (head.flushed.rows, head.committed.rows),
        other => panic!("{other:?}"),
    }
}

/// Copies the state folder from disk at this moment, as a killed process leaves it.
fn copy(folder: &Path) -> tempfile::TempDir {
    let copied = tempfile::tempdir().unwrap();
    for name in ["handfast.db", "handfast.db-wal", "audit.head"] {
        if folder.join(name).exists() {
            std::fs::copy(folder.join(name), copied.path().join(name)).unwrap();
        }
    }
    copied
}

#[test]
fn every_field_comes_back_as_it_went_in() {
    let (_folder, store) = store();
    let full = AuditRow {
        kind: Kind::Outcome,
        time: "2026-02-03T04:05:06.789012Z".parse().unwrap(),
        call: "c1".to_owned(),
        session: Some("s1".to_owned()),
        door: "mcp".to_owned(),
        dialect: "elophanto".to_owned(),
        tool: "shell_execute".to_owned(),
        plan: Some(r#"{"effects": ["run ls"], "text": "ü\u0000 \n"}"#.to_owned()),
        decision: Some("check".to_owned()),
        rule: Some("mode smart_auto".to_owned()),
        approved_by: Some("terminal".to_owned()),
        sandbox: Some("namespaces".to_owned()),
        duration: Some(Duration::from_micros(1_234_567)),
        outcome: Some("ok".to_owned()),
        effect: Some("done".to_owned()),
        output_ref: Some("o1".to_owned()),
    };
    store.audit().append(full.clone(), Durability::Committed).wait().unwrap();
    let shown = store.audit().show("c1").unwrap();
    assert_eq!(shown.len(), 1);
    assert_eq!(shown[0].row, full);
    assert_eq!((shown[0].sequence, shown[0].previous), (1, Hash::GENESIS));
    assert!(store.audit().show("c2").unwrap().is_empty());
}

#[test]
fn rows_are_chained_and_proved_whatever_their_durability() {
    let (folder, store) = store();
    append(&store, 1..=3, Durability::Behind);
    append(&store, 4..=4, Durability::Committed);
    append(&store, 5..=5, Durability::Flushed);
    assert_eq!(calls(&store), ["1", "2", "3", "4", "5"]);
    let newest = store.audit().list(&Filter::default()).unwrap();
    assert!(newest.windows(2).all(|pair| pair[0].previous == pair[1].hash));
    let verification = store.audit().verify(None).unwrap();
    assert_eq!((verification.rows, verification.fault), (5, None));
    assert_eq!(verification.head, newest[0].hash);
    assert_eq!(verification.head_file, Some(HeadFileState::Current));
    assert_eq!(head_of(folder.path()), (5, 5));
}

#[test]
fn rows_written_behind_survive_an_orderly_end_and_are_flushed_by_it() {
    let (folder, store) = store();
    append(&store, 1..=3_000, Durability::Behind);
    store.close().unwrap();
    assert_eq!(head_of(folder.path()), (3_000, 3_000));
    append_is_refused(&store);
    drop(store);
    let store = SqliteStore::open(folder.path()).unwrap();
    assert_eq!(store.audit().verify(None).unwrap().rows, 3_000);
    append(&store, 1..=1, Durability::Behind);
    drop(store);
    assert_eq!(SqliteStore::open(folder.path()).unwrap().audit().verify(None).unwrap().rows, 3_001);
}

fn append_is_refused(store: &SqliteStore) {
    let refused = store.audit().append(row("late"), Durability::Behind).wait();
    assert!(matches!(refused, Err(StoreError::Closed)));
}

#[test]
fn a_store_that_only_reads_starts_no_thread_and_leaves_the_head_alone() {
    let (folder, store) = store();
    assert!(store.audit().list(&Filter::default()).unwrap().is_empty());
    assert_eq!(store.audit().verify(Some(Hash::GENESIS)).unwrap().expected_at, Some(0));
    assert!(!store.audit.writer.is_running());
    store.close().unwrap();
    append_is_refused(&store);
    assert_eq!(head_of(folder.path()), (0, 0));

    let control = SqliteStore::open(folder.path()).unwrap();
    append(&control, 1..=1, Durability::Behind);
    assert!(control.audit.writer.is_running());
}

/// Makes every write fail, or work again.
fn hide_the_table(folder: &Path, hide: bool) {
    let (from, to) = if hide { ("audit", "hidden") } else { ("hidden", "audit") };
    let connection = rusqlite::Connection::open(folder.join("handfast.db")).unwrap();
    connection.execute_batch(&format!("ALTER TABLE {from} RENAME TO {to}")).unwrap();
}

#[test]
fn a_row_behind_that_could_not_be_written_is_told_at_the_next_and_written_later() {
    let (folder, store) = store();
    hide_the_table(folder.path(), true);
    append(&store, 1..=1, Durability::Behind);
    let told = store.audit().append(row("2"), Durability::Committed).wait();
    assert!(matches!(told, Err(StoreError::Database { .. })));
    let told = store.audit().append(row("3"), Durability::Behind).wait();
    assert!(matches!(told, Err(StoreError::Database { .. })));

    hide_the_table(folder.path(), false);
    append(&store, 4..=4, Durability::Behind);
    store.close().unwrap();
    let store = SqliteStore::open(folder.path()).unwrap();
    // Callers that received the failure must repeat their rows; the row that was answered is
    // present.
    assert_eq!(calls(&store), ["1", "4"]);
    assert_eq!(store.audit().verify(None).unwrap().fault, None);
}

#[test]
fn rows_behind_that_never_could_be_written_are_counted_at_the_end() {
    let (folder, store) = store();
    hide_the_table(folder.path(), true);
    append(&store, 1..=1, Durability::Behind);
    let error = store.close().unwrap_err();
    assert!(
        matches!(&error, StoreError::Unwritten { rows: 1, source } if matches!(**source, StoreError::Database { .. }))
    );
    assert!(store.close().is_ok(), "it is told once");
}

#[test]
fn a_plan_must_be_json_on_one_line_and_a_row_has_a_limit() {
    let (_folder, store) = store();
    for (plan, field) in [
        ("{".to_owned(), "plan"),
        ("{}\n{}".to_owned(), "plan"),
        ("[1,\n2]".to_owned(), "plan"),
        (format!("\"{}\"", "x".repeat(ROW_BYTES_MAX)), "text"),
    ] {
        let refused = AuditRow { plan: Some(plan), ..row("1") };
        let answer = store.audit().append(refused, Durability::Flushed).wait();
        assert!(matches!(answer, Err(StoreError::RowRefused { field: found, .. }) if found == field));
    }
    assert!(calls(&store).is_empty());
}

#[test]
fn a_page_is_filtered_and_continued() {
    let (_folder, store) = store();
    for number in 1..=9_i64 {
        let session = (number % 3 == 0).then(|| "third".to_owned());
        let tool = if number % 2 == 0 { "file_write" } else { "file_read" }.to_owned();
        let time = Timestamp::UNIX_EPOCH + number.hours();
        let row = AuditRow { time, session, tool, ..row(&number.to_string()) };
        store.audit().append(row, Durability::Committed).wait().unwrap();
    }
    let page = |filter: Filter| -> Vec<i64> {
        store.audit().list(&filter).unwrap().iter().map(|recorded| recorded.sequence).collect()
    };
    let all = Filter::default();
    assert_eq!(page(all.clone()), [9, 8, 7, 6, 5, 4, 3, 2, 1]);
    assert_eq!(page(Filter { session: Some("third".to_owned()), ..all.clone() }), [9, 6, 3]);
    assert_eq!(page(Filter { tool: Some("file_write".to_owned()), ..all.clone() }), [8, 6, 4, 2]);
    assert_eq!(page(Filter { since: Some(Timestamp::UNIX_EPOCH + 8.hours()), ..all.clone() }), [9, 8]);
    let later = Some(Timestamp::UNIX_EPOCH + 10.hours());
    assert_eq!(page(Filter { since: later, ..all.clone() }), [0; 0]);
    assert_eq!(page(Filter { before: Some(4), limit: 2, ..all.clone() }), [3, 2]);
    let hostile = Filter { session: Some("' OR 1=1 --".to_owned()), ..all };
    assert_eq!(page(hostile), [0; 0]);
}

#[test]
fn rows_since_a_time_are_found_although_the_clock_was_set_back() {
    let (_folder, store) = store();
    for (call, hour) in [("1", 1), ("2", 9), ("3", 2), ("4", 8), ("5", 3)] {
        let time = Timestamp::UNIX_EPOCH + hour.hours();
        store.audit().append(AuditRow { time, ..row(call) }, Durability::Committed).wait().unwrap();
    }
    let since = Some(Timestamp::UNIX_EPOCH + 8.hours());
    let page = store.audit().list(&Filter { since, ..Filter::default() }).unwrap();
    assert_eq!(page.iter().map(|recorded| recorded.sequence).collect::<Vec<_>>(), [4, 2]);
}

#[test]
fn the_export_is_one_json_object_a_line_with_the_plan_as_json() {
    let (_folder, store) = store();
    let with_plan = AuditRow { plan: Some(r#"{"effects":["read a"]}"#.to_owned()), ..row("1") };
    store.audit().append(with_plan, Durability::Committed).wait().unwrap();
    append(&store, 2..=3, Durability::Committed);
    let mut target = Vec::new();
    assert_eq!(store.audit().export(&mut target).unwrap(), 3);
    let text = String::from_utf8(target).unwrap();
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 3);
    assert_eq!(lines[0]["plan"]["effects"][0], "read a");
    assert_eq!(lines[0]["time"], "1970-01-01T00:00:00Z");
    assert_eq!(lines[2]["previous"], lines[1]["hash"]);
}

#[test]
fn an_export_to_a_full_target_says_so() {
    let (_folder, store) = store();
    append(&store, 1..=3, Durability::Committed);
    let error = store.audit().export(&mut &mut [0_u8; 10][..]).unwrap_err();
    assert!(matches!(error, StoreError::Export { .. }));
}

#[test]
fn committed_rows_survive_a_kill_and_the_head_file_names_them() {
    let (folder, store) = store();
    append(&store, 1..=2, Durability::Flushed);
    append(&store, 3..=4, Durability::Committed);
    assert_eq!(head_of(folder.path()), (2, 4));
    let killed = copy(folder.path());
    let survivor = SqliteStore::open(killed.path()).unwrap();
    assert_eq!(calls(&survivor), ["1", "2", "3", "4"]);
    let verification = survivor.audit().verify(None).unwrap();
    assert_eq!((verification.fault, verification.head_file), (None, Some(HeadFileState::Current)));
}

#[test]
fn a_kill_between_the_commit_and_the_head_file_is_no_fault_and_heals() {
    let (folder, store) = store();
    append(&store, 1..=2, Durability::Flushed);
    let head = folder.path().join("audit.head");
    let before = std::fs::read(&head).unwrap();
    append(&store, 3..=5, Durability::Flushed);
    let killed = copy(folder.path());
    std::fs::write(killed.path().join("audit.head"), before).unwrap();

    let survivor = SqliteStore::open(killed.path()).unwrap();
    let verification = survivor.audit().verify(None).unwrap();
    assert_eq!((verification.rows, verification.fault), (5, None));
    assert_eq!(verification.head_file, Some(HeadFileState::Behind { rows: 3 }));
    append(&survivor, 6..=6, Durability::Committed);
    let verification = survivor.audit().verify(None).unwrap();
    assert_eq!((verification.fault, verification.head_file), (None, Some(HeadFileState::Current)));
}

/// Creates a folder whose log has rows 1 to 3, and whose head file names row 3 as flushed and row 5
/// as committed.
fn folder_without_its_last_two_rows(same_boot: bool) -> tempfile::TempDir {
    let (folder, store) = store();
    append(&store, 1..=3, Durability::Flushed);
    let lost = copy(folder.path());
    let flushed = store.audit().verify(None).unwrap().head;
    append(&store, 4..=5, Durability::Committed);
    let committed = store.audit().verify(None).unwrap().head;
    let head = lost.path().join("audit.head");
    if same_boot {
        std::fs::copy(folder.path().join("audit.head"), head).unwrap();
    } else {
        let (flushed, committed) = (Point { rows: 3, hash: flushed }, Point { rows: 5, hash: committed });
        write_as_another_boot(&head, flushed, committed);
    }
    lost
}

#[test]
fn unflushed_rows_that_a_power_loss_took_are_told_but_no_fault() {
    let lost = folder_without_its_last_two_rows(false);
    let store = SqliteStore::open(lost.path()).unwrap();
    let verification = store.audit().verify(None).unwrap();
    assert_eq!((verification.rows, verification.fault), (3, None));
    assert_eq!(verification.head_file, Some(HeadFileState::UnflushedLost { rows: 2 }));
    append(&store, 6..=6, Durability::Committed);
    let verification = store.audit().verify(None).unwrap();
    assert_eq!((verification.fault, verification.head_file), (None, Some(HeadFileState::Current)));
}

#[test]
fn the_same_rows_missing_without_a_restart_are_a_cut_tail_for_good() {
    let lost = folder_without_its_last_two_rows(true);
    let store = SqliteStore::open(lost.path()).unwrap();
    let cut = |store: &SqliteStore| store.audit().verify(None).unwrap().fault;
    assert_eq!(cut(&store), Some(Fault::CutTail { rows: 3, recorded: 5 }));
    // Later rows fill the numbers of the removed ones, but do not hide the cut.
    append(&store, 6..=6, Durability::Flushed);
    assert_eq!(cut(&store), Some(Fault::CutTail { rows: 4, recorded: 5 }));
    append(&store, 7..=9, Durability::Flushed);
    assert_eq!(cut(&store), Some(Fault::Rewritten { sequence: 5 }));
    store.close().unwrap();
    assert_eq!(cut(&store), Some(Fault::Rewritten { sequence: 5 }));
}

#[test]
fn flushed_rows_missing_after_a_restart_are_a_cut_tail_for_good() {
    let lost = folder_without_its_last_two_rows(true);
    let named = Point { rows: 5, hash: Hash::of(b"the hash of row 5") };
    write_as_another_boot(&lost.path().join("audit.head"), named, named);
    let store = SqliteStore::open(lost.path()).unwrap();
    let fault = |store: &SqliteStore| store.audit().verify(None).unwrap().fault;
    assert_eq!(fault(&store), Some(Fault::CutTail { rows: 3, recorded: 5 }));
    append(&store, 6..=9, Durability::Flushed);
    assert_eq!(fault(&store), Some(Fault::Rewritten { sequence: 5 }));
}

#[test]
fn a_row_that_nobody_is_ahead_of_is_committed_by_its_caller() {
    let (folder, store) = store();
    assert!(store.audit().append(row("1"), Durability::Committed).is_answered());
    // The thread has to wait for this lock, but the caller does not.
    let other = rusqlite::Connection::open(folder.path().join("handfast.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let told = store.audit().append(row("2"), Durability::Committed);
    let next = store.audit().append(row("3"), Durability::Committed);
    assert!(!told.is_answered() && !next.is_answered());
    other.execute_batch("ROLLBACK").unwrap();
    told.wait().unwrap();
    next.wait().unwrap();
    assert_eq!(calls(&store), ["1", "2", "3"]);
    assert_eq!(store.audit().verify(None).unwrap().head_file, Some(HeadFileState::Current));
}

#[test]
fn the_head_file_in_other_hands_is_not_waited_for_by_a_caller() {
    let (folder, store) = store();
    append(&store, 1..=1, Durability::Committed);
    let held = HeadFile::open(&folder.path().join("audit.head")).unwrap().unwrap();
    let turn = held.turn().unwrap();
    let told = store.audit().append(row("2"), Durability::Committed);
    assert!(!told.is_answered());
    drop(turn);
    told.wait().unwrap();
    assert_eq!(head_of(folder.path()).1, 2);
}

#[test]
fn rows_that_callers_commit_are_flushed_by_the_orderly_end() {
    let (folder, store) = store();
    append(&store, 1..=3, Durability::Committed);
    assert_eq!(head_of(folder.path()), (0, 3));
    store.close().unwrap();
    assert_eq!(head_of(folder.path()), (3, 3));
}

#[test]
fn the_log_of_changes_stays_short_whoever_commits() {
    let (folder, store) = store();
    append(&store, 1..=3_000, Durability::Committed);
    let bytes = std::fs::metadata(folder.path().join("handfast.db-wal")).unwrap().len();
    // Four pages of 4 KiB per row, if the WAL were never moved into the database.
    assert!(bytes < 16 * 1024 * 1024, "{bytes} bytes");
}

#[test]
fn rows_of_many_threads_and_durabilities_keep_the_order_of_each() {
    let (_folder, store) = store();
    let kinds = [Durability::Committed, Durability::Behind, Durability::Committed, Durability::Flushed];
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let store = &store;
            scope.spawn(move || {
                for number in 0..100_usize {
                    let receipt =
                        store.audit().append(row(&format!("{thread} {number:03}")), kinds[number % 4]);
                    if number % 3 != 0 {
                        receipt.wait().unwrap();
                    }
                }
            });
        }
    });
    store.close().unwrap();
    let all = calls(&store);
    for thread in 0..4 {
        let of_thread: Vec<&String> =
            all.iter().filter(|call| call.starts_with(&format!("{thread} "))).collect();
        assert_eq!(of_thread.len(), 100);
        assert!(of_thread.is_sorted());
    }
    let proved = store.audit().verify(None).unwrap();
    assert_eq!((proved.rows, proved.fault), (400, None));
}
