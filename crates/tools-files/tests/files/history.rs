//! Patches made by real tools: this project's own history, and the output of `git diff` and `diff
//! -u` for generated files.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{Value, json};
use testkit::{Workspace, run_tool};
use tool::{Code, ToolError};

/// Maximum number of commits to test, from the newest back: enough for every kind of change, and
/// fast enough for every run.
const MAX_COMMITS: usize = 120;
/// Variable that, if set, makes the test use all commits, and apply the first to an empty folder.
const ALL: &str = "HANDFAST_ALL_COMMITS";
/// Git's constant id of the tree of an empty folder.
const EMPTY_TREE: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

fn file_patch(workspace: &Workspace, arguments: Value) -> Result<Value, ToolError> {
    let tools = tools_files::tools();
    let tool = tools.iter().find(|tool| tool.spec().name == "file_patch").unwrap();
    run_tool(tool.as_ref(), workspace, arguments)
}

/// Git on the objects of this repository, with the files of a workspace, and a separate index and
/// object store.
struct Git<'a> {
    workspace: &'a Workspace,
    own: tempfile::TempDir,
    repository: PathBuf,
}

impl<'a> Git<'a> {
    fn over(workspace: &'a Workspace) -> Self {
        let own = tempfile::tempdir().unwrap();
        fs::create_dir(own.path().join("objects")).unwrap();
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let common = git(here, &["rev-parse", "--path-format=absolute", "--git-common-dir"]);
        Self { workspace, own, repository: PathBuf::from(text(common)) }
    }

    fn run(&self, arguments: &[&str]) -> String {
        let output = Command::new("git")
            .arg("--git-dir")
            .arg(&self.repository)
            .arg("--work-tree")
            .arg(self.workspace.path())
            .args(["-c", "core.quotePath=true", "-c", "core.fileMode=true", "-c", "core.excludesFile="])
            .args(arguments)
            .current_dir(self.workspace.path())
            .env("GIT_INDEX_FILE", self.own.path().join("index"))
            .env("GIT_OBJECT_DIRECTORY", self.own.path().join("objects"))
            .env("GIT_ALTERNATE_OBJECT_DIRECTORIES", self.repository.join("objects"))
            .output()
            .unwrap();
        text(output)
    }
}

fn git<S: AsRef<OsStr>>(folder: &Path, arguments: &[S]) -> Output {
    Command::new("git").args(arguments).current_dir(folder).output().unwrap()
}

fn text(output: Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim_end_matches('\n').to_owned()
}

#[test]
fn each_commit_of_this_project_applied_to_its_parent_gives_its_tree() {
    let workspace = Workspace::new();
    let git = Git::over(&workspace);
    let all = std::env::var_os(ALL).is_some();
    let mut commits = git.run(&["rev-list", "--first-parent", "HEAD"]);
    if all {
        commits = format!("{commits}\n{EMPTY_TREE}");
    }
    let mut commits: Vec<&str> = commits.lines().collect();
    if !all {
        commits.truncate(MAX_COMMITS);
    }
    commits.reverse();
    git.run(&["read-tree", commits[0]]);
    git.run(&["checkout-index", "--all", "--force"]);
    let mut applied = 0;
    for pair in commits.windows(2) {
        let [parent, commit] = pair else { unreachable!("windows of two") };
        let diff = git.run(&["diff", "--no-color", "--no-ext-diff", "--find-renames", parent, commit]) + "\n";
        let tree = git.run(&["rev-parse", &format!("{commit}^{{tree}}")]);
        if diff.trim().is_empty() {
            continue;
        }
        let done = file_patch(&workspace, json!({ "patch": diff }))
            .unwrap_or_else(|error| panic!("{commit}: {error}"));
        assert!(done.get("drifts").is_none(), "{commit}: {done}");
        git.run(&["add", "--all", "--force", "."]);
        assert_eq!(git.run(&["write-tree"]), tree, "{commit}");
        applied += 1;
    }
    println!("{applied} of {} commits applied, the others change no file", commits.len() - 1);
    assert!(applied > 0 || commits.len() < 2, "nothing was tried");
}

/// Returns a strategy for small trees of files: few names and few lines, so that changes overlap.
fn files() -> impl Strategy<Value = BTreeMap<String, (Vec<u8>, bool)>> {
    let line = prop_oneof![Just("a"), Just("b"), Just("  c"), Just("\tc"), Just(""), Just("d\r"), Just("ü")];
    let content = (prop::collection::vec(line, 0..24), any::<bool>()).prop_map(|(lines, ended)| {
        let mut content = lines.join("\n");
        if ended && !content.is_empty() {
            content.push('\n');
        }
        content.into_bytes()
    });
    let name = prop_oneof![Just("f"), Just("g h"), Just("d/f"), Just("d/e/x"), Just("größe")]
        .prop_map(str::to_owned);
    prop::collection::btree_map(name, (content, any::<bool>()), 0..5)
}

fn lay_out(folder: &Path, files: &BTreeMap<String, (Vec<u8>, bool)>) {
    use std::os::unix::fs::PermissionsExt;
    fs::create_dir_all(folder).unwrap();
    for (name, (content, executable)) in files {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        let mode = if *executable { 0o755 } else { 0o644 };
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }
}

/// Returns the regular files below a folder, with content and execution bit.
fn tree(folder: &Path) -> BTreeMap<String, (Vec<u8>, bool)> {
    use std::os::unix::fs::PermissionsExt;
    let mut found = BTreeMap::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(inner) = folders.pop() {
        for entry in fs::read_dir(folder.join(&inner)).unwrap() {
            let entry = entry.unwrap();
            let path = inner.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                if path != Path::new(".git") {
                    folders.push(path);
                }
                continue;
            }
            let executable = entry.metadata().unwrap().permissions().mode() & 0o100 != 0;
            found.insert(
                path.to_str().unwrap().to_owned(),
                (fs::read(folder.join(&path)).unwrap(), executable),
            );
        }
    }
    found
}

/// Returns git's diff of two trees.
fn git_diff(
    before: &BTreeMap<String, (Vec<u8>, bool)>,
    after: &BTreeMap<String, (Vec<u8>, bool)>,
    renames: &str,
) -> String {
    let folder = tempfile::tempdir().unwrap();
    text(git(folder.path(), &["init", "--quiet", "."]));
    let add = |files| {
        lay_out(folder.path(), files);
        text(git(folder.path(), &["-c", "core.autocrlf=false", "add", "--all", "."]));
        text(git(folder.path(), &["write-tree"]))
    };
    let tree = add(before);
    text(git(folder.path(), &["rm", "-r", "--quiet", "--force", "--ignore-unmatch", "."]));
    add(after);
    let diff =
        git(folder.path(), &["diff", "--cached", "--no-color", "--no-ext-diff", "--text", renames, &tree]);
    String::from_utf8(diff.stdout).unwrap()
}

/// Creates a test runner with the same cases in every run.
fn runner(cases: u32) -> TestRunner {
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha))
}

#[test]
fn what_git_diff_makes_of_two_trees_makes_the_one_of_the_other() {
    runner(100)
        .run(&(files(), files(), any::<bool>()), |(before, after, renames)| {
            let diff =
                git_diff(&before, &after, if renames { "--find-copies-harder" } else { "--no-renames" });
            prop_assume!(!diff.is_empty());
            let workspace = Workspace::new();
            lay_out(workspace.path(), &before);
            let checked = file_patch(&workspace, json!({"patch": diff, "dry_run": true}));
            prop_assert!(checked.is_ok(), "{diff}\n{checked:?}");
            prop_assert_eq!(tree(workspace.path()), before);
            let done = file_patch(&workspace, json!({ "patch": diff }));
            prop_assert!(done.is_ok(), "{diff}\n{done:?}");
            prop_assert_eq!(tree(workspace.path()), after, "{}", diff);
            Ok(())
        })
        .unwrap();
}

#[test]
fn what_diff_u_makes_of_two_files_makes_the_one_of_the_other() {
    runner(100)
        .run(&(files(), files()), |(before, after)| {
            let folder = tempfile::tempdir().unwrap();
            lay_out(&folder.path().join("old"), &before);
            lay_out(&folder.path().join("new"), &after);
            let diff = Command::new("diff")
                .args(["-urN", "old", "new"])
                .current_dir(folder.path())
                .output()
                .unwrap();
            let diff = String::from_utf8(diff.stdout).unwrap();
            // `diff` quotes special names in its own way, and does not report empty files that are
            // added or removed.
            let plain = |files: &BTreeMap<String, (Vec<u8>, bool)>| {
                files
                    .iter()
                    .all(|(name, (content, _))| name.is_ascii() && !name.contains(' ') && !content.is_empty())
            };
            prop_assume!(!diff.is_empty() && plain(&before) && plain(&after));
            let workspace = Workspace::new();
            lay_out(workspace.path(), &before);
            let done = file_patch(&workspace, json!({ "patch": diff }));
            prop_assert!(done.is_ok(), "{diff}\n{done:?}");
            let contents = |files: BTreeMap<String, (Vec<u8>, bool)>| {
                files.into_iter().map(|(name, (content, _))| (name, content)).collect::<BTreeMap<_, _>>()
            };
            prop_assert_eq!(contents(tree(workspace.path())), contents(after), "{}", diff);
            Ok(())
        })
        .unwrap();
}

#[test]
fn a_patch_against_another_tree_applies_as_with_git_or_changes_nothing() {
    let applied = std::cell::Cell::new(0);
    runner(120)
        .run(&(files(), files(), files()), |(before, after, other)| {
            let folder = tempfile::tempdir().unwrap();
            let diff = git_diff(&before, &after, "--no-renames");
            prop_assume!(!diff.is_empty());
            let workspace = Workspace::new();
            lay_out(workspace.path(), &other);
            match file_patch(&workspace, json!({ "patch": diff })) {
                Ok(done) => {
                    applied.set(applied.get() + 1);
                    // For a patch that applies without drift, git gives the same result.
                    if done.get("drifts").is_none() && !diff.contains('\r') {
                        let theirs = folder.path().join("theirs");
                        lay_out(&theirs, &other);
                        fs::write(folder.path().join("patch"), &diff).unwrap();
                        if git(&theirs, &["apply", "../patch"]).status.success() {
                            prop_assert_eq!(tree(workspace.path()), tree(&theirs), "{}", diff);
                        }
                    }
                }
                Err(error) => {
                    prop_assert!(
                        matches!(error.code, Code::Conflict | Code::NotFound | Code::Validation),
                        "{diff}\n{error}"
                    );
                    prop_assert_eq!(tree(workspace.path()), other, "{}", diff);
                }
            }
            Ok(())
        })
        .unwrap();
    println!("{} of 120 applied", applied.get());
}
