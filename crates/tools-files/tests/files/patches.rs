//! Patches and edits of hostile size and form.

use std::fmt::Write;

use serde_json::{Value, json};
use testkit::{Workspace, run_tool};
use tool::{Code, ToolError};

fn call(workspace: &Workspace, name: &str, arguments: Value) -> Result<Value, ToolError> {
    let tools = tools_files::tools();
    let tool = tools.iter().find(|tool| tool.spec().name == name).unwrap();
    run_tool(tool.as_ref(), workspace, arguments)
}

#[test]
fn ten_thousand_hunks_apply_also_where_all_of_them_moved() {
    const HUNKS: usize = 10_000;
    let (mut before, mut after, mut patch) = (String::new(), String::new(), String::new());
    for number in 0..HUNKS {
        let _ = write!(before, "a {number}\nb\nc\n\n");
        let _ = write!(after, "a {number}\nB\nc\n\n");
        let start = number * 4 + 1;
        let _ = write!(patch, "@@ -{start},3 +{start},3 @@\n a {number}\n-b\n+B\n c\n");
    }
    let workspace = Workspace::new().with_files(&[("f", &before), ("moved", &format!("x\n\n{before}"))]);
    let done = call(&workspace, "file_patch", json!({"patch": patch, "path": "f"})).unwrap();
    assert_eq!((workspace.read("f") == after, done.get("drifts")), (true, None));
    let done = call(&workspace, "file_patch", json!({"patch": patch, "path": "moved"})).unwrap();
    assert_eq!(workspace.read("moved"), format!("x\n\n{after}"));
    assert_eq!(done["drifts"].as_array().unwrap().len(), 1, "the others moved with the first");
}

#[test]
fn a_hunk_among_lines_that_are_all_alike_is_refused_in_bounded_work() {
    let alike = "same\n".repeat(300_000);
    let workspace = Workspace::new().with_files(&[("f", &alike)]);
    let hunk: String = " same\n".repeat(1_000);
    let patch = format!("@@ -400000,1001 +400000,1001 @@\n{hunk}-other\n+new\n");
    let error = call(&workspace, "file_patch", json!({"patch": patch, "path": "f"})).unwrap_err();
    assert_eq!(error.code, Code::Conflict);
    let patch = format!("@@ -400000,1001 +400000,1000 @@\n{hunk}-same\n");
    let error = call(&workspace, "file_patch", json!({"patch": patch, "path": "f"})).unwrap_err();
    assert!(error.message.contains("several times"), "{error}");
    assert!(workspace.read("f") == alike);
}

#[test]
fn a_patch_of_20_mb_applies_and_a_file_of_2_gb_is_refused() {
    let line = "x".repeat(99);
    let added: String = format!("+{line}\n").repeat(200_000);
    let workspace = Workspace::new();
    let patch = format!("--- /dev/null\n+++ b/new\n@@ -0,0 +1,200000 @@\n{added}");
    call(&workspace, "file_patch", json!({ "patch": patch })).unwrap();
    assert_eq!(workspace.read("new").len(), 20_000_000);
    workspace.sparse("large", 2 << 30);
    let patch = "--- a/large\n+++ b/large\n@@ -1 +1 @@\n-x\n+y\n";
    let error = call(&workspace, "file_patch", json!({ "patch": patch })).unwrap_err();
    assert_eq!(error.code, Code::Quota, "{error}");
    assert!(error.message.contains("large"), "{error}");
}

#[test]
fn bytes_that_are_no_utf_8_and_mixed_line_ends_are_kept() {
    let workspace = Workspace::new();
    workspace.write("f", b"caf\xe9\r\nold\nlast \xff");
    let patch = "--- a/f\n+++ b/f\n@@ -2 +2,2 @@\n-old\n+new\n+more\n";
    call(&workspace, "file_patch", json!({ "patch": patch })).unwrap();
    let edit = json!({"path": "f", "edits": [{"old_text": "new\nmore", "new_text": "newer"}]});
    call(&workspace, "file_edit", edit).unwrap();
    let read = call(&workspace, "file_read", json!({"path": "f", "encoding": "latin1"})).unwrap();
    assert_eq!(read["content"], "café\r\nnewer\nlast ÿ");
}

#[test]
fn a_nearest_place_in_a_large_file_is_found_in_one_look() {
    let text: String = (0..400_000).map(|line| format!("    call_{line}(argument, other);\n")).collect();
    let workspace = Workspace::new().with_files(&[("f", &text)]);
    let edit =
        json!({"path": "f", "edits": [{"old_text": "  call_317317(argument,  other);", "new_text": "x"}]});
    let error = call(&workspace, "file_edit", edit).unwrap_err();
    assert_eq!(error.code, Code::Conflict);
    assert_eq!(error.data.unwrap()["nearest"][0]["line"], 317_318);
}
