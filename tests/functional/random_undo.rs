//! Random edits by every tool, undone in random order. Each undo restores exactly its own change,
//! or refuses because somebody changed the path since.

use std::cell::RefCell;
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
    /// Edits an existing file.
    Edit(usize, u8),
    Delete(String),
    Move(String, String),
    /// Updates the first path, adds the second and deletes the third, as far as they exist.
    Patch(String, String, String, u8),
    /// Changes existing files with a patch in git's format.
    GitPatch(GitPatch),
    /// Moves an existing file or folder into an existing folder, under this name.
    MoveSome(usize, usize, &'static str),
    DeleteSome(usize),
    Command(String),
    Undo {
        which: usize,
        force: bool,
    },
}

/// A patch that renames a file and adds a line to it, changes the mode of another, deletes a third
/// and adds one. The numbers choose among the existing files.
#[derive(Debug, Clone)]
struct GitPatch {
    renamed: (usize, String),
    mode_of: usize,
    deleted: usize,
    added: (String, bool),
    number: u8,
}

impl GitPatch {
    /// Builds the patch for these files, each with its content and true if it may be executed.
    fn text(&self, files: &BTreeMap<String, (String, bool)>) -> String {
        let mode = |executable: bool| if executable { "100755" } else { "100644" };
        let hunk = |content: &str, letter: char, more: &str| -> String {
            let lines: String = content.lines().map(|line| format!("{letter}{line}\n")).collect();
            let old = content.lines().count();
            let new = if letter == '-' { 0 } else { old } + more.lines().count();
            let start = |count: usize| usize::from(count > 0);
            format!("@@ -{},{old} +{},{new} @@\n{lines}{more}", start(old), start(new))
        };
        let mut chosen = BTreeSet::new();
        let mut choose = |number: usize| {
            let path = files.keys().nth(number % files.len().max(1))?;
            chosen.insert(path).then(|| (path, &files[path]))
        };
        let mut patch = String::new();
        if let Some((from, (content, _))) =
            choose(self.renamed.0).filter(|(from, _)| **from != self.renamed.1)
        {
            let (to, more) = (&self.renamed.1, format!("+renamed {}\n", self.number));
            patch += &format!(
                "diff --git a/{from} b/{to}\nsimilarity index 50%\nrename from {from}\nrename to {to}\n--- a/{from}\n\
                 +++ b/{to}\n{}",
                hunk(content, ' ', &more)
            );
        }
        if let Some((path, (_, executable))) = choose(self.mode_of) {
            let (old, new) = (mode(*executable), mode(!executable));
            patch += &format!("diff --git a/{path} b/{path}\nold mode {old}\nnew mode {new}\n");
        }
        if let Some((path, (content, executable))) = choose(self.deleted) {
            patch += &format!("diff --git a/{path} b/{path}\ndeleted file mode {}\n", mode(*executable));
            if !content.is_empty() {
                patch += &format!("--- a/{path}\n+++ /dev/null\n{}", hunk(content, '-', ""));
            }
        }
        let (path, executable) = &self.added;
        let more = format!("+added {}\n", self.number);
        patch
            + &format!(
                "diff --git a/{path} b/{path}\nnew file mode {}\n--- /dev/null\n+++ b/{path}\n{}",
                mode(*executable),
                hunk("", '+', &more)
            )
    }
}

fn git_patch() -> impl Strategy<Value = GitPatch> {
    let numbers = (any::<usize>(), any::<usize>(), any::<usize>(), any::<u8>());
    (numbers, path(), path(), any::<bool>()).prop_map(
        |((renamed, mode_of, deleted, number), to, added, run)| GitPatch {
            renamed: (renamed, to),
            mode_of,
            deleted,
            added: (added, run),
            number,
        },
    )
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
        2 => (path(), path()).prop_map(|(target, path)| format!("ln -sT {target} {path}")),
        1 => (path(), path()).prop_map(|(from, to)| format!("test ! -d {to} && ln -T {from} {to}")),
        1 => path().prop_map(|path| format!("mkfifo {path}")),
        3 => (path(), mode).prop_map(|(path, mode)| format!("test ! -L {path} && chmod {mode} {path}")),
        1 => (path(), 1..28_u8).prop_map(|(path, day)| format!("touch -chd 2020-01-{day:02} {path}")),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let name = prop::sample::select(vec!["a", "b", "c", "d"]);
    prop_oneof![
        4 => (path(), any::<u8>()).prop_map(|(path, text)| Step::Write(path, text)),
        2 => (any::<usize>(), any::<u8>()).prop_map(|(which, text)| Step::Edit(which, text)),
        2 => path().prop_map(Step::Delete),
        2 => (path(), path()).prop_map(|(from, to)| Step::Move(from, to)),
        2 => (path(), path(), path(), any::<u8>()).prop_map(|(one, two, three, text)| Step::Patch(one, two, three, text)),
        3 => git_patch().prop_map(Step::GitPatch),
        3 => (any::<usize>(), any::<usize>(), name).prop_map(|(which, into, name)| Step::MoveSome(which, into, name)),
        1 => any::<usize>().prop_map(Step::DeleteSome),
        4 => prop::collection::vec(command(), 1..4).prop_map(|lines| Step::Command(lines.join("; "))),
        4 => (any::<usize>(), any::<bool>()).prop_map(|(which, force)| Step::Undo { which, force }),
    ]
}

const TOOLS: [&str; 7] = [
    "file_write",
    "file_edit",
    "file_delete",
    "file_move",
    "file_patch",
    "shell_execute",
    "checkpoint_restore",
];
/// Kinds of changes that must occur for the test to be meaningful.
const KINDS: [&str; 7] = [
    "git patches",
    "moves of folders",
    "folders that came",
    "folders that went",
    "links that came",
    "links that went",
    "modes",
];

/// The entry at a path.
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

/// Returns the tree without the times of folders, which change with their entries.
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

struct Run<'a> {
    fixture: Fixture,
    server: Server,
    done: Vec<Done>,
    /// Number of changes of each kind.
    made: &'a RefCell<BTreeMap<&'static str, usize>>,
}

impl Run<'_> {
    fn tree(&self) -> Tree {
        tree(&self.fixture.workspace())
    }

    /// Makes a call, and records its changes. Returns true first if the call worked.
    fn call(&mut self, tool: &str, arguments: Value) -> Result<(bool, Value), TestCaseError> {
        let before = self.tree();
        let result = self.server.call(tool, arguments.clone());
        let after = self.tree();
        let failed = result["isError"] == true;
        match result["_meta"]["handfast/meta"]["checkpoint"].as_str() {
            Some(id) => {
                self.done.push(Done { id: id.to_owned(), before, after });
                self.note();
            }
            None => prop_assert_eq!(
                without_times(&before),
                without_times(&after),
                "{} {} changed something that cannot be undone: {:#}",
                tool,
                arguments,
                result
            ),
        }
        if !failed && let Some(tool) = TOOLS.iter().find(|known| **known == tool) {
            *self.made.borrow_mut().entry(tool).or_default() += 1;
        }
        Ok((!failed, result))
    }

    fn count(&self, kind: &'static str, worked: bool) {
        *self.made.borrow_mut().entry(kind).or_default() += usize::from(worked);
    }

    /// Returns one of the existing paths, and true if it is a folder.
    fn some(&self, which: usize) -> Option<(String, bool)> {
        let tree = self.tree();
        let (path, shown) = tree.iter().nth(which % tree.len().max(1))?;
        Some((path.to_str()?.to_owned(), shown.what == "folder"))
    }

    /// Returns the files with their content, and true for those that may be executed.
    fn files(&self) -> BTreeMap<String, (String, bool)> {
        let files = self.tree().into_iter().filter(|(_, shown)| shown.what.starts_with("file"));
        let read = |path: &Path| std::fs::read_to_string(self.fixture.workspace().join(path)).unwrap();
        files
            .map(|(path, shown)| (path.to_str().unwrap().to_owned(), (read(&path), shown.mode & 0o100 != 0)))
            .collect()
    }

    /// Counts the kinds of the last change that [`KINDS`] lists.
    fn note(&self) {
        let Some(done) = self.done.last() else { return };
        let mut made = self.made.borrow_mut();
        for path in done.paths() {
            let kind = match (done.before.get(path), done.after.get(path)) {
                (None, Some(after)) if after.what == "folder" => "folders that came",
                (Some(before), None) if before.what == "folder" => "folders that went",
                (None, Some(after)) if after.what.starts_with("link") => "links that came",
                (Some(before), None) if before.what.starts_with("link") => "links that went",
                (Some(before), Some(after)) if before.what == after.what && before.mode != after.mode => {
                    "modes"
                }
                _ => continue,
            };
            *made.entry(kind).or_default() += 1;
        }
    }

    fn step(&mut self, step: &Step) -> Result<(), TestCaseError> {
        let text = |path: &str| std::fs::read_to_string(self.fixture.workspace().join(path)).ok();
        // Opening a FIFO would block the reader.
        let is_file = |path: &str| self.fixture.workspace().join(path).is_file();
        match step {
            Step::Write(path, number) => {
                self.call("file_write", json!({"path": path, "content": format!("{number}\n")}))?;
            }
            Step::Edit(which, number) => {
                let files = self.files();
                let Some((path, (old, _))) = files.iter().nth(which % files.len().max(1)) else {
                    return Ok(());
                };
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
            Step::GitPatch(patch) => {
                let patch = patch.text(&self.files());
                let (worked, _) = self.call("file_patch", json!({ "patch": patch }))?;
                self.count("git patches", worked);
            }
            Step::MoveSome(which, into, name) => {
                let Some((from, is_folder)) = self.some(*which) else { return Ok(()) };
                let tree = self.tree();
                let folders = tree.iter().filter(|(_, shown)| shown.what == "folder");
                let folders: Vec<_> =
                    [Path::new("")].into_iter().chain(folders.map(|(path, _)| path.as_path())).collect();
                let to = folders[into % folders.len()].join(name);
                let (worked, _) = self.call("file_move", json!({"source": from, "destination": to}))?;
                self.count("moves of folders", worked && is_folder);
            }
            Step::DeleteSome(which) => {
                let Some((path, _)) = self.some(*which) else { return Ok(()) };
                self.call("file_delete", json!({"path": path, "recursive": true}))?;
            }
            Step::Command(line) => {
                self.call("shell_execute", json!({ "command": format!("umask 022; {line}") }))?;
            }
            Step::Undo { which, force } if !self.done.is_empty() => {
                self.undo(which % self.done.len(), *force)?;
            }
            Step::Undo { .. } => {}
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
            // A folder that the change made stays if others put something into it.
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
            // A forced undo that replaces a folder also removes the folder's content.
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

fn edits_and_undoings(
    before: &[Step],
    steps: &[Step],
    made: &RefCell<BTreeMap<&'static str, usize>>,
) -> Result<(), TestCaseError> {
    let fixture = Fixture::new();
    let server = Server::start(&fixture, &["--mode", "full_auto"]);
    let mut run = Run { fixture, server, done: Vec::new(), made };
    for step in before {
        run.step(step)?;
    }
    let first = run.tree();
    let earlier = run.done.len();
    for step in steps {
        run.step(step)?;
    }
    // Undo from the last to the first, undos included: no change is in the way.
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

/// Run more cases by hand with `HANDFAST_CASES=500 HANDFAST_SEED=7`.
#[test]
fn random_edits_by_every_means_are_undone_in_any_order() {
    let number = |name: &str, otherwise: u32| {
        std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(otherwise)
    };
    let config = Config {
        cases: number("HANDFAST_CASES", 24),
        max_shrink_iters: 60,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(number("HANDFAST_SEED", 1).into()),
        ..Config::default()
    };
    let before = prop::collection::vec(step(), 0..6);
    let steps = prop::collection::vec(step(), 4..16);
    let made = RefCell::default();
    let tried = TestRunner::new(config)
        .run(&(before, steps), |(before, steps)| edits_and_undoings(&before, &steps, &made));
    if let Err(error) = tried {
        panic!("{error}");
    }
    let made = made.into_inner();
    println!("{made:#?}");
    for kind in TOOLS.iter().chain(&KINDS) {
        assert!(made.get(kind).is_some_and(|made| *made > 0), "{kind}: none among {made:?}");
    }
}
