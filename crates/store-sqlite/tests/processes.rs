//! Tests of several processes on one state folder, and of processes that are killed.
#![expect(clippy::disallowed_methods, reason = "these tests are about other processes")]
#![expect(clippy::unwrap_used, reason = "a helper of a test fails it by panicking")]

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use store_api::{Filter, HeadFileState, Store as _, Verification};
use store_sqlite::SqliteStore;

fn appender(folder: &Path, name: &str, rows: u32, durability: &str) -> Child {
    Command::new(env!("CARGO_BIN_EXE_store-appender"))
        .arg(folder)
        .args(["append", name, &rows.to_string(), durability])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn lines(child: &mut Child) -> BufReader<ChildStdout> {
    BufReader::new(child.stdout.take().unwrap())
}

fn calls_in_order(store: &SqliteStore) -> Vec<String> {
    let filter = Filter { limit: u32::MAX, ..Filter::default() };
    store.audit().list(&filter).unwrap().into_iter().rev().map(|recorded| recorded.row.call).collect()
}

fn proved(store: &SqliteStore) -> Verification {
    let verification = store.audit().verify(None).unwrap();
    assert_eq!(verification.fault, None);
    verification
}

#[test]
fn processes_that_append_at_once_share_one_whole_chain() {
    const ROWS: u32 = 400;
    let folder = tempfile::tempdir().unwrap();
    // The processes start without a database, so they also race to create it.
    let state = folder.path().join("state");
    let names = ["a", "b", "c", "d"];
    let durabilities = ["flushed", "committed", "behind", "committed"];
    let mut children: Vec<Child> = names
        .iter()
        .zip(durabilities)
        .map(|(name, durability)| appender(&state, name, ROWS, durability))
        .collect();
    let store = SqliteStore::open(&state).unwrap();
    let mut outputs: Vec<_> = children.iter_mut().map(lines).collect();
    for output in &mut outputs {
        // A walk during the writes finds no fault: it sees the log at one moment.
        proved(&store);
        output.read_to_string(&mut String::new()).unwrap();
    }
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let verification = proved(&store);
    assert_eq!(verification.rows, i64::from(ROWS) * 4);
    assert_eq!(verification.head_file, Some(HeadFileState::Current));
    let calls = calls_in_order(&store);
    for name in names {
        let prefix = format!("{name}-");
        let of_one: Vec<&String> = calls.iter().filter(|call| call.starts_with(&prefix)).collect();
        let expected: Vec<String> = (0..ROWS).map(|number| format!("{name}-{number}")).collect();
        assert_eq!(of_one, expected.iter().collect::<Vec<_>>(), "the rows of one process keep their order");
    }
    let changes = calls.windows(2).filter(|pair| pair[0][..2] != pair[1][..2]).count();
    assert!(changes > 4, "the processes took turns: {changes} changes between them");
}

#[test]
fn a_kill_loses_no_row_that_was_answered_and_breaks_no_chain() {
    let folder = tempfile::tempdir().unwrap();
    let mut answered = HashSet::new();
    for round in 0..6 {
        let durability = ["committed", "flushed"][round % 2];
        let mut children: Vec<Child> = (0..2)
            .map(|number| appender(folder.path(), &format!("r{round}p{number}"), 50_000, durability))
            .collect();
        for (number, child) in children.iter_mut().enumerate() {
            let mut output = lines(child);
            let mut first = String::new();
            // Each process is killed at another point of its work.
            for _ in 0..=round * 7 + number {
                first.clear();
                assert_ne!(output.read_line(&mut first).unwrap(), 0);
                answered.insert(first.trim().to_owned());
            }
            child.kill().unwrap();
            assert!(!child.wait().unwrap().success());
            let mut rest = String::new();
            output.read_to_string(&mut rest).unwrap();
            // The last line may be half written.
            let whole = rest.rfind('\n').map_or("", |end| &rest[..end]);
            answered.extend(whole.lines().map(str::to_owned));
        }
        let store = SqliteStore::open(folder.path()).unwrap();
        let verification = proved(&store);
        let recorded: HashSet<String> = calls_in_order(&store).into_iter().collect();
        let lost: Vec<&String> = answered.difference(&recorded).collect();
        assert!(lost.is_empty(), "{lost:?}");
        assert_eq!(usize::try_from(verification.rows).unwrap(), recorded.len());
    }
    assert!(answered.len() > 100, "the children were killed at work: {} rows", answered.len());
}

#[test]
fn rows_written_behind_reach_the_disk_when_a_process_ends_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let output = appender(folder.path(), "a", 5_000, "behind").wait_with_output().unwrap();
    assert!(output.status.success());
    let store = SqliteStore::open(folder.path()).unwrap();
    let verification = proved(&store);
    assert_eq!((verification.rows, verification.head_file), (5_000, Some(HeadFileState::Current)));
}
