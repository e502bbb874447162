//! Patches and edits that do not fit: the right error code, the place and the line, and nothing
//! half done.

use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use crate::functional::undo::tree;
use crate::harness::Fixture;
use crate::http::Up;

fn update(path: &str, hunks: &str) -> String {
    format!("--- a/{path}\n+++ b/{path}\n{hunks}")
}

/// A part that fits, so that something could be half done.
const FITS: &str = "--- a/fits\n+++ b/fits\n@@ -1 +1 @@\n-old\n+new\n";

#[test]
fn a_patch_that_does_not_fit_names_its_line_and_changes_nothing() {
    let fixture = Fixture::with_files(&[
        ("fits", "old\n"),
        ("a", "one\ntwo\nthree\n"),
        ("d/f", "f\n"),
        ("crlf", "one\r\ntwo\nthree\r\n"),
        ("open", "no newline"),
        ("../outside/f", "x\n"),
    ]);
    let workspace = fixture.workspace();
    std::fs::write(workspace.join("bytes"), b"caf\xe9\n").unwrap();
    symlink("../outside/f", workspace.join("out")).unwrap();
    symlink("a", workspace.join("link")).unwrap();
    let large = std::fs::File::create(workspace.join("large")).unwrap();
    large.set_len(2 << 30).unwrap();
    let before = tree_without(&fixture, "large");
    let outside = fixture.outside().join("outside/f");
    for (patch, code, said) in [
        (String::new(), "EVALIDATION", "line 1"),
        (" \n".to_owned(), "EVALIDATION", "line 1"),
        ("*** Begin Patch\n*** End Patch\n".to_owned(), "EVALIDATION", "line 1"),
        (update("a", "@@ -1 +1 @@\n-elsewhere\n+x\n"), "ECONFLICT", "line 8 of the patch does not fit a"),
        (
            update("a", "@@ -1,2 +1,2 @@\n one\n-two\n+2\n@@ -2 +2 @@\n-two\n+zwei\n"),
            "EVALIDATION",
            "line 12",
        ),
        (update("a", "@@ -1,2 +1,2 @@\n one\n-two\n+2\n@@ -1 +1 @@\n-one\n+1\n"), "EVALIDATION", "line 12"),
        (update("../outside/f", "@@ -1 +1 @@\n-x\n+y\n"), "EPERMISSION", "line 6 of the patch"),
        (update("d/../../outside/f", "@@ -1 +1 @@\n-x\n+y\n"), "EPERMISSION", "line 6 of the patch"),
        (update("out", "@@ -1 +1 @@\n-x\n+y\n"), "EPERMISSION", "out"),
        (update("d", "@@ -1 +1 @@\n-f\n+g\n"), "EVALIDATION", "line 6 of the patch: d"),
        (update("d/f/g", "@@ -1 +1 @@\n-f\n+g\n"), "", "line 6 of the patch"),
        (update("large", "@@ -1 +1 @@\n-x\n+y\n"), "EQUOTA", "large"),
        (
            update("crlf", "@@ -1,2 +1,2 @@\n one\n-zwei\n+2\n"),
            "ECONFLICT",
            "line 8 of the patch does not fit crlf",
        ),
        (update("open", "@@ -1 +1 @@\n-no line\n+x\n"), "ECONFLICT", "line 8 of the patch does not fit open"),
        (update("bytes", "@@ -1 +1 @@\n-caf\n+x\n"), "ECONFLICT", "line 8 of the patch does not fit bytes"),
        (
            "--- a/link\n+++ /dev/null\n@@ -1,3 +0,0 @@\n-one\n-two\n-three\n".to_owned(),
            "EVALIDATION",
            "line 6 of the patch: link is a symbolic link",
        ),
        ("--- /dev/null\n+++ b/d\n@@ -0,0 +1 @@\n+x\n".to_owned(), "ECONFLICT", "d already exists"),
    ] {
        let patch = if patch.trim().is_empty() || patch.starts_with("***") {
            patch
        } else {
            format!("{FITS}{patch}")
        };
        let error = fixture.error("file_patch", json!({ "patch": patch }));
        let message = error["message"].as_str().unwrap();
        assert!(code.is_empty() || error["code"] == code, "{patch}: {error:#}");
        assert!(message.contains(said), "{patch}: {error:#}");
        assert_eq!(error["effect"], "none", "{patch}: {error:#}");
        assert_eq!(tree_without(&fixture, "large"), before, "{patch}");
        assert_eq!(std::fs::read_to_string(&outside).unwrap(), "x\n");
    }
    let absolute = format!("--- {0}\n+++ {0}\n@@ -1 +1 @@\n-x\n+y\n", outside.display());
    let error = fixture.error("file_patch", json!({ "patch": absolute }));
    assert!(
        error["code"] == "EPERMISSION" && error["message"].as_str().unwrap().contains("line 1"),
        "{error:#}"
    );
    // The control: a fitting patch is applied, even if line ends are mixed and no newline ends the
    // file.
    let no_newline = "\\ No newline at end of file\n";
    let patch = format!(
        "{FITS}{}{}",
        update("crlf", "@@ -1,2 +1,2 @@\n one\n-two\n+2\n"),
        update("open", &format!("@@ -1 +1 @@\n-no newline\n{no_newline}+still none\n{no_newline}")),
    );
    fixture.data("file_patch", json!({ "patch": patch }));
    assert_eq!(fixture.read("crlf"), "one\r\n2\nthree\r\n");
    assert_eq!((fixture.read("open"), fixture.read("fits")), ("still none".to_owned(), "new\n".to_owned()));
}

/// Returns a patch that makes a file of this many megabytes, and a part that fits.
fn large(megabytes: usize) -> String {
    let lines = format!("+{}\n", "x".repeat(999)).repeat(megabytes * 1_000);
    format!("{FITS}--- /dev/null\n+++ b/new\n@@ -0,0 +1,{} @@\n{lines}", megabytes * 1_000)
}

#[test]
fn a_patch_of_50_mb_is_refused_whole_by_what_takes_messages_and_one_of_20_goes_in() {
    let fixture = Fixture::with_files(&[("fits", "old\n")]);
    let call = |megabytes: usize| {
        let arguments = json!({ "patch": large(megabytes) }).to_string();
        fixture.run_with_input(&["call", "--yes", "file_patch", "-"], arguments.as_bytes())
    };
    let line = call(50);
    assert_eq!(line.code, 2);
    let up = Up::start(&fixture, &[]);
    let body = json!({"tool": "file_patch", "arguments": {"patch": large(50)}});
    let http = up.post(&up.agent, "/v1/call", &body);
    assert_eq!(http.status, 413);
    for refused in [&line.json(), &http.json()] {
        let error = &refused["error"];
        assert_eq!((&error["code"], &error["effect"]), (&json!("EVALIDATION"), &json!("none")), "{error:#}");
        assert!(error["hint"].as_str().unwrap().contains("in parts"), "{error:#}");
    }
    assert!(fixture.read("fits") == "old\n" && !fixture.workspace().join("new").exists());
    assert_eq!(call(20).code, 0);
    assert_eq!(std::fs::metadata(fixture.workspace().join("new")).unwrap().len(), 20_000_000);
}

#[test]
fn a_patch_of_50_mb_goes_in_through_the_library_which_takes_no_messages() {
    let fixture = Fixture::with_files(&[("fits", "old\n")]);
    let called = fixture.library().call("file_patch", json!({ "patch": large(50) }));
    assert_eq!(called["ok"], true, "{called:#}");
    assert_eq!(fixture.read("fits"), "new\n");
    assert_eq!(std::fs::metadata(fixture.workspace().join("new")).unwrap().len(), 50_000_000);
}

#[test]
fn of_ten_thousand_hunks_all_go_in_or_none_and_the_one_that_does_not_fit_is_named() {
    let lines =
        |new: usize, word: &str| -> String {
            (0..50_000)
                .map(|line| {
                    if line % 5 == 2 && line < new { format!("{word} {line}\n") } else { format!("{line}\n") }
                })
                .collect()
        };
    let fixture = Fixture::with_files(&[("f", &lines(0, ""))]);
    let hunk = |line: usize, old: &str| {
        format!("@@ -{0},3 +{0},3 @@\n {1}\n-{old}\n+new {2}\n {3}\n", line, line - 1, line, line + 1)
    };
    let hunks = |wrong: usize| -> String {
        let old = |line: usize| if line == wrong { "wrong".to_owned() } else { line.to_string() };
        (2..50_000).step_by(5).map(|line| hunk(line, &old(line))).collect()
    };
    let call = |hunks: &str| {
        let arguments = json!({ "patch": update("f", hunks) }).to_string();
        fixture.run_with_input(&["call", "--yes", "file_patch", "-"], arguments.as_bytes()).json()
    };
    // Hunk number 9,001 begins after two header lines and 9,000 hunks of five lines.
    let refused = call(&hunks(2 + 9_000 * 5));
    assert_eq!(
        (&refused["error"]["code"], &refused["error"]["effect"]),
        (&json!("ECONFLICT"), &json!("none"))
    );
    let message = refused["error"]["message"].as_str().unwrap();
    assert!(message.contains(&format!("line {} of the patch", 2 + 9_000 * 5 + 1)), "{message}");
    assert_eq!(fixture.read("f"), lines(0, ""));
    let applied = call(&hunks(0));
    assert_eq!(applied["ok"], true, "{applied:#}");
    assert!(fixture.read("f") == lines(50_000, "new"));
}

#[test]
fn a_file_that_grew_is_not_edited_and_one_that_is_no_text_is_named() {
    let fixture = Fixture::with_files(&[("a", "x\n"), ("d/f", "")]);
    std::fs::write(fixture.workspace().join("binary"), b"x\0y").unwrap();
    std::fs::File::create(fixture.workspace().join("large")).unwrap().set_len(2 << 30).unwrap();
    let before = tree_without(&fixture, "large");
    for (path, code) in [
        ("large", "EQUOTA"),
        ("binary", "EVALIDATION"),
        ("d", "EVALIDATION"),
        ("a/b", ""),
        ("gone", "ENOTFOUND"),
    ] {
        let edit = json!({"path": path, "edits": [{"old_text": "x", "new_text": "y"}]});
        let error = fixture.error("file_edit", edit);
        assert!(code.is_empty() || error["code"] == code, "{path}: {error:#}");
        assert!(error["message"].as_str().unwrap().contains(path), "{path}: {error:#}");
        assert_eq!(tree_without(&fixture, "large"), before, "{path}");
    }
}

/// Returns the tree without this file, because reading two gigabytes of zeros for each comparison
/// takes long.
fn tree_without(fixture: &Fixture, name: &str) -> Value {
    let large = fixture.workspace().join(name);
    let aside = fixture.outside().join("aside");
    std::fs::rename(&large, &aside).unwrap();
    let shown = tree(fixture);
    std::fs::rename(&aside, &large).unwrap();
    let shown: std::collections::BTreeMap<String, String> =
        shown.into_iter().map(|(path, what)| (path.display().to_string(), what)).collect();
    json!(shown)
}
