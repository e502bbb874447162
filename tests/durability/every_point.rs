//! Calls that are killed at any point. Every file is then old or new, and the next start finishes
//! the call or takes it back, its checkpoint included.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::durability::killed::{Ended, kill_at};
use crate::harness::Fixture;

/// Maps every path below a folder to its mode (which includes its kind) and its content.
fn tree(folder: &Path) -> BTreeMap<PathBuf, String> {
    let mut all = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            use std::os::unix::fs::MetadataExt;
            let path = entry.unwrap().path();
            let found = path.symlink_metadata().unwrap();
            let content = if found.is_dir() {
                folders.push(path.clone());
                String::new()
            } else if found.is_symlink() {
                path.read_link().unwrap().to_string_lossy().into_owned()
            } else {
                std::fs::read_to_string(&path).unwrap()
            };
            all.insert(path, format!("{:o} {content}", found.mode()));
        }
    }
    all
}

/// A command to kill, and the calls that prepare its workspace.
struct Case {
    /// Calls that come before, in the same workspace.
    before: Vec<(&'static str, Value)>,
    /// Arguments of the command that is killed.
    line: Vec<String>,
}

const FILES: [(&str, &str); 5] =
    [("a", "a\n"), ("d/one", "1\n"), ("d/two", "2\n"), ("gone", "g\n"), ("kept", "k\n")];

fn prepared(case: &Case) -> Fixture {
    let fixture = Fixture::with_files(&FILES);
    // Another call makes the database and the folders of the state.
    fixture.data("file_list", json!({"path": "."}));
    for (tool, arguments) in &case.before {
        fixture.data(tool, arguments.clone());
    }
    fixture
}

/// Returns the ids of the checkpoints that can be undone.
fn checkpoints(fixture: &Fixture) -> Vec<String> {
    let listed = fixture.run(&["checkpoints", "list", "--json"]).json();
    listed.as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect()
}

fn run(fixture: &Fixture, case: &Case, point: usize) -> Ended {
    let mut command = fixture.command();
    command.args(&case.line);
    kill_at(&command, point)
}

/// Returns the distance between two points that are tried: 1 if `HANDFAST_EVERY_POINT` is set, else 7.
pub(crate) fn stride() -> usize {
    if std::env::var_os("HANDFAST_EVERY_POINT").is_some() { 1 } else { 7 }
}

fn at_every_point(case: &Case) {
    let fixture = prepared(case);
    let (before, had) = (tree(&fixture.workspace()), checkpoints(&fixture).len());
    let Ended::ByItself { points, code: 0 } = run(&fixture, case, usize::MAX) else { panic!("it fails") };
    let after = tree(&fixture.workspace());
    assert_ne!(after, before);
    let (mut taken_back, mut finished, mut all) = (0, 0, false);
    // The number of points varies between runs: threads interleave, and each run removes the
    // leftovers of earlier ones.
    for point in (1..2 * points).step_by(stride()) {
        let fixture = prepared(case);
        let at = match run(&fixture, case, point) {
            Ended::Killed(change) => format!("point {point} of about {points}, {change}"),
            Ended::ByItself { .. } => {
                all = true;
                break;
            }
        };
        // The next start.
        let next = fixture.run(&["call", "file_list", r#"{"path": "."}"#]);
        assert_eq!(next.code, 0, "{at}: {}", next.stderr);
        let is = tree(&fixture.workspace());
        let made = checkpoints(&fixture);
        let relative = |tree: BTreeMap<PathBuf, String>, root: &Path| -> BTreeMap<PathBuf, String> {
            tree.into_iter().map(|(path, what)| (path.strip_prefix(root).unwrap().to_owned(), what)).collect()
        };
        let is = relative(is, &fixture.workspace());
        let root = before.keys().next().unwrap().parent().unwrap().to_owned();
        let (before, after) = (relative(before.clone(), &root), relative(after.clone(), &root));
        if is == before {
            assert_eq!(made.len(), had, "{at}: nothing changed, and can be undone");
            taken_back += 1;
        } else {
            assert_eq!(is, after, "{at}");
            assert_eq!(made.len(), had + 1, "{at}: what changed cannot be undone");
            let undone = fixture.run(&["undo", &made[0]]);
            assert_eq!(undone.code, 0, "{at}: {}", undone.stderr);
            assert_eq!(relative(tree(&fixture.workspace()), &fixture.workspace()), before, "{at}");
            finished += 1;
        }
        assert_eq!(fixture.run(&["audit", "verify"]).code, 0, "{at}");
        let left = std::fs::read_dir(fixture.state().join("changes")).unwrap().flatten();
        let left: Vec<_> = left.filter(|entry| entry.path().is_dir()).collect();
        // Taking a commit back may leave one folder, in which its changes lie aside.
        assert!(left.len() <= 1, "{at}: {left:?}");
    }
    assert!(all, "of about {points} points, some were not come to");
    // The control: the kills fell on both sides of the moment at which the change happens.
    assert!(taken_back > 0 && finished > 0, "of {points} points, {taken_back} and {finished}");
}

fn call(tool: &str, arguments: &Value) -> Vec<String> {
    ["call", "--yes", tool, &arguments.to_string()].map(str::to_owned).to_vec()
}

fn of(line: Vec<String>) -> Case {
    Case { before: Vec::new(), line }
}

#[test]
fn a_write_killed_at_any_point_leaves_the_old_file_or_the_new_one_and_nothing_else() {
    at_every_point(&of(call("file_write", &json!({"path": "a", "content": "b\n"}))));
}

#[test]
fn an_edit_killed_at_any_point_leaves_the_old_file_or_the_new_one_and_nothing_else() {
    let edit = json!({"path": "a", "edits": [{"old_text": "a", "new_text": "b"}]});
    at_every_point(&of(call("file_edit", &edit)));
}

#[test]
fn a_move_of_a_folder_killed_at_any_point_leaves_it_whole_under_one_name() {
    at_every_point(&of(call("file_move", &json!({"source": "d", "destination": "moved"}))));
}

#[test]
fn a_patch_killed_at_any_point_is_finished_or_taken_back() {
    let patch = "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-a\n+b\n--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-g\n\
                 --- /dev/null\n+++ b/n/new\n@@ -0,0 +1 @@\n+n\n\
                 diff --git a/d/one b/e/one\nsimilarity index 100%\nrename from d/one\nrename to e/one\n";
    at_every_point(&of(call("file_patch", &json!({ "patch": patch }))));
}

#[test]
fn the_commit_of_a_command_killed_at_any_point_is_finished_or_taken_back() {
    let command = "echo b >a; rm gone d/one; mkdir n; echo n >n/new; chmod 600 kept; ln -s a l";
    at_every_point(&of(call("shell_execute", &json!({ "command": command }))));
}

#[test]
fn an_undoing_killed_at_any_point_is_finished_or_taken_back() {
    let command = "echo b >a; rm gone; rm -r d; mkdir n; echo n >n/new; chmod 600 kept";
    let before = vec![("shell_execute", json!({ "command": command }))];
    let since = ["undo", "--since", "1h"].map(str::to_owned).to_vec();
    at_every_point(&Case { before, line: since });
}
