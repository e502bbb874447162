//! Journals of interrupted commits that another version wrote, or that are damaged.

use std::path::PathBuf;

use serde_json::json;

use crate::durability::killed::{Ended, kill_at};
use crate::harness::Fixture;

/// Length of the hash at the end of every journal.
const HASH_BYTES: usize = blake3::OUT_LEN;

/// Returns a workspace in which a patch was killed after it changed one of two files, and the
/// patch's journal.
fn half_done() -> (Fixture, PathBuf) {
    cut_off("journal", 1)
}

/// Kills a patch of two files when `files` of them are changed and its journal has this name.
/// Returns the workspace and the path of the journal.
fn cut_off(name: &str, files: usize) -> (Fixture, PathBuf) {
    // The commit puts the files in place in this order.
    let patch = "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-a\n+A\n--- a/b\n+++ b/b\n@@ -1 +1 @@\n-b\n+B\n";
    let patch = json!({ "patch": patch }).to_string();
    for point in 1.. {
        let fixture = Fixture::with_files(&[("a", "a\n"), ("b", "b\n")]);
        fixture.data("file_list", json!({"path": "."}));
        let mut command = fixture.command();
        command.args(["call", "--yes", "file_patch", &patch]);
        let Ended::Killed(_) = kill_at(&command, point) else { break };
        let changed = [fixture.read("a") == "A\n", fixture.read("b") == "B\n"];
        if changed.iter().filter(|changed| **changed).count() == files {
            let calls = std::fs::read_dir(fixture.state().join("changes")).unwrap().flatten();
            if let Some(journal) = calls.map(|call| call.path().join(name)).find(|path| path.exists()) {
                return (fixture, journal);
            }
        }
    }
    panic!("it was never killed with {files} files changed and a {name}");
}

fn with_hash(mut body: Vec<u8>) -> Vec<u8> {
    let hash = blake3::hash(&body);
    body.extend_from_slice(hash.as_bytes());
    body
}

#[test]
fn a_half_made_change_with_a_damaged_journal_is_told_of_and_can_be_undone() {
    let (fixture, journal) = half_done();
    let mut bytes = std::fs::read(&journal).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&journal, bytes).unwrap();
    let folder = journal.parent().unwrap();
    let next = fixture.run(&["call", "file_list", r#"{"path": "."}"#]);
    assert_eq!(next.code, 0, "{}", next.stderr);
    let made = fixture.run(&["checkpoints", "list", "--json"]).json();
    let id = made[0]["id"].as_str().unwrap();
    for told in [folder.to_str().unwrap(), &format!(" undo {id}`")] {
        assert!(next.stderr.contains(told), "{told} in {}", next.stderr);
    }
    let diff = fixture.run(&["checkpoints", "diff", id]);
    assert!(diff.stdout.contains("-a\n+A\n") || diff.stdout.contains("-b\n+B\n"), "{}", diff.stdout);
    let undone = fixture.run(&["undo", id]);
    assert_eq!(undone.code, 0, "{}", undone.stderr);
    assert_eq!((fixture.read("a"), fixture.read("b")), ("a\n".to_owned(), "b\n".to_owned()));
    // The warning is repeated as long as the folder exists, and stops when the folder is moved away.
    assert!(fixture.run(&["audit", "verify"]).code == 0);
    assert!(fixture.run(&["call", "file_list", r#"{"path": "."}"#]).stderr.contains("damaged"));
    std::fs::rename(folder, fixture.outside().join("moved")).unwrap();
    assert_eq!(fixture.run(&["call", "file_list", r#"{"path": "."}"#]).stderr, "");
}

#[test]
fn a_half_made_change_of_a_later_version_is_left_to_that_version() {
    let (fixture, journal) = half_done();
    let before = (fixture.read("a"), fixture.read("b"));
    let ours = std::fs::read(&journal).unwrap();
    let mut body = ours[..ours.len() - HASH_BYTES].to_vec();
    body["handfast commit ".len()] = b'9';
    std::fs::write(&journal, with_hash(body)).unwrap();
    let next = fixture.run(&["call", "file_list", r#"{"path": "."}"#]);
    assert!(next.code == 0 && next.stderr.contains("version"), "{}", next.stderr);
    assert_eq!((fixture.read("a"), fixture.read("b")), before);
    // Back in the version that wrote the journal.
    std::fs::write(&journal, ours).unwrap();
    assert_eq!(fixture.run(&["call", "file_list", r#"{"path": "."}"#]).code, 0);
    assert_eq!((fixture.read("a"), fixture.read("b")), ("a\n".to_owned(), "b\n".to_owned()));
}

#[test]
fn a_damaged_journal_of_a_change_that_was_done_is_named_and_the_change_stays_and_can_be_undone() {
    let (fixture, journal) = cut_off("journal.committed", 2);
    let mut bytes = std::fs::read(&journal).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&journal, bytes).unwrap();
    let folder = journal.parent().unwrap();
    let list = || fixture.run(&["call", "file_list", r#"{"path": "."}"#]);
    let next = list();
    assert_eq!(next.code, 0, "{}", next.stderr);
    let made = fixture.run(&["checkpoints", "list", "--json"]).json();
    let id = made[0]["id"].as_str().unwrap();
    let (file, remove) = (format!("damaged: {}", journal.display()), format!("Remove {}", folder.display()));
    for told in [&file, &remove, &format!(" undo {id}`")] {
        assert!(next.stderr.contains(told.as_str()), "{told} in {}", next.stderr);
    }
    assert_eq!((fixture.read("a"), fixture.read("b")), ("A\n".to_owned(), "B\n".to_owned()));
    // The warning is repeated until the folder is gone. The checkpoint does not need the folder.
    assert!(list().stderr.contains(&file));
    std::fs::remove_dir_all(folder).unwrap();
    assert_eq!(list().stderr, "");
    let undone = fixture.run(&["undo", id]);
    assert_eq!(undone.code, 0, "{}", undone.stderr);
    assert_eq!((fixture.read("a"), fixture.read("b")), ("a\n".to_owned(), "b\n".to_owned()));
    assert_eq!(fixture.run(&["audit", "verify"]).code, 0);
}
