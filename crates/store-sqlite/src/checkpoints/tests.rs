//! Tests of checkpoints and of the pruning of their contents.

use std::io::Read;
use std::time::Duration;

use jiff::ToSpan;
use store_api::{Retention, Store as _};

use crate::SqliteStore;

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

fn ids(store: &SqliteStore) -> Vec<String> {
    let all = store.checkpoints().list(Path::new("/w"), 100).unwrap();
    all.into_iter().map(|checkpoint| checkpoint.id).collect()
}

#[test]
fn the_old_go_by_age_and_by_size_but_never_the_newest_nor_one_under_way() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path()).unwrap();
    for (id, hours, bytes) in [("1", 50, 1), ("2", 40, 1), ("3", 3, 100), ("4", 2, 100), ("5", 1, 100)] {
        store
            .checkpoints()
            .add(&made(id, later() - hours.hours(), bytes), &mut [entry("a", None)].into_iter(), &[])
            .unwrap();
    }
    let under_way = Checkpoint { state: CheckpointState::Direct, ..made("0", later() - 60.hours(), 1) };
    store.checkpoints().add(&under_way, &mut std::iter::empty(), &[]).unwrap();
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
    let store = SqliteStore::open(folder.path()).unwrap();
    let content = "saved ".repeat(10_000);
    let saver = store.blobs().saver().unwrap();
    let hash = saver.save(&mut content.as_bytes()).unwrap();
    saver.save(&mut &b"another in the same pack"[..]).unwrap();
    // Each content is large enough for its own file.
    let large = |letter: &str| saver.save(&mut letter.repeat(100_000).as_bytes()).unwrap();
    let (needed, more, nobodys) = (large("a"), large("b"), large("c"));
    saver.finish().unwrap();
    drop(saver);
    store
        .checkpoints()
        .add(&made("1", later(), 7), &mut [entry("a", Some(hash))].into_iter(), &[needed])
        .unwrap();
    store.checkpoints().extend("1", &entry("b", None), &[more], 1).unwrap();
    let none = Retention { max_bytes: 0, max_age: Duration::ZERO, keep_newest: 0 };
    assert_eq!(store.outputs().prune(&none, later(), &|| true).unwrap().blobs, 1);
    let mut text = String::new();
    store.blobs().reader().unwrap().open(&hash).unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, content);
    let is_there = |hash: &Hash| store.blobs().reader().unwrap().open(hash).is_ok();
    assert!(is_there(&needed) && is_there(&more) && !is_there(&nobodys));
    store.checkpoints().remove("1").unwrap();
    assert_eq!(store.outputs().prune(&none, later(), &|| true).unwrap().blobs, 3);
    assert!(!is_there(&hash) && !is_there(&needed) && !is_there(&more));
}
