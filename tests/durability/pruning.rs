//! Pruning of old checkpoints, killed at every point: the remaining ones stay whole, and the next
//! run finishes the pruning.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde_json::json;
use store_api::{Checkpoint, CheckpointEntry, CheckpointState, Store as _};
use store_sqlite::SqliteStore;

use crate::durability::every_point::stride;
use crate::durability::killed::{Ended, kill_at};
use crate::harness::Fixture;

/// Number of old checkpoints. Pruning leaves the newest hundred of a workspace.
const OLD: usize = 104;
const KEPT: usize = 100;

fn id(number: usize) -> String {
    format!("old{number:03}")
}

/// Returns the content of a file. Small files share one pack; the files of the checkpoints that
/// pruning removes are too large for a pack.
fn content(number: usize) -> Vec<u8> {
    let mut content = format!("content {number}").into_bytes();
    if number < OLD - KEPT {
        // No part of this content repeats, so deduplication cannot leave any of it out.
        content.extend((0..80_000_u32).flat_map(|at| at.wrapping_mul(2_654_435_761).to_be_bytes()));
    }
    content
}

/// Lists every file below the folder of saved contents.
fn saved_files(fixture: &Fixture) -> Vec<PathBuf> {
    let below = |folder: &Path| fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let folders = below(&fixture.state().join("blobs"));
    folders.flat_map(|folder| below(&folder).collect::<Vec<_>>()).collect()
}

fn make_old(path: &Path) {
    File::open(path).unwrap().set_modified(SystemTime::now() - Duration::from_hours(3)).unwrap();
}

fn is_due_again(fixture: &Fixture) {
    make_old(&fixture.state().join("pruned"));
}

/// Builds a state with old checkpoints, a new change, and pruning due.
fn prepared() -> Fixture {
    let fixture = Fixture::with_files(&[("a", "old\n")]);
    fixture.data("file_list", json!({"path": "."}));
    let store = SqliteStore::open(&fixture.state()).unwrap();
    let saver = store.blobs().saver().unwrap();
    let hashes: Vec<_> = (0..OLD).map(|number| saver.save(&mut &content(number)[..]).unwrap()).collect();
    saver.finish().unwrap();
    drop(saver);
    for (number, hash) in hashes.into_iter().enumerate() {
        let checkpoint = Checkpoint {
            id: id(number),
            session: None,
            tool: "file_write".to_owned(),
            workspace: "/elsewhere".into(),
            made_at: format!("2020-01-01T00:{:02}:{:02}Z", number / 60, number % 60).parse().unwrap(),
            folder: String::new(),
            state: CheckpointState::Done,
            undoes: None,
            paths: 1,
            bytes: 1,
            unsaved: Vec::new(),
            roots: Vec::new(),
        };
        let entry =
            CheckpointEntry { path: "f".into(), before: Some(vec![0]), after: None, content: Some(hash) };
        store.checkpoints().add(&checkpoint, &mut std::iter::once(entry), &[]).unwrap();
    }
    store.close().unwrap();
    for path in saved_files(&fixture) {
        make_old(&path);
    }
    fixture.data("file_write", json!({"path": "a", "content": "new\n"}));
    is_due_again(&fixture);
    fixture
}

/// Calls until pruning has reached every file. One call looks at saved files for a short time, and
/// each begins elsewhere.
fn finish(fixture: &Fixture, expected: usize) {
    for _ in 0..1_000 {
        if saved_files(fixture).len() <= expected {
            return;
        }
        is_due_again(fixture);
        fixture.data("file_list", json!({"path": "."}));
    }
}

/// Checks that the remaining checkpoints are whole. Returns the number of old checkpoints.
fn check(fixture: &Fixture, at: &str) -> usize {
    let store = SqliteStore::open(&fixture.state()).unwrap();
    let mut there = 0;
    for number in 0..OLD {
        let entries = store.checkpoints().entries(&id(number)).unwrap();
        if store.checkpoints().find(&id(number)).unwrap().is_none() {
            assert!(entries.is_empty(), "{at}: entries without their checkpoint");
            continue;
        }
        there += 1;
        let mut read = Vec::new();
        let hash = entries[0].content.unwrap();
        store.blobs().reader().unwrap().open(&hash).unwrap().read_to_end(&mut read).unwrap();
        assert!(read == content(number), "{at}: the content of {number}");
    }
    there
}

#[test]
fn pruning_behind_a_call_killed_at_any_point_keeps_what_is_kept_and_the_next_finishes_it() {
    let line = ["call", "file_list", r#"{"path": "."}"#];
    let run = |fixture: &Fixture, point| {
        let mut command = fixture.command();
        command.args(line);
        kill_at(&command, point)
    };
    let fixture = prepared();
    // The control: the checkpoints exist, and their files too.
    assert_eq!(check(&fixture, "before"), OLD);
    let files = saved_files(&fixture).len();
    let Ended::ByItself { points, code: 0 } = run(&fixture, usize::MAX) else { panic!("it fails") };
    assert_eq!(check(&fixture, "not killed"), KEPT);
    finish(&fixture, files - (OLD - KEPT));
    assert_eq!(saved_files(&fixture).len(), files - (OLD - KEPT));
    let (mut before, mut within) = (0, 0);
    for point in (1..=points).step_by(stride().min(3)) {
        let fixture = prepared();
        let at = match run(&fixture, point) {
            Ended::Killed(change) => format!("point {point} of {points}, {change}"),
            Ended::ByItself { .. } => continue,
        };
        match check(&fixture, &at) {
            OLD => before += 1,
            KEPT => within += 1,
            some => panic!("{at}: {some} of the old ones are left"),
        }
        is_due_again(&fixture);
        fixture.data("file_list", json!({"path": "."}));
        assert_eq!(check(&fixture, &at), KEPT);
        finish(&fixture, files - (OLD - KEPT));
        let left = saved_files(&fixture);
        assert_eq!(left.len(), files - (OLD - KEPT), "{at}: {left:?}");
        let made = fixture.run(&["checkpoints", "list", "--json"]).json();
        let undone = fixture.run(&["undo", made[0]["id"].as_str().unwrap()]);
        assert_eq!(undone.code, 0, "{at}: {}", undone.stderr);
        assert_eq!(fs::read_to_string(fixture.workspace().join("a")).unwrap(), "old\n", "{at}");
        assert_eq!(fixture.run(&["audit", "verify"]).code, 0, "{at}");
    }
    // The control: the kills fell before and after the moment at which the checkpoints are gone.
    assert!(before > 0 && within > 0, "of {points} points, {before} and {within}");
}
