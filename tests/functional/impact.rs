//! Edits of code with many callers: asked about with the callers in the preview, whatever else lets them pass.

use serde_json::{Value, json};

use crate::harness::{Fixture, unread};

const STORE: &str = "def load(path):\n    return open(path)\n\n\ndef unused():\n    return 1\n";
const USE: &str = "from store import load\n\n\ndef one():\n    load('a')\n\n\ndef two():\n    load('b')\n";

fn fixture() -> Fixture {
    let fixture = Fixture::with_files(&[
        ("store.py", STORE),
        ("app.py", USE),
        ("top.py", "from store import load\nload('c')\n"),
    ]);
    fixture.configure("mode: full_auto\nsandbox_config: {normal: {impact: {callers_over: 2}}}\n");
    fixture
}

/// Makes a call that nobody answers questions of.
fn call(fixture: &Fixture, tool: &str, arguments: &Value) -> Value {
    fixture.run(&["call", tool, &arguments.to_string()]).json()
}

fn edit(old: &str, new: &str) -> Value {
    json!({"path": "store.py", "edits": [{"old_text": old, "new_text": new}]})
}

#[test]
fn an_edit_of_code_with_many_callers_is_asked_about_and_the_question_names_them() {
    let fixture = fixture();
    // The positive control: an edit beside it passes, without a question.
    let beside = call(&fixture, "file_edit", &edit("return 1", "return 2"));
    assert_eq!(beside["ok"], true, "{beside:#}");
    let arguments = edit("return open(path)", "return open(path, 'rb')");
    let asked = call(&fixture, "file_edit", &arguments);
    let error = &asked["error"];
    assert_eq!(error["code"], "EAPPROVAL", "{asked:#}");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("`load` (store.py:1), which has 3 callers, more than 2"), "{message}");
    assert!(fixture.read("store.py").contains("open(path)\n"), "nothing was changed");
    let id = error["approval_id"].as_str().unwrap_or_else(|| panic!("{asked:#}"));
    let shown = fixture.run(&["approvals", "show", id]).stdout;
    for line in ["app.py:5 one", "app.py:9 two", "top.py:2 top level", "+    return open(path, 'rb')"] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    let approved = fixture.run(&["approvals", "approve", id]);
    assert_eq!(approved.code, 0, "{}", approved.stderr);
    let repeated = call(&fixture, "file_edit", &arguments);
    assert_eq!(repeated["ok"], true, "{repeated:#}");
    assert!(fixture.read("store.py").contains("open(path, 'rb')"));
}

#[test]
fn every_way_to_change_the_file_is_asked_about_and_check_names_the_line() {
    let fixture = fixture();
    let patch = "--- a/store.py\n+++ b/store.py\n@@ -1,2 +1,2 @@\n-def load(path):\n+def load(name):\n     return open(path)\n";
    for (tool, arguments) in [
        (
            "file_write",
            json!({"path": "store.py", "content": STORE.replace("open", "close"), "backup": false}),
        ),
        ("file_patch", json!({"patch": patch})),
        ("file_delete", json!({"path": "store.py"})),
        ("file_move", json!({"source": "store.py", "destination": "moved.py"})),
    ] {
        let checked = fixture.run(&["check", tool, &arguments.to_string()]).json();
        assert_eq!(
            (&checked["decision"], &checked["line"]),
            (&json!("check"), &json!(10)),
            "{tool}: {checked:#}"
        );
        let asked = call(&fixture, tool, &arguments);
        assert_eq!(asked["error"]["code"], "EAPPROVAL", "{tool}: {asked:#}");
        assert_eq!(fixture.read("store.py"), STORE);
    }
    for (tool, arguments) in [
        (
            "file_write",
            json!({"path": "store.py", "content": format!("{STORE}\n\ndef new():\n    pass\n"), "backup": false}),
        ),
        ("file_write", json!({"path": "notes.md", "content": "load"})),
        ("file_delete", json!({"path": "app.py"})),
    ] {
        let passed = call(&fixture, tool, &arguments);
        assert_eq!(passed["ok"], true, "{tool}: {passed:#}");
    }
}

#[test]
fn a_workspace_that_is_not_trusted_may_set_the_rule() {
    let fixture = Fixture::with_files(&[("store.py", STORE), ("app.py", USE)]);
    fixture.configure("mode: full_auto\n");
    let arguments = edit("return open(path)", "return path");
    let decision = |fixture: &Fixture| {
        fixture.run(&["check", "file_edit", &arguments.to_string()]).json()["decision"].clone()
    };
    assert_eq!(decision(&fixture), "pass");
    fixture.write("handfast.yaml", "sandbox_config: {normal: {impact: {callers_over: 0}}}\n");
    assert_eq!(decision(&fixture), "check");
}

#[test]
fn a_command_that_changes_such_code_is_asked_about_when_it_has_ended() {
    let fixture = fixture();
    let run = |line: &str| call(&fixture, "shell_execute", &json!({"command": unread(line)}));
    // The positive control: a change beside it goes in.
    let beside = run("sed -i s/return.1/return\\ 2/ store.py");
    assert_eq!(beside["ok"], true, "{beside:#}");
    assert!(fixture.read("store.py").contains("return 2"));
    let held = run("sed -i s/open/close/ store.py");
    assert_eq!(held["error"]["code"], "EAPPROVAL", "{held:#}");
    let message = held["error"]["message"].as_str().unwrap();
    assert!(message.contains("store.py: it changes `load` (store.py:1), which has 3 callers"), "{message}");
    assert!(fixture.read("store.py").contains("open(path)"), "nothing was changed");
}

#[test]
fn no_file_of_ignore_rules_takes_callers_away_unasked() {
    let fixture = fixture();
    let run = |line: &str| call(&fixture, "shell_execute", &json!({"command": unread(line)}));
    // The positive controls: other hidden files and an equal content pass.
    fixture.write("lib/.gitignore", "*.o\n");
    for line in ["echo app.py > .npmignore", "printf '*.o\\n' > lib/.gitignore"] {
        let passed = run(line);
        assert_eq!(passed["ok"], true, "{line}: {passed:#}");
    }
    for line in [
        "echo app.py > .ignore",
        "echo app.py > .gitignore",
        "echo '*' > lib/.gitignore",
        "rm lib/.gitignore",
        "echo '*.py' > a; mv a lib/.ignore",
    ] {
        let held = run(line);
        assert_eq!(held["error"]["code"], "EAPPROVAL", "{line}: {held:#}");
        let message = held["error"]["message"].as_str().unwrap();
        assert!(message.contains("ignore decides which files the code graph has"), "{line}: {message}");
    }
    for path in [".ignore", "lib/.gitignore"] {
        let arguments = json!({"path": path, "content": "*.py\n", "backup": false});
        let asked = call(&fixture, "file_write", &arguments);
        assert_eq!(asked["error"]["code"], "EAPPROVAL", "{path}: {asked:#}");
    }
    assert_eq!(fixture.read("lib/.gitignore"), "*.o\n");
    let there = |name: &str| fixture.workspace().join(name).exists();
    assert!(!there(".ignore") && !there(".gitignore"));
}

#[test]
fn a_file_that_the_graph_does_not_know_whole_is_asked_about() {
    let fixture = fixture();
    let arguments = edit("return open(path)", "return open(path, 'rb')");
    fixture.write(".gitignore", "store.py\n");
    let ignored = call(&fixture, "file_edit", &arguments);
    assert_eq!(ignored["error"]["code"], "EAPPROVAL", "{ignored:#}");
    fixture.write(".gitignore", "");
    fixture.write("store.py", &(STORE.to_owned() + &"# x\n".repeat(20_000)));
    let padded = call(&fixture, "file_edit", &arguments);
    assert_eq!(padded["error"]["code"], "EAPPROVAL", "{padded:#}");
    // The positive control: a new file has no callers.
    let new = call(&fixture, "file_write", &json!({"path": "new.py", "content": "def load(a):\n    pass\n"}));
    assert_eq!(new["ok"], true, "{new:#}");
}
