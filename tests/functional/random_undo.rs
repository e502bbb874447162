//! Random edits by every means, undone in random order: each undoing brings exactly its own change back, or refuses because
//! somebody changed the same since.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestCaseError, TestRunner};
use serde_json::{Value, json};

use crate::harness::Fixture;
use crate::server::Server;

/// One edit. Paths are few and short, so that edits meet each other's files.
#[derive(Debug, Clone)]
enum Step {
    Write(String, u8),
    Edit(String, u8),
    Delete(String),
    Move(String, String),
    /// Updates the first, adds the second and deletes the third, as far as they are there.
    Patch(String, String, String, u8),
    Command(String),
    Undo {
        which: usize,
        force: bool,
    },
}

fn path() -> impl Strategy<Value = String> {
    let name = prop::sample::select(vec!["a", "b", "c"]);
    prop::collection::vec(name, 1..4).prop_map(|names| names.join("/"))
}

fn command() -> impl Strategy<Value = String> {
    let mode = prop::sample::select(vec!["600", "644", "755", "700"]);
    prop_oneof![
        2 => (path(), any::<u8>()).prop_map(|(path, text)| format!("echo {text} >>{path}")),
        2 => path().prop_map(|path| format!("mkdir -p {path}")),
        2 => path().prop_map(|path| format!("rm -rf {path}")),
        1 => (path(), path()).prop_map(|(from, to)| format!("mv -T {from} {to}")),
        1 => (path(), path()).prop_map(|(target, path)| format!("ln -sT {target} {path}")),
        1 => path().prop_map(|path| format!("mkfifo {path}")),
        2 => (path(), mode).prop_map(|(path, mode)| format!("test ! -L {path} && chmod {mode} {path}")),
        1 => (path(), 1..28_u8).prop_map(|(path, day)| format!("touch -chd 2020-01-{day:02} {path}")),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (path(), any::<u8>()).prop_map(|(path, text)| Step::Write(path, text)),
        2 => (path(), any::<u8>()).prop_map(|(path, text)| Step::Edit(path, text)),
        2 => path().prop_map(Step::Delete),
        2 => (path(), path()).prop_map(|(from, to)| Step::Move(from, to)),
        2 => (path(), path(), path(), any::<u8>()).prop_map(|(one, two, three, text)| Step::Patch(one, two, three, text)),
        4 => prop::collection::vec(command(), 1..4).prop_map(|lines| Step::Command(lines.join("; "))),
        4 => (any::<usize>(), any::<bool>()).prop_map(|(which, force)| Step::Undo { which, force }),
    ]
}

/// What is at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Shown {
    what: String,
    mode: u32,
    modified: (i64, i64),
}

type Tree = BTreeMap<PathBuf, Shown>;

fn tree(root: &Path) -> Tree {
    use std::os::unix::fs::{FileTypeExt, MetadataExt};
    let mut all = Tree::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let found = path.symlink_metadata().unwrap();
            let what = if found.is_dir() {
                folders.push(path.clone());
                "folder".to_owned()
            } else if found.is_symlink() {
                format!("link to {}", path.read_link().unwrap().display())
            } else if found.file_type().is_fifo() {
                "FIFO".to_owned()
            } else {
                format!("file {:?}", std::fs::read(&path).unwrap())
            };
            let shown = Shown { what, mode: found.mode(), modified: (found.mtime(), found.mtime_nsec()) };
            all.insert(path.strip_prefix(root).unwrap().to_owned(), shown);
        }
    }
    all
}

/// The same without the times of folders, which tell when something in them came or went.
fn without_times(tree: &Tree) -> Tree {
    let mut tree = tree.clone();
    for shown in tree.values_mut().filter(|shown| shown.what == "folder") {
        shown.modified = (0, 0);
    }
    tree
}

/// One change that can be undone.
struct Done {
    id: String,
    before: Tree,
    after: Tree,
}

impl Done {
    fn paths(&self) -> BTreeSet<&PathBuf> {
        let all = self.before.keys().chain(self.after.keys());
        all.filter(|path| self.before.get(*path) != self.after.get(*path)).collect()
    }
}

struct Run {
    fixture: Fixture,
    server: Server,
    done: Vec<Done>,
}

impl Run {
    fn tree(&self) -> Tree {
        tree(&self.fixture.workspace())
    }

    /// Makes a call, and notes what it changed. Says whether it worked.
    fn call(&mut self, tool: &str, arguments: Value) -> Result<(bool, Value), TestCaseError> {
        let before = self.tree();
        let result = self.server.call(tool, arguments.clone());
        let after = self.tree();
        let failed = result["isError"] == true;
        match result["_meta"]["handfast/meta"]["checkpoint"].as_str() {
            Some(id) => self.done.push(Done { id: id.to_owned(), before, after }),
            None => prop_assert_eq!(
                without_times(&before),
                without_times(&after),
                "{} {} changed something that cannot be undone: {:#}",
                tool,
                arguments,
                result
            ),
        }
        Ok((!failed, result))
    }

    fn step(&mut self, step: &Step) -> Result<(), TestCaseError> {
        let text = |path: &str| std::fs::read_to_string(self.fixture.workspace().join(path)).ok();
        // A FIFO would have a reader wait.
        let is_file = |path: &str| self.fixture.workspace().join(path).is_file();
        match step {
            Step::Write(path, number) => {
                self.call("file_write", json!({"path": path, "content": format!("{number}\n")}))?;
            }
            Step::Edit(path, number) if is_file(path) => {
                let old = text(path).unwrap_or_default();
                let edit = json!({"old_text": old, "new_text": format!("edited {number}\n")});
                self.call("file_edit", json!({"path": path, "edits": [edit]}))?;
            }
            Step::Delete(path) => {
                self.call("file_delete", json!({"path": path, "recursive": true}))?;
            }
            Step::Move(from, to) => {
                self.call("file_move", json!({"source": from, "destination": to}))?;
            }
            Step::Patch(updated, added, deleted, number) => {
                let mut patch = "*** Begin Patch\n".to_owned();
                if is_file(updated) {
                    let lines = |letter: char| -> String {
                        text(updated)
                            .unwrap_or_default()
                            .lines()
                            .map(|line| format!("{letter}{line}\n"))
                            .collect()
                    };
                    patch += &format!("*** Update File: {updated}\n@@\n{}+patched {number}\n", lines(' '));
                }
                patch += &format!("*** Add File: {added}\n+added {number}\n");
                if is_file(deleted) && deleted != updated {
                    patch += &format!("*** Delete File: {deleted}\n");
                }
                self.call("file_patch", json!({ "patch": patch + "*** End Patch\n" }))?;
            }
            Step::Command(line) => {
                self.call("shell_execute", json!({ "command": format!("umask 022; {line}") }))?;
            }
            Step::Undo { which, force } if !self.done.is_empty() => {
                self.undo(which % self.done.len(), *force)?;
            }
            Step::Edit(..) | Step::Undo { .. } => {}
        }
        Ok(())
    }

    fn undo(&mut self, which: usize, force: bool) -> Result<(), TestCaseError> {
        let force: &[&str] = if force { &["."] } else { &[] };
        let now = self.tree();
        let id = self.done[which].id.clone();
        let (worked, result) = self.call("checkpoint_restore", json!({"id": id, "force": force}))?;
        let then = self.tree();
        let done = &self.done[which];
        let (was, has) = (without_times(&done.before), without_times(&done.after));
        let (now, then) = (without_times(&now), without_times(&then));
        let paths = done.paths();
        if !worked {
            let code = &result["_meta"]["handfast/error"]["code"];
            prop_assert_eq!(code, "ECONFLICT", "{:#}", result);
            prop_assert_eq!(&then, &now, "what is refused changes nothing");
            let is_changed =
                |path: &&&PathBuf| now.get(**path) != has.get(**path) && now.get(**path) != was.get(**path);
            let is_blocked = |path: &&&PathBuf| {
                path.ancestors().skip(1).any(|above| {
                    !above.as_os_str().is_empty() && now.get(above).is_none_or(|above| above.what != "folder")
                })
            };
            let reason = paths.iter().find(is_changed).or_else(|| paths.iter().find(is_blocked));
            prop_assert!(reason.is_some(), "no path was changed since: {:#}", result);
            return Ok(());
        }
        for path in &paths {
            let others = |tree: &Tree| tree.keys().any(|inner| inner != *path && inner.starts_with(path));
            // A folder that it made stays where others put something into it.
            let is_left = !was.contains_key(*path) && others(&then);
            prop_assert!(
                then.get(*path) == was.get(*path) || is_left,
                "{} is {:?}, and was {:?}",
                path.display(),
                then.get(*path),
                was.get(*path)
            );
        }
        for path in now.keys().chain(then.keys()).filter(|path| !paths.contains(path)) {
            let is_needed = !now.contains_key(path)
                && paths.iter().any(|restored| restored.starts_with(path) && was.contains_key(*restored));
            // What lay in a folder goes with it where something else was in its place.
            let is_replaced = !force.is_empty()
                && path.ancestors().skip(1).any(|above| paths.iter().any(|restored| *restored == above));
            prop_assert!(
                now.get(path) == then.get(path) || is_needed || is_replaced,
                "{} was not changed by it, and is {:?} in place of {:?}",
                path.display(),
                then.get(path),
                now.get(path)
            );
        }
        Ok(())
    }
}

fn edits_and_undoings(before: &[Step], steps: &[Step]) -> Result<(), TestCaseError> {
    let fixture = Fixture::new();
    let server = Server::start(&fixture, &["--mode", "full_auto"]);
    let mut run = Run { fixture, server, done: Vec::new() };
    for step in before {
        run.step(step)?;
    }
    let first = run.tree();
    let earlier = run.done.len();
    for step in steps {
        run.step(step)?;
    }
    // From the last to the first, the undoings among them, nothing stands in the way.
    for number in (earlier..run.done.len()).rev() {
        let id = run.done[number].id.clone();
        let (worked, result) = run.call("checkpoint_restore", json!({ "id": id }))?;
        prop_assert!(worked, "{:#}", result);
        let (is, was) = (run.tree(), &run.done[number].before);
        prop_assert_eq!(&without_times(&is), &without_times(was), "undoing {}", id);
    }
    prop_assert_eq!(without_times(&run.tree()), without_times(&first));
    run.server.end();
    Ok(())
}

/// More of it by hand: `HANDFAST_CASES=500 HANDFAST_SEED=7`.
#[test]
fn random_edits_by_every_means_are_undone_in_any_order() {
    let number = |name: &str, otherwise: u32| {
        std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(otherwise)
    };
    let config = Config {
        cases: number("HANDFAST_CASES", 12),
        max_shrink_iters: 60,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(number("HANDFAST_SEED", 1).into()),
        ..Config::default()
    };
    let before = prop::collection::vec(step(), 0..6);
    let steps = prop::collection::vec(step(), 4..16);
    let tried =
        TestRunner::new(config).run(&(before, steps), |(before, steps)| edits_and_undoings(&before, &steps));
    if let Err(error) = tried {
        panic!("{error}");
    }
}
