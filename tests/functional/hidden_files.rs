//! Files that a rule hides from commands: commands can still change the folders around them, and
//! git works even if it tracks hidden files.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::functional::undo::{checkpoint, tree, undo};
use crate::harness::{Fixture, unread};
use crate::server::Server;

const SECRET: &str = "s3cr3t-text";

/// Runs git in a workspace, outside any cell, as the workspace's user does.
fn git(fixture: &Fixture, words: &str) -> String {
    let mut command = Command::new("git");
    command.current_dir(fixture.workspace()).env("HOME", fixture.home()).env("GIT_CONFIG_NOSYSTEM", "1");
    let output = command.args(words.split(' ')).output().unwrap();
    assert!(output.status.success(), "git {words}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Builds a repository that tracks files which the built-in rules hide, with an untracked one next
/// to them. The branch `other` lacks the small ones.
fn repository() -> Fixture {
    let fixture = Fixture::with_files(&[
        ("tests/server.pem", &format!("{SECRET}\nof a server\n")),
        ("tests/deep/[a b]*\"é\".key", &format!("{SECRET} with a name")),
        ("tests/plain", "plain\n"),
        ("small.key", "x"),
        ("empty.pem", ""),
        ("src/a", "one\n"),
    ]);
    fs::write(
        fixture.home().join(".gitconfig"),
        "[user]\n\tname = A\n\temail = a@b.c\n[init]\n\tdefaultBranch = main\n",
    )
    .unwrap();
    git(&fixture, "init -q");
    git(&fixture, "add -A");
    git(&fixture, "commit -qm one");
    git(&fixture, "checkout -qb other");
    git(&fixture, "rm -q small.key");
    fixture.write("src/b", "b\n");
    git(&fixture, "add -A");
    git(&fixture, "commit -qm other");
    git(&fixture, "checkout -q main");
    fixture.write(".env", &format!("untracked {SECRET}"));
    fixture
}

/// Builds the repository without any rule that hides files.
fn unhidden() -> Fixture {
    let fixture = repository();
    let configuration = fixture.home().join(".config/handfast");
    fs::create_dir_all(&configuration).unwrap();
    fs::write(configuration.join("config.yaml"), "sandbox_config:\n  normal:\n    deny_read_paths: []\n")
        .unwrap();
    fixture
}

fn run(fixture: &Fixture, command: &str) -> Value {
    // The policy would refuse some lines for the names in them. `unread` prevents that, because
    // this test is about the cell.
    fixture.call("shell_execute", json!({ "command": unread(command) }))
}

/// Collects the content of every file except git's own.
fn files(folder: &Path, top: &Path, all: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if !path.ends_with(".git") {
                files(&path, top, all);
            }
        } else {
            let name = path.strip_prefix(top).unwrap().display().to_string();
            all.insert(name, fs::read_to_string(&path).unwrap());
        }
    }
}

/// Returns a user's view of the workspace: its files, the index, git's status, and the history.
fn seen(fixture: &Fixture) -> (BTreeMap<String, String>, [String; 4]) {
    let mut all = BTreeMap::new();
    files(&fixture.workspace(), &fixture.workspace(), &mut all);
    let asked = ["ls-files -s", "status --porcelain", "log --all --format=%s%T", "config --list --local"];
    // The order of two commits of the same second means nothing.
    let sorted = |words| {
        let said = git(fixture, words);
        let mut lines: Vec<&str> = said.lines().collect();
        lines.sort_unstable();
        lines.join("\n")
    };
    (all, asked.map(sorted))
}

#[test]
fn whatever_git_does_with_hidden_files_in_the_tree_comes_to_the_same_as_without_a_rule() {
    for line in [
        "git status --porcelain -uno; git diff; git diff HEAD",
        "echo two >> src/a; git add -A -- src tests; git commit -qm two; git status --porcelain -uno",
        "echo two >> src/a; git commit -qam two; git diff HEAD~1 --stat",
        "echo two >> src/a; git stash -q; cat src/a; git stash pop -q; git stash list",
        "echo two >> src/a; git checkout -q -- .; git status --porcelain -uno",
        "echo two >> src/a; git reset -q --hard; git status --porcelain -uno",
        "git reset -q --hard; git checkout -q -f main",
        "git checkout -q other; ls; git status --porcelain -uno",
        "git checkout -q other; git checkout -q main; git status --porcelain -uno",
        "git switch -q -c mine; echo 1 > src/c; git add -A src; git commit -qm c; git rebase -q other",
        "git merge -q --no-edit other; git status --porcelain -uno",
        "git rm -q tests/server.pem; git commit -qm gone",
        "git rm -qr tests; git commit -qm gone",
        "git mv src/a src/moved; git commit -qm moved",
        "rm -rf tests; git status --porcelain -uno; git checkout -q -- tests",
        "rm -rf tests; git commit -qam gone",
        "git update-index --refresh; git reset -q; git status --porcelain -uno",
        "mkdir new; echo x > new/x; git clean -qfd new; git worktree list | wc -l; ls",
    ] {
        let (hidden, plain) = (repository(), unhidden());
        let (answer, control) = (run(&hidden, line), run(&plain, line));
        assert_eq!(answer["ok"], true, "{line}: {answer:#}");
        for of in ["stdout", "exit_code"] {
            assert_eq!(answer["data"][of], control["data"][of], "{line}: {answer:#}");
        }
        assert!(!answer.to_string().contains(SECRET), "{line}: {answer}");
        let (files, told) = seen(&hidden);
        let (expected, expected_told) = seen(&plain);
        assert_eq!(files, expected, "{line}");
        // The output contains the hashes of trees, because those of commits depend on times.
        assert_eq!(told, expected_told, "{line}");
    }
}

#[test]
fn an_untracked_file_that_is_hidden_does_not_stop_git_either() {
    let fixture = repository();
    let line = "git status --porcelain; echo two >> src/a; git add -A && git commit -qm two; git stash -qu; git status --porcelain";
    let answer = run(&fixture, line);
    assert_eq!(
        (&answer["data"]["stdout"], &answer["data"]["exit_code"]),
        (&json!(""), &json!(0)),
        "{answer:#}"
    );
    assert_eq!(git(&fixture, "status --porcelain"), "?? .env\n");
    assert_eq!(fixture.read(".env"), format!("untracked {SECRET}"));
}

#[test]
fn a_folder_with_a_hidden_file_is_removed_and_undo_brings_all_of_it_back() {
    for line in [
        "rm -rf tests",
        "git clean -qfdx; rm -r tests src",
        "find tests -delete",
        "mv tests/plain p; rm -rf tests",
    ] {
        let fixture = repository();
        let before = tree(&fixture);
        let answer = run(&fixture, line);
        assert!(!fixture.workspace().join("tests").exists(), "{line}: {answer:#}");
        let warnings = answer["meta"]["warnings"].to_string();
        assert!(warnings.contains("removed although it is hidden from commands: "), "{warnings}");
        undo(&fixture, &[&checkpoint(&answer)]);
        assert_eq!(tree(&fixture), before, "{line}");
    }
}

#[test]
fn what_tools_make_again_is_removed_with_the_hidden_files_in_it() {
    let fixture = Fixture::with_files(&[
        ("package.json", "{}"),
        ("node_modules/tls/test/key.pem", SECRET),
        ("node_modules/.package-lock.json", "{}"),
    ]);
    let answer = run(
        &fixture,
        "rm -rf node_modules && mkdir node_modules && echo x > node_modules/x && ls node_modules",
    );
    assert_eq!(answer["data"]["stdout"], "x\n", "{answer:#}");
    assert!(!fixture.workspace().join("node_modules/tls").exists());
    assert_eq!(answer["meta"]["warnings"], Value::Null, "{answer:#}");
}

#[test]
fn what_is_hidden_is_not_moved_linked_or_changed_and_nothing_of_it_is_lost() {
    for line in [
        "mv tests moved",
        "mv tests/server.pem server.txt",
        "git mv tests/server.pem tests/other.pem",
        "mv .env env.txt; chmod 644 env.txt",
        "ln small.key link",
        "rm -f small.key; echo mine > small.key",
        "chmod 600 .env; echo new > .env",
        "cp tests/server.pem copy; rm tests/server.pem",
        "git -c core.attributesFile=/dev/null add -A; git commit -qm notice",
    ] {
        let fixture = repository();
        let before = tree(&fixture);
        let answer = run(&fixture, line);
        let error = &answer["error"];
        assert_eq!(
            (&answer["ok"], &error["code"]),
            (&json!(false), &json!("EPERMISSION")),
            "{line}: {answer:#}"
        );
        assert!(
            error["message"].as_str().unwrap().contains("hidden") || line.contains("mine"),
            "{line}: {error:#}"
        );
        assert_eq!(tree(&fixture), before, "{line}");
        assert!(!answer.to_string().contains(SECRET), "{line}");
    }
}

#[test]
fn a_copy_of_a_folder_comes_without_what_is_hidden_in_it_and_the_answer_says_so() {
    let fixture = repository();
    let answer = run(&fixture, "cp -r tests copy");
    assert_eq!(answer["data"]["exit_code"], 0, "{answer:#}");
    assert_eq!(fixture.read("copy/plain"), "plain\n");
    assert!(!fixture.workspace().join("copy/server.pem").exists());
    let warnings = answer["meta"]["warnings"].to_string();
    assert!(warnings.contains("left out") && warnings.contains("copy/server.pem"), "{warnings}");
}

#[test]
fn attributes_of_a_repository_that_name_another_filter_are_not_overruled() {
    let fixture = repository();
    fixture.write(".gitattributes", "*.pem filter=crypt\n");
    git(&fixture, "config filter.crypt.clean cat");
    let answer = run(&fixture, "git add -A");
    assert_ne!(answer["data"]["exit_code"], 0, "git must not take a notice for the content: {answer:#}");
    assert!(answer["data"]["stderr"].as_str().unwrap().contains("Permission denied"), "{answer:#}");
}

#[test]
fn a_session_is_told_once_what_is_hidden_and_again_when_more_is() {
    let fixture = repository();
    let mut server = Server::start(&fixture, &["--mode", "full_auto"]);
    let mut warnings_of = |command: &str| {
        let answer = server.call("shell_execute", json!({ "command": command }));
        let text = answer["content"][0]["text"].as_str().unwrap();
        text.lines().filter(|line| line.starts_with("[warning: ")).map(str::to_owned).collect::<Vec<_>>()
    };
    let hidden = |names: &str| [format!("[warning: hidden here, because a rule denies reading it: {names}]")];
    assert_eq!(warnings_of("ls"), hidden(".env, empty.pem, small.key and 2 more"));
    assert_eq!(warnings_of("ls -a"), [] as [String; 0]);
    fixture.write("more.pem", SECRET);
    assert_eq!(warnings_of("ls src"), hidden("more.pem"));
    assert_eq!(warnings_of("ls tests"), [] as [String; 0]);
}

#[test]
fn of_very_many_hidden_files_all_stay_hidden_and_none_can_be_removed() {
    let fixture = Fixture::new();
    for number in 0..=2_000 {
        fixture.write(&format!("many/{number}.pem"), SECRET);
    }
    let answer = run(&fixture, "cat many/*.pem; rm -rf many; ls many | wc -l");
    assert_eq!(answer["data"]["stdout"], "2001\n", "{:.2000}", answer.to_string());
    assert!(!answer.to_string().contains(SECRET));
    fs::remove_file(fixture.workspace().join("many/7.pem")).unwrap();
    let answer = run(&fixture, "cat many/*.pem; rm -rf many; ls");
    assert_eq!(answer["data"]["stdout"], "", "{:.2000}", answer.to_string());
    assert!(!answer.to_string().contains(SECRET));
}
