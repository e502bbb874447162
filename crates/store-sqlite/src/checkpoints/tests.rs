//! Tests of checkpoints and of the pruning of their contents.

use std::io::Read;

use jiff::ToSpan;
use store_api::Retention;

use crate::Store;

use super::*;

fn later() -> Timestamp {
    "2200-01-01T00:00:00Z".parse().unwrap()
}

fn made(id: &str, made_at: Timestamp, bytes: u64) -> Checkpoint {
    Checkpoint {
        id: id.to_owned(),
        session: Some("s".to_owned()),
        tool: "file_write".to_owned(),
        workspace: "/w".into(),
        made_at,
        folder: format!("f{id}"),
        state: CheckpointState::Done,
        undoes: None,
        paths: 1,
        bytes,
        unsaved: vec!["target".into(), "a b".into()],
        roots: vec!["a".into()],
    }
}

fn entry(path: &str, content: Option<Hash>) -> CheckpointEntry {
    CheckpointEntry { path: path.into(), before: Some(vec![1, 0]), after: None, content }
}

fn ids(store: &Store) -> Vec<String> {
    let all = store.checkpoints().list(Path::new("/w"), 100).unwrap();
    all.into_iter().map(|checkpoint| checkpoint.id).collect()
}

#[test]
fn a_checkpoint_comes_back_as_it_was_added_once_it_is_done() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let prepared = Checkpoint { state: CheckpointState::Prepared, ..made("1", later(), 7) };
    let entries = [entry("a", Some(Hash::of(b"x"))), entry("b/c", None)];
    store.checkpoints().add(&prepared, &entries).unwrap();
    assert_eq!(ids(&store), Vec::<String>::new());
    assert_eq!(store.checkpoints().unfinished().unwrap(), [prepared]);
    store.checkpoints().complete_folder("f1").unwrap();
    assert_eq!(store.checkpoints().list(Path::new("/w"), 9).unwrap(), [made("1", later(), 7)]);
    assert_eq!(store.checkpoints().entries("1").unwrap(), entries);
    assert!(store.checkpoints().list(Path::new("/other"), 9).unwrap().is_empty());
    assert!(store.checkpoints().add(&made("1", later(), 7), &[]).is_err(), "an id is given once");
}

#[test]
fn checkpoints_are_found_by_prefix_and_by_time_in_their_workspace_alone() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let checkpoints = store.checkpoints();
    let at = |seconds: i64| later().checked_add(seconds.seconds()).unwrap();
    for (id, second) in [("a1", 1), ("a2", 2), ("ab", 3), ("b1", 3), ("c1", 4)] {
        checkpoints.add(&made(id, at(second), 1), [entry("x", None)]).unwrap();
    }
    let elsewhere = Checkpoint { workspace: "/other".into(), ..made("a9", at(2), 1) };
    checkpoints.add(&elsewhere, [entry("x", None)]).unwrap();
    let unfinished = Checkpoint { state: CheckpointState::Direct, ..made("a8", at(2), 1) };
    checkpoints.add(&unfinished, [entry("x", None)]).unwrap();

    let workspace = Path::new("/w");
    let ids = |found: Vec<Checkpoint>| found.into_iter().map(|found| found.id).collect::<Vec<_>>();
    assert_eq!(ids(checkpoints.with_prefix(workspace, "a", 9).unwrap()), ["a1", "a2", "ab"]);
    assert_eq!(ids(checkpoints.with_prefix(workspace, "a", 2).unwrap()).len(), 2);
    assert_eq!(ids(checkpoints.with_prefix(workspace, "ab", 9).unwrap()), ["ab"]);
    assert_eq!(ids(checkpoints.with_prefix(workspace, "%", 9).unwrap()), [""; 0]);

    let from = checkpoints.find("ab").unwrap().unwrap();
    assert_eq!(ids(checkpoints.since(workspace, &from).unwrap()), ["ab", "b1", "c1"]);
    let first = |seconds| checkpoints.first_since(workspace, at(seconds)).unwrap().map(|found| found.id);
    assert_eq!((first(2).as_deref(), first(4).as_deref(), first(5)), (Some("a2"), Some("c1"), None));
    let of_call = |call| checkpoints.first_since_call(workspace, call).unwrap().map(|found| found.id);
    assert_eq!((of_call("a3").as_deref(), of_call("d")), (Some("ab"), None));
}

#[test]
fn a_direct_change_ends_as_what_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let direct = Checkpoint { state: CheckpointState::Direct, ..made("1", later(), 7) };
    store.checkpoints().add(&direct, &[entry("a", None), entry("b", None)]).unwrap();
    store.checkpoints().complete_folder("f1").unwrap();
    assert_eq!(ids(&store), Vec::<String>::new(), "a folder that has committed says nothing of it");
    store.checkpoints().complete_as("1", &[entry("b", None)], 1, &[]).unwrap();
    assert_eq!(ids(&store), ["1"]);
    assert_eq!(store.checkpoints().entries("1").unwrap(), [entry("b", None)]);
    store.checkpoints().remove("1").unwrap();
    assert_eq!(store.checkpoints().find("1").unwrap(), None);
    assert_eq!(store.checkpoints().entries("1").unwrap(), []);
}

#[test]
fn the_old_go_by_age_and_by_size_but_never_the_newest_nor_one_under_way() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    for (id, hours, bytes) in [("1", 50, 1), ("2", 40, 1), ("3", 3, 100), ("4", 2, 100), ("5", 1, 100)] {
        store.checkpoints().add(&made(id, later() - hours.hours(), bytes), &[entry("a", None)]).unwrap();
    }
    let under_way = Checkpoint { state: CheckpointState::Direct, ..made("0", later() - 60.hours(), 1) };
    store.checkpoints().add(&under_way, &[]).unwrap();
    let keep = |max_bytes, hours, keep_newest| CheckpointRetention {
        max_bytes,
        max_age: Duration::from_hours(hours),
        keep_newest,
    };
    let prune = |retention| store.checkpoints().prune(&retention, later()).unwrap();
    assert_eq!(prune(keep(1000, 24, 4)), 1);
    assert_eq!(ids(&store), ["5", "4", "3", "2"]);
    assert_eq!(prune(keep(250, 24, 1)), 2);
    assert_eq!(ids(&store), ["5", "4"]);
    assert_eq!(prune(keep(0, 0, 1)), 1);
    assert_eq!(ids(&store), ["5"]);
    assert_eq!(store.checkpoints().entries("4").unwrap(), []);
    assert!(store.checkpoints().find("0").unwrap().is_some());
}

#[test]
fn saved_bytes_stay_while_a_checkpoint_names_them() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let content = "saved ".repeat(10_000);
    let saver = store.blobs().saver().unwrap();
    let hash = saver.save(&mut content.as_bytes()).unwrap();
    saver.save(&mut &b"another in the same pack"[..]).unwrap();
    // Each content is large enough for its own file.
    let large = |letter: &str| saver.save(&mut letter.repeat(100_000).as_bytes()).unwrap();
    let (needed, more, nobodys) = (large("a"), large("b"), large("c"));
    saver.finish().unwrap();
    drop(saver);
    store.checkpoints().add_with(&made("1", later(), 7), &[entry("a", Some(hash))], &[needed]).unwrap();
    store.checkpoints().extend("1", &entry("b", None), &[more], 1).unwrap();
    let none = Retention { max_bytes: 0, max_age: Duration::ZERO, keep_newest: 0 };
    assert_eq!(store.outputs().prune(&none, later()).unwrap().blobs, 1);
    let mut text = String::new();
    store.blobs().reader().unwrap().open(&hash).unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, content);
    let is_there = |hash: &Hash| store.blobs().reader().unwrap().open(hash).is_ok();
    assert!(is_there(&needed) && is_there(&more) && !is_there(&nobodys));
    store.checkpoints().remove("1").unwrap();
    assert_eq!(store.outputs().prune(&none, later()).unwrap().blobs, 3);
    assert!(!is_there(&hash) && !is_there(&needed) && !is_there(&more));
}
