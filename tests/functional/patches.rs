//! Edits and patches on the whole program: questions, denials, and applied changes.

use serde_json::{Value, json};

use crate::harness::{Fixture, Run};

fn call(fixture: &Fixture, options: &[&str], tool: &str, arguments: &Value) -> Run {
    let arguments = arguments.to_string();
    fixture.run(&[options, &["call", tool, &arguments]].concat())
}

fn adding(path: &str) -> String {
    format!(
        "diff --git a/{path} b/{path}\nnew file mode 100755\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+run me\n"
    )
}

const UPDATE: &str = "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-old\n+new\n";
const DELETE: &str = "--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n";

fn files() -> Fixture {
    Fixture::with_files(&[("a", "old\n"), ("gone", "x\n"), (".env", "KEY=1\n"), ("d/f", "f\n")])
}

#[test]
fn a_patch_is_asked_about_as_what_it_does_and_a_dry_run_is_not() {
    let fixture = files().asking();
    let level = |patch: &str, dry_run: bool| {
        let arguments = json!({"patch": patch, "dry_run": dry_run}).to_string();
        let checked = fixture.run(&["check", "file_patch", &arguments]).json();
        (checked["decision"].clone(), checked["level"].clone())
    };
    assert_eq!(level(UPDATE, false), (json!("check"), json!("moderate")));
    assert_eq!(level(&format!("{UPDATE}{DELETE}"), false), (json!("check"), json!("destructive")));
    assert_eq!(level(&format!("{UPDATE}{DELETE}"), true), (json!("pass"), json!("safe")));
    let checked = call(&fixture, &[], "file_patch", &json!({"patch": UPDATE, "dry_run": true})).json();
    assert_eq!((&checked["ok"], &checked["data"]["applied"]), (&json!(true), &json!(false)), "{checked:#}");
    let edit = json!({"path": "a", "edits": [{"old_text": "old", "new_text": "new"}], "strategy": "check"});
    assert_eq!(call(&fixture, &[], "file_edit", &edit).json()["ok"], true);
    assert_eq!(fixture.read("a"), "old\n");
    let applied = call(
        &fixture,
        &["--mode", "full_auto"],
        "file_patch",
        &json!({ "patch": format!("{UPDATE}{DELETE}") }),
    );
    let applied = applied.json();
    assert_eq!(applied["data"]["applied"], true, "{applied:#}");
    assert_eq!(applied["meta"]["changes"], json!({"state": "committed", "paths": 2}), "{applied:#}");
    assert_eq!(fixture.read("a"), "new\n");
    assert!(!fixture.workspace().join("gone").exists());
}

#[test]
fn a_denied_path_anywhere_in_a_patch_denies_all_of_it() {
    for patch in [
        "--- a/.env\n+++ b/.env\n@@ -1 +1 @@\n-KEY=1\n+KEY=2\n".to_owned(),
        "diff --git a/.env b/open\nsimilarity index 100%\nrename from .env\nrename to open\n".to_owned(),
        "diff --git a/.env b/open\nsimilarity index 100%\ncopy from .env\ncopy to open\n".to_owned(),
        "--- a/.env\n+++ /dev/null\n@@ -1 +0,0 @@\n-KEY=1\n".to_owned(),
        "--- a/d/../.env\n+++ b/d/../.env\n@@ -1 +1 @@\n-KEY=1\n+KEY=2\n".to_owned(),
    ] {
        let fixture = files();
        for dry_run in [false, true] {
            let arguments = json!({"patch": format!("{UPDATE}{patch}"), "dry_run": dry_run});
            let denied = call(&fixture, &["--mode", "full_auto"], "file_patch", &arguments);
            assert_eq!((denied.code, &denied.json()["error"]["code"]), (3, &json!("EPERMISSION")), "{patch}");
        }
        assert_eq!((fixture.read("a"), fixture.read(".env")), ("old\n".into(), "KEY=1\n".into()));
        assert!(!fixture.workspace().join("open").exists());
    }
    // The control: the patch without the denied path.
    let fixture = files();
    let applied = call(&fixture, &["--mode", "full_auto"], "file_patch", &json!({ "patch": UPDATE }));
    assert_eq!((applied.code, fixture.read("a").as_str()), (0, "new\n"));
}

#[test]
fn a_file_that_a_later_program_runs_is_asked_about_once_however_it_is_changed() {
    for path in [".git/hooks/pre-commit", ".envrc", ".vscode/tasks.json"] {
        let fixture = files();
        let arguments = json!({ "patch": format!("{UPDATE}{}", adding(path)) });
        let asked = call(&fixture, &["--mode", "full_auto"], "file_patch", &arguments);
        assert_eq!((asked.code, &asked.json()["error"]["code"]), (4, &json!("EAPPROVAL")), "{path}");
        assert!(!fixture.workspace().join(path).exists() && fixture.read("a") == "old\n");
        let arguments = arguments.to_string();
        let approved =
            fixture.run(&["--mode", "full_auto", "call", "--yes", "file_patch", &arguments]).json();
        assert_eq!(approved["ok"], true, "{path}: {approved:#}");
        assert_eq!((fixture.read(path), fixture.read("a")), ("run me\n".into(), "new\n".into()));
        let rewritten = json!({"path": path, "edits": [{"old_text": "run", "new_text": "ran"}]});
        let asked = call(&fixture, &["--mode", "full_auto"], "file_edit", &rewritten);
        assert_eq!((asked.code, fixture.read(path).as_str()), (4, "run me\n"), "{path}");
    }
}

#[test]
fn what_does_not_fit_is_told_with_its_line_and_nothing_is_changed() {
    let fixture = files();
    let patch = format!("{UPDATE}--- a/d/f\n+++ b/d/f\n@@ -1 +1 @@\n-g\n+h\n");
    let refused = call(&fixture, &["--mode", "full_auto"], "file_patch", &json!({ "patch": patch }));
    let error = &refused.json()["error"];
    assert_eq!(
        (refused.code, &error["code"], &error["effect"]),
        (1, &json!("ECONFLICT"), &json!("none")),
        "{error}"
    );
    assert!(error["message"].as_str().unwrap().contains("line 8 of the patch does not fit d/f"), "{error}");
    let malformed = call(&fixture, &[], "file_patch", &json!({"patch": "@@ -1,2 +1 @@\n-a\n", "path": "a"}));
    assert_eq!((malformed.code, &malformed.json()["error"]["code"]), (2, &json!("EVALIDATION")));
    assert_eq!(fixture.read("a"), "old\n");
    let kept = fixture.run(&["changes", "list", "--json"]).json();
    assert_eq!(kept, json!([]), "what was never complete is not kept");
}
