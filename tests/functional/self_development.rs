//! Self-development: tests of a sample project, modifications that are accepted, refused and taken back.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::harness::{Fixture, eventually};

const SOURCE: &str = "exports.add = (a, b) => a + b;\nexports.twice = (a) => a + a + 1;\n";
const TESTS: &str = "const test = require('node:test');\nconst assert = require('node:assert');\nconst { add, twice } = require('../src/sum.js');\n\
    test('adds', () => assert.strictEqual(add(1, 2), 3));\ntest('doubles', () => assert.strictEqual(twice(2), 4));\n";
pub(crate) const MENDED: &str = "exports.add = (a, b) => a + b;\nexports.twice = (a) => a + a;\n";

/// Runs git in the workspace, outside of every cell.
pub(crate) fn git(fixture: &Fixture, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=Ada", "-c", "user.email=ada@example.com"])
        .args(arguments)
        .current_dir(fixture.workspace())
        .output()
        .unwrap();
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Makes the project of the tools' examples, whose two tests pass.
pub(crate) fn example() -> Fixture {
    let files =
        [("src/sum.js", MENDED), ("test/sum.test.js", TESTS), ("src/limit.js", "exports.limit = 10;\n")];
    committed(&files)
}

/// Makes a project of two tests, one of which fails.
pub(crate) fn project() -> Fixture {
    let files =
        [("src/sum.js", SOURCE), ("test/sum.test.js", TESTS), ("src/gate/rules.js", "exports.ask = true;\n")];
    committed(&files)
}

/// Makes a project whose files are in a commit.
fn committed(files: &[(&str, &str)]) -> Fixture {
    let fixture = Fixture::with_files(files);
    git(&fixture, &["init", "-q", "-b", "main"]);
    git(&fixture, &["add", "."]);
    git(&fixture, &["commit", "-q", "-m", "first"]);
    fixture.configure(
        "self:\n  sample:\n    folder: .\n    tests: {all: [node, --test, test], plugin: [node, --test, '{target}']}\n    protected: [src/gate]\n",
    );
    fixture
}

fn modification(path: &str, content: &str) -> Value {
    json!({"path": path, "change_description": "mend it", "new_content": content, "reason": "a test fails"})
}

/// Asserts that the project is as before: its commit, its files, and nothing left of a trial.
#[track_caller]
pub(crate) fn assert_untouched(fixture: &Fixture, head: &str) {
    assert_eq!(git(fixture, &["rev-parse", "HEAD"]), head);
    assert_eq!(git(fixture, &["status", "--porcelain"]), "");
    assert_nothing_left(fixture);
}

#[track_caller]
pub(crate) fn assert_nothing_left(fixture: &Fixture) {
    assert_eq!(git(fixture, &["worktree", "list"]).lines().count(), 1);
    assert!(!fixture.workspace().join(".git/worktrees").exists());
    assert!(!fixture.workspace().join(".handfast-trial").exists());
}

#[test]
fn a_modification_is_tested_committed_listed_and_taken_back() {
    let fixture = project();
    let head = git(&fixture, &["rev-parse", "HEAD"]);
    let done = fixture.data("self_modify_source", modification("src/sum.js", MENDED));
    assert_eq!((&done["applied"], &done["tests_passed"]), (&json!(true), &json!(true)), "{done:#}");
    assert!(done["diff"].as_str().unwrap().contains("-exports.twice = (a) => a + a + 1;"), "{done:#}");
    let results = done["test_results"].as_str().unwrap();
    assert!(results.contains("before: failed: 1 passed, 1 failed"), "{results}");
    assert!(results.contains("after: passed: 2 passed, 0 failed") && results.contains("mended: doubles"));
    let commit = git(&fixture, &["rev-parse", "HEAD"]);
    assert_eq!(done["rollback_commit"], commit.as_str());
    assert_eq!(git(&fixture, &["rev-parse", "HEAD^"]), head);
    let message = git(&fixture, &["log", "-1", "--format=%B"]);
    assert!(
        message.starts_with("[self-modify] mend it\n\na test fails\n\nHandfast-Path: src/sum.js\n"),
        "{message}"
    );
    assert_eq!(fixture.read("src/sum.js"), MENDED);
    assert_eq!(git(&fixture, &["status", "--porcelain"]), "");
    assert_nothing_left(&fixture);

    let listed = fixture.data("self_rollback", json!({"action": "list"}));
    assert_eq!((&listed["count"], &listed["commits"][0]["commit_hash"]), (&json!(1), &json!(commit)));
    let back = fixture.data("self_rollback", json!({"action": "revert", "commit_hash": commit}));
    assert_eq!(
        (&back["reverted_commit"], &back["tests_passed"]),
        (&json!(commit), &json!(false)),
        "{back:#}"
    );
    assert_eq!(back["reverted_message"], "[self-modify] mend it");
    assert_eq!(fixture.read("src/sum.js"), SOURCE);
    assert_eq!(fixture.data("self_rollback", json!({"action": "list"}))["count"], 0);
    assert_nothing_left(&fixture);
    // Each step is a call of its own in the audit, and the question belongs to the last one.
    let rows = fixture.recorded();
    let approved: Vec<&Value> = rows.iter().filter(|row| !row["approved_by"].is_null()).collect();
    assert!(!approved.is_empty() && approved.iter().all(|row| row["tool"] == "self_apply"), "{approved:#?}");
    let steps = rows.iter().filter(|row| row["tool"] == "self_trial" && row["door"] == "tool");
    assert!(steps.count() >= 4, "{rows:#?}");
}

#[test]
fn the_examples_of_the_tools_are_true() {
    let tools = Fixture::new().run(&["tools", "--json"]).json();
    let all = tools.as_array().unwrap().iter();
    let own = ["self_run_tests", "self_modify_source", "self_create_plugin", "self_rollback"];
    let mut seen = 0;
    for tool in all.filter(|tool| own.contains(&tool["name"].as_str().unwrap())) {
        let arguments: Value = tool["example"]["arguments"].clone();
        let data = example().data(tool["name"].as_str().unwrap(), arguments);
        testkit::assert_contains(&data, &tool["example"]["result"]);
        seen += 1;
    }
    assert_eq!(seen, own.len());
}

#[test]
fn counts_come_from_the_report_of_the_runner_and_no_test_is_never_passed() {
    let fixture = project();
    let run = |arguments: Value| fixture.data("self_run_tests", arguments);
    let all = run(json!({"scope": "all"}));
    assert_eq!(
        (&all["status"], &all["passed"], &all["failed"]),
        (&json!("failed"), &json!(1), &json!(1)),
        "{all:#}"
    );
    assert!(all["errors"][0].as_str().unwrap().starts_with("doubles"), "{all:#}");
    fixture.write("test/empty/none.txt", "");
    let none = run(json!({"scope": "plugin", "target": "test/no-such-file.js"}));
    assert_ne!(none["status"], "passed", "{none:#}");
    assert_eq!(none["passed"], 0);
    fixture.write("test/broken.test.js", "throw new Error('broken');\n");
    let broken = run(json!({"scope": "plugin", "target": "test/broken.test.js"}));
    assert_eq!((&broken["status"], &broken["passed"]), (&json!("failed"), &json!(0)), "{broken:#}");
    // Files that the tests write are discarded.
    fixture.write(
        "test/writes.test.js",
        "require('node:fs').writeFileSync('left.txt', 'x');\nrequire('node:test')('ok', () => {});\n",
    );
    assert_eq!(run(json!({"scope": "plugin", "target": "test/writes.test.js"}))["status"], "passed");
    assert!(!fixture.workspace().join("left.txt").exists());
}

#[test]
fn a_missing_runner_has_its_own_status() {
    let fixture = Fixture::with_files(&[("a.py", "")]);
    fixture.configure("self:\n  sample:\n    folder: .\n    tests: {all: [no-such-program-here], core: [python3, -c, pass]}\n    runner: pytest\n");
    let found = fixture.data("self_run_tests", json!({"scope": "all"}));
    assert_eq!((&found["status"], &found["passed"]), (&json!("runner_missing"), &json!(0)), "{found:#}");
    let silent = fixture.data("self_run_tests", json!({"scope": "core"}));
    assert_eq!(silent["status"], "no_report", "{silent:#}");
    let error = fixture.error("self_run_tests", json!({"scope": "plugin", "target": "x"}));
    assert_eq!(error["code"], "EUNAVAILABLE", "{error:#}");
    let error = Fixture::new().error("self_run_tests", json!({"scope": "all"}));
    assert_eq!(error["code"], "EUNAVAILABLE", "{error:#}");
}

#[test]
fn a_modification_that_breaks_or_loses_a_test_is_not_applied() {
    let fixture = project();
    let head = git(&fixture, &["rev-parse", "HEAD"]);
    let without_failing =
        TESTS.lines().filter(|line| !line.contains("doubles")).collect::<Vec<_>>().join("\n");
    let skipping = TESTS.replace("test('doubles'", "test.skip('doubles'");
    for (path, content, because) in [
        ("src/sum.js", "exports.add = () => 0;\nexports.twice = (a) => 2 * a;\n", "fail: adds"),
        ("src/sum.js", "exports.add = (", "gone"),
        ("test/sum.test.js", without_failing.as_str(), "doubles"),
        ("test/sum.test.js", skipping.as_str(), "doubles"),
        ("test/sum.test.js", "", "adds"),
    ] {
        let found = fixture.data("self_modify_source", modification(path, content));
        assert_eq!((&found["applied"], &found["rollback_commit"]), (&json!(false), &json!("")), "{found:#}");
        let results = found["test_results"].as_str().unwrap();
        assert!(results.starts_with("not applied: ") && results.contains(because), "{because}: {results}");
        assert_untouched(&fixture, &head);
    }
    // A failing test that is weakened so that it passes is shown to the human.
    let weakened = TESTS.replace("assert.strictEqual(twice(2), 4)", "twice(2)");
    let found = fixture.data("self_modify_source", modification("test/sum.test.js", &weakened));
    assert_eq!(found["applied"], true);
    assert!(
        found["test_results"].as_str().unwrap().starts_with("CAUTION: the change removes 1 line"),
        "{found:#}"
    );
}

#[test]
fn protected_files_links_and_a_dirty_tree_are_refused() {
    let fixture = project();
    std::os::unix::fs::symlink("src/gate/rules.js", fixture.workspace().join("alias.js")).unwrap();
    std::os::unix::fs::symlink("src/gate", fixture.workspace().join("door")).unwrap();
    git(&fixture, &["add", "."]);
    git(&fixture, &["commit", "-q", "-m", "links"]);
    let head = git(&fixture, &["rev-parse", "HEAD"]);
    for path in [
        "src/gate/rules.js",
        "SRC/Gate/rules.js",
        "alias.js",
        "door/rules.js",
        ".git/config",
        ".github/workflows/ci.yml",
        "handfast.yaml",
    ] {
        let error = fixture.error("self_modify_source", modification(path, "exports.ask = false;\n"));
        assert_eq!(error["code"], "EPERMISSION", "{path}: {error:#}");
        assert_untouched(&fixture, &head);
    }
    assert_eq!(fixture.read("src/gate/rules.js"), "exports.ask = true;\n");
    fixture.write("src/sum.js", "// work of a human\n");
    let error = fixture.error("self_modify_source", modification("src/sum.js", MENDED));
    assert_eq!(error["code"], "ECONFLICT", "{error:#}");
    assert!(error["message"].as_str().unwrap().contains("src/sum.js"), "{error:#}");
    assert_eq!(fixture.read("src/sum.js"), "// work of a human\n");
    git(&fixture, &["checkout", "-q", "src/sum.js"]);
    fixture.write("src/new.js", "// not in git\n");
    let error = fixture.error("self_modify_source", modification("src/new.js", "x\n"));
    assert_eq!(error["code"], "ECONFLICT", "{error:#}");
    assert_eq!(fixture.read("src/new.js"), "// not in git\n");
    assert_nothing_left(&fixture);
}

#[test]
fn without_a_human_nothing_is_applied_and_the_question_shows_results_and_difference() {
    let fixture = project();
    let head = git(&fixture, &["rev-parse", "HEAD"]);
    let arguments = modification("src/sum.js", MENDED).to_string();
    for mode in ["smart_auto", "full_auto"] {
        let run = fixture.run(&["--mode", mode, "call", "self_modify_source", &arguments]);
        assert_eq!(run.code, 4, "{}", run.stdout);
        let result = run.json();
        assert_eq!(result["error"]["code"], "EAPPROVAL", "{result:#}");
        assert_eq!(
            (&result["data"]["applied"], &result["data"]["tests_passed"]),
            (&json!(false), &json!(true))
        );
        assert_untouched(&fixture, &head);
    }
    let listed = fixture.run(&["approvals", "list", "--json"]).json();
    let id = listed[0]["id"].as_str().unwrap().to_owned();
    let shown = fixture.run(&["approvals", "show", &id]).stdout;
    assert!(
        shown.contains("after: passed: 2 passed") && shown.contains("+exports.twice = (a) => a + a;"),
        "{shown}"
    );
    assert_eq!(fixture.run(&["approvals", "approve", &id]).code, 0);
    // Equal files on the same commit pass once; other files do not.
    let other = modification("src/sum.js", &format!("{MENDED}// more\n")).to_string();
    assert_eq!(fixture.run(&["call", "self_modify_source", &other]).code, 4);
    let run = fixture.run(&["call", "self_modify_source", &arguments]);
    assert_eq!(run.json()["data"]["applied"], true, "{}", run.stdout);
    assert_ne!(git(&fixture, &["rev-parse", "HEAD"]), head);
}

#[test]
fn a_rollback_of_a_foreign_or_overbuilt_commit_changes_nothing() {
    let fixture = project();
    let first = git(&fixture, &["rev-parse", "HEAD"]);
    let revert =
        |commit: &str| fixture.error("self_rollback", json!({"action": "revert", "commit_hash": commit}));
    assert_eq!(revert(&first)["code"], "EPERMISSION");
    assert_eq!(revert("0123456789abcdef0123456789abcdef01234567")["code"], "ENOTFOUND");
    // A tag that somebody else wrote opens no protected file.
    fixture.write("src/gate/rules.js", "exports.ask = 'always';\n");
    git(&fixture, &["commit", "-q", "-am", "[self-modify] forged"]);
    let forged = git(&fixture, &["rev-parse", "HEAD"]);
    assert_eq!(revert(&forged)["code"], "EPERMISSION");
    let done = fixture.data("self_modify_source", modification("src/sum.js", MENDED));
    let commit = done["rollback_commit"].as_str().unwrap().to_owned();
    fixture.write("src/sum.js", "exports.add = (a, b) => a + b;\nexports.twice = (a) => 2 * a;\n");
    git(&fixture, &["commit", "-q", "-am", "built on it"]);
    let head = git(&fixture, &["rev-parse", "HEAD"]);
    let error = revert(&commit);
    assert_eq!(error["code"], "ECONFLICT", "{error:#}");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("built on it") && message.contains("src/sum.js"), "{message}");
    assert_untouched(&fixture, &head);
}

#[test]
fn of_two_modifications_at_once_none_is_lost_and_none_is_mixed() {
    let fixture = project();
    let start = |content: &str| {
        let arguments = modification("src/sum.js", content).to_string();
        let mut command = fixture.command();
        command.args(["call", "--yes", "self_modify_source", &arguments]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let contents = [MENDED.to_owned(), MENDED.replace("a + a;", "2 * a;")];
    let running = contents.clone().map(|content| start(&content));
    let results = running.map(|child| {
        let output = child.wait_with_output().unwrap();
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    });
    let applied: Vec<usize> = (0..2).filter(|at| results[*at]["data"]["applied"] == true).collect();
    assert!(!applied.is_empty(), "{results:#?}");
    for result in results.iter().filter(|result| result["ok"] == false) {
        assert_eq!(result["error"]["code"], "ECONFLICT", "{result:#}");
    }
    // Every applied one is a commit, and the files are those of the last one.
    let commits = git(&fixture, &["log", "--format=%s"]);
    assert_eq!(commits.lines().filter(|line| line.starts_with("[self-modify]")).count(), applied.len());
    assert_eq!(git(&fixture, &["status", "--porcelain"]), "");
    assert!(contents.contains(&fixture.read("src/sum.js")));
    assert_nothing_left(&fixture);
}

#[test]
fn a_kill_in_the_middle_leaves_the_project_as_it_was() {
    let fixture = project();
    let marker = fixture.workspace().join("test/slow.test.js");
    std::fs::write(
        &marker,
        "require('node:test')('slow', () => new Promise((end) => setTimeout(end, 60000)));\n",
    )
    .unwrap();
    git(&fixture, &["add", "."]);
    git(&fixture, &["commit", "-q", "-m", "slow"]);
    let head = git(&fixture, &["rev-parse", "HEAD"]);
    let arguments = modification("src/sum.js", MENDED).to_string();
    let mut command = fixture.command();
    command.args(["call", "--yes", "self_modify_source", &arguments]);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let begun = || {
        let rows = fixture.recorded();
        rows.iter().any(|row| row["tool"] == "self_trial" && row["kind"] == "intent")
    };
    eventually("the trial", begun);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_untouched(&fixture, &head);
    // The next run removes what the killed one kept apart.
    assert_eq!(fixture.data("file_read", json!({"path": "src/sum.js"}))["content"], SOURCE);
    let changes = fixture.state().join("changes");
    let left = || {
        std::fs::read_dir(&changes)
            .map_or(0, |all| all.filter(|one| one.as_ref().unwrap().path().join("upper").exists()).count())
    };
    eventually("the end of the kept changes", || {
        fixture.run(&["call", "self_rollback", r#"{"action": "list"}"#]);
        left() == 0
    });
    assert_untouched(&fixture, &head);
}

#[test]
fn the_difference_is_that_of_the_commit_whatever_the_repository_says_of_its_files() {
    let fixture = example();
    // A replaced object would make the new line look like an old one, and an attribute would hide all of them.
    let replaced = "exports.limit = 10;\nexports.more = 1;\n";
    fixture.write("../replaced", replaced);
    let blob = git(&fixture, &["hash-object", "-w", "../replaced"]);
    let old = git(&fixture, &["rev-parse", "HEAD:src/limit.js"]);
    git(&fixture, &["replace", &old, &blob]);
    std::fs::write(fixture.workspace().join(".git/info/attributes"), "* -diff\n").unwrap();
    let done = fixture
        .data("self_modify_source", modification("src/limit.js", "exports.limit = 20;\nexports.more = 1;\n"));
    let diff = done["diff"].as_str().unwrap();
    assert!(diff.contains("+exports.more = 1;") && diff.contains("-exports.limit = 10;"), "{diff}");
    let hidden = fixture.error("self_modify_source", modification("src/limit.js", "// \0\n"));
    assert_eq!(hidden["code"], "EVALIDATION", "{hidden}");
    let long = "// a line\n".repeat(3_000) + "exports.limit = 30;\n";
    let long = fixture.error("self_modify_source", modification("src/limit.js", &long));
    assert_eq!(long["code"], "EQUOTA", "{long}");
    assert_nothing_left(&fixture);
}
