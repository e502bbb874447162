//! Tests of a full disk, a read-only folder, and a damaged or newer database. The error names the
//! path and gives advice, and no recorded row is lost.
//!
//! The disks are small ones, mounted in a user namespace, which the sandbox needs as well.
#![expect(clippy::disallowed_methods, reason = "these tests are about other processes")]
#![expect(clippy::unwrap_used, reason = "a helper of a test fails it by panicking")]

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use jiff::Timestamp;
use rusqlite::Connection;
use store_api::{AuditRow, Durability, Filter, Hash, Kind, Store as _, StoreError};
use store_sqlite::SqliteStore;

/// Runs a script with a disk of one megabyte mounted at `$disk`, another folder as `$scratch`, and
/// the appender as `$appender`.
fn on_a_small_disk(script: &str) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let mount = "mount -t tmpfs -o size=1m handfast \"$disk\" || exit 99\n";
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c"])
        .arg(format!("{mount}{script}"))
        .env("disk", folder.path())
        .env("scratch", scratch.path())
        .env("appender", env!("CARGO_BIN_EXE_store-appender"))
        .output()
        .unwrap();
    assert_ne!(output.status.code(), Some(99), "{}", text(&output.stderr));
    output
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn a_full_disk_is_named_and_costs_no_row_that_was_answered() {
    let output = on_a_small_disk(
        r#"
        head -c 300000 /dev/zero > "$disk/filler"
        "$appender" "$disk/state" append a 100000 committed > "$scratch/answered" && exit 1
        echo answered $(wc -l < "$scratch/answered")
        rm "$disk/filler"
        "$appender" "$disk/state" append b 1 flushed || exit 2
        "$appender" "$disk/state" verify || exit 3
        "#,
    );
    let (out, error) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{out}{error}");
    assert!(error.starts_with("DiskFull"), "{error}");
    assert!(error.contains("no space left for") && error.contains("state/handfast.db"), "{error}");
    let mut lines = out.lines();
    let answered: i64 = lines.next().unwrap().strip_prefix("answered ").unwrap().parse().unwrap();
    assert!(answered > 10, "the disk was full only after some rows: {answered}");
    let (last, verification) = (lines.next().unwrap(), lines.next().unwrap());
    assert_eq!(last, "b-0");
    let verification: serde_json::Value = serde_json::from_str(verification).unwrap();
    assert_eq!(verification["fault"], serde_json::Value::Null);
    assert!(verification["rows"].as_i64().unwrap() > answered);
}

#[test]
fn rows_written_behind_onto_a_full_disk_are_not_lost_in_silence() {
    let output = on_a_small_disk(
        r#"
        "$appender" "$disk/state" append a 1 flushed || exit 1
        cat /dev/zero > "$disk/filler" 2> /dev/null
        "$appender" "$disk/state" append b 1000 behind > /dev/null && exit 2
        exit 0
        "#,
    );
    let error = text(&output.stderr);
    assert!(output.status.success(), "{error}");
    assert!(error.contains("DiskFull"), "{error}");
}

#[test]
fn a_blob_that_does_not_fit_leaves_its_space_free() {
    let output = on_a_small_disk(
        r#"
        "$appender" "$disk/state" put 1000 || exit 1
        "$appender" "$disk/state" put 2000000 && exit 2
        find "$disk/state/blobs" -type f | wc -l
        "#,
    );
    let (out, error) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{out}{error}");
    assert!(error.starts_with("DiskFull") && error.contains("state/blobs/incoming"), "{error}");
    assert_eq!(out.lines().last(), Some("1"));
}

#[test]
fn a_read_only_folder_is_named_whether_or_not_it_holds_a_database() {
    let output = on_a_small_disk(
        r#"
        "$appender" "$disk/state" append a 1 flushed || exit 1
        mkdir "$disk/empty"
        mount -o remount,ro "$disk" || exit 99
        for folder in state empty new; do
            "$appender" "$disk/$folder" append a 1 flushed && exit 2
        done
        exit 0
        "#,
    );
    let error = text(&output.stderr);
    assert!(output.status.success(), "{error}");
    let lines: Vec<&str> = error.lines().collect();
    assert_eq!(lines.len(), 3, "{error}");
    for (line, path) in lines.iter().zip(["state/handfast.db", "empty/handfast.db", "new"]) {
        assert!(line.starts_with("NotWritable") && line.contains(path), "{line}");
        assert!(line.contains("cannot be written; give your user write permission"), "{line}");
    }
}

#[test]
fn a_newer_database_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    SqliteStore::open(folder.path()).unwrap().close().unwrap();
    let path = folder.path().join("handfast.db");
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let before = std::fs::read(&path).unwrap();
    let Err(error) = SqliteStore::open(folder.path()) else { panic!("it was opened") };
    assert!(matches!(error, StoreError::NewerDatabase { found: 99, known, .. } if known < 99));
    assert!(error.to_string().contains("use the newer Handfast"));
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[test]
fn a_database_that_a_newer_one_takes_over_while_it_is_open_is_written_to_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path()).unwrap();
    let row = || AuditRow::new(Kind::Call, Timestamp::UNIX_EPOCH, "c", "cli", "handfast", "file_read");
    for durability in [Durability::Committed, Durability::Flushed] {
        store.audit().append(row(), durability).wait().unwrap();
    }
    store.trust().trust(Path::new("/a"), &Hash::of(b"a"), Timestamp::UNIX_EPOCH).unwrap();
    // Another program of the next version migrates the database meanwhile.
    Connection::open(folder.path().join("handfast.db"))
        .unwrap()
        .pragma_update(None, "user_version", 99)
        .unwrap();
    let refused = |error: StoreError| {
        let StoreError::NewerDatabase { found: 99, .. } = &error else { panic!("{error:?}") };
        assert!(error.to_string().contains("restart servers"), "{error}");
    };
    for durability in [Durability::Committed, Durability::Flushed] {
        refused(store.audit().append(row(), durability).wait().unwrap_err());
    }
    refused(store.trust().trust(Path::new("/b"), &Hash::of(b"b"), Timestamp::UNIX_EPOCH).unwrap_err());
    assert_eq!(store.audit().list(&Filter::default()).unwrap().len(), 2, "reading goes on");
}

#[test]
fn a_file_that_is_no_database_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("handfast.db");
    let garbage = "not a database ".repeat(1_000);
    std::fs::write(&path, &garbage).unwrap();
    let Err(error) = SqliteStore::open(folder.path()) else { panic!("it was opened") };
    assert!(matches!(&error, StoreError::Corrupt { path: named, .. } if *named == path));
    assert!(error.to_string().contains("move it away"));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), garbage);
}

#[test]
fn a_damaged_page_is_an_error_of_the_walk_and_not_a_fault_of_the_chain() {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_store-appender"))
        .arg(folder.path())
        .args(["append", "a", "200", "committed"])
        .output()
        .unwrap();
    assert!(output.status.success());
    let path = folder.path().join("handfast.db");
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 8192 * 4096;
    bytes[middle..].fill(0xa5);
    std::fs::write(&path, bytes).unwrap();
    let error = SqliteStore::open(folder.path()).and_then(|store| store.audit().verify(None)).unwrap_err();
    assert!(matches!(&error, StoreError::Corrupt { path: named, .. } if *named == path), "{error:?}");
}

#[test]
fn the_folder_and_its_files_are_for_their_owner_alone() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("deep/state");
    let output = Command::new(env!("CARGO_BIN_EXE_store-appender"))
        .arg(&state)
        .args(["append", "a", "1", "flushed"])
        .output()
        .unwrap();
    assert!(output.status.success());
    // Open the store again, so that the companion files of the database exist too.
    let store = SqliteStore::open(&state).unwrap();
    assert_eq!(store.audit().show("a-0").unwrap().len(), 1);
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&state), 0o700);
    let mut names = Vec::new();
    for entry in std::fs::read_dir(&state).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
        names.push(path.file_name().unwrap().to_str().unwrap().to_owned());
    }
    names.sort();
    assert_eq!(names, ["audit.head", "handfast.db", "handfast.db-shm", "handfast.db-wal"]);
}
