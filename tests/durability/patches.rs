//! A patch that is killed half-way is finished or taken back.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::json;

use crate::harness::{Fixture, eventually};

/// Number of files: enough that a kill falls into the middle of the patch.
const FILES: usize = 600;

/// A moment to kill: its name, and a check whether it has come.
type Moment<'a> = (&'a str, &'a dyn Fn(&Fixture) -> bool);

/// Writes a tree, and returns the patch that changes, moves, removes and makes files all over it.
fn tree_and_patch(fixture: &Fixture) -> String {
    let mut patch = String::new();
    for number in 0..FILES {
        let path = format!("d{}/f{number}", number % 7);
        match number % 4 {
            0 => patch.push_str(&format!("--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-old {number}\n+new {number}\n")),
            1 => patch.push_str(&format!(
                "diff --git a/{path} b/moved/f{number}\nsimilarity index 100%\nrename from {path}\nrename to moved/f{number}\n"
            )),
            2 => patch.push_str(&format!("--- a/{path}\n+++ /dev/null\n@@ -1 +0,0 @@\n-old {number}\n")),
            _ => {
                patch.push_str(&format!("--- /dev/null\n+++ b/made/f{number}\n@@ -0,0 +1 @@\n+new {number}\n"));
                continue;
            }
        }
        fixture.write(&path, &format!("old {number}\n"));
    }
    patch
}

/// Returns every file with its content, sorted.
fn tree(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut all = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let content = std::fs::read_to_string(&path).unwrap();
                all.push((path, content));
            }
        }
    }
    all.sort();
    all
}

/// Returns true if the folder of any call contains a file of this name.
fn any_call_has(fixture: &Fixture, name: &str) -> bool {
    let calls = std::fs::read_dir(fixture.state().join("changes")).into_iter().flatten().flatten();
    calls.map(|call| call.path().join(name)).any(|path| path.symlink_metadata().is_ok())
}

#[test]
fn kill_9_in_the_middle_of_a_patch_leaves_all_of_it_or_nothing() {
    // Kill while the patch is laid out, when the commit has begun, and when the workspace is half
    // changed.
    let moments: [Moment<'_>; 3] = [
        ("laid out", &|fixture| any_call_has(fixture, "upper/d0")),
        ("begun", &|fixture| any_call_has(fixture, "journal")),
        ("half done", &|fixture| fixture.workspace().join("made").exists()),
    ];
    let mut taken_back = 0;
    for (moment, has_come) in moments {
        let fixture = Fixture::new();
        let patch = tree_and_patch(&fixture);
        let before = tree(&fixture.workspace());
        let arguments = json!({ "patch": patch }).to_string();
        fixture.write("../arguments", &arguments);
        let start = || {
            let input = std::fs::File::open(fixture.workspace().join("../arguments")).unwrap();
            let mut command = fixture.command();
            command.args(["call", "--yes", "file_patch", "-"]).stdin(input);
            command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
        };
        let mut child = start();
        eventually(moment, || has_come(&fixture) || child.try_wait().unwrap().is_some());
        // A quick call may have ended before the kill.
        let _ = child.kill();
        child.wait().unwrap();
        // The next start finishes the patch or takes it back.
        assert_eq!(fixture.run(&["call", "file_list", r#"{"path": "."}"#]).code, 0);
        let after = tree(&fixture.workspace());
        if after == before {
            taken_back += 1;
            assert!(start().wait().unwrap().success(), "{moment}: it can be applied again");
        }
        let done = tree(&fixture.workspace());
        let expected = (0..FILES).filter(|number| number % 4 != 2).count();
        assert_eq!(done.len(), expected, "{moment}");
        let is_old = |(path, content): &&(PathBuf, String)| {
            content.starts_with("old") && !path.starts_with(fixture.workspace().join("moved"))
        };
        assert_eq!(done.iter().find(is_old), None, "{moment}");
        if after != before {
            assert_eq!(after, done, "{moment}: all of it");
        }
    }
    // The control: some of the kills came in time.
    assert!(taken_back > 0);
}
