//! Coverage of a search: ignore files at every level, and pages without gaps.

use serde_json::{Value, json};
use testkit::{Workspace, run_tool};
use tool::ToolError;

fn search(workspace: &Workspace, arguments: Value) -> Result<Value, ToolError> {
    let tools = tools_files::tools();
    let tool = tools.iter().find(|tool| tool.spec().name == "file_search").unwrap();
    run_tool(tool.as_ref(), workspace, arguments)
}

/// Returns each match as `path:line:column:text`.
fn lines(output: &Value) -> Vec<String> {
    let line = |found: &Value| {
        let text = |field: &str| found[field].as_str().unwrap().to_owned();
        format!("{}:{}:{}:{}", text("path"), found["line"], found["column"], text("text"))
    };
    output["matches"].as_array().unwrap().iter().map(line).collect()
}

fn found(workspace: &Workspace, arguments: Value) -> Vec<String> {
    lines(&search(workspace, arguments).unwrap())
}

#[test]
fn ignore_files_are_honoured_at_every_level() {
    let workspace = Workspace::new().with_files(&[
        (".gitignore", "*.log\n/build/\n!keep.log\n"),
        ("a.log", "X"),
        ("keep.log", "X"),
        ("build/x", "X"),
        ("sub/build/x", "X"),
        ("sub/.gitignore", "build\n!b.log\n"),
        ("sub/b.log", "X"),
        ("sub/.ignore", "b.log\n"),
        ("other/b.log", "X"),
        ("other/.hidden", "X"),
        ("other/.git/config", "X"),
        ("other/visible", "X"),
    ]);
    assert_eq!(found(&workspace, json!({"pattern": "X"})), ["keep.log:1:1:X", "other/visible:1:1:X"]);
    let hidden = json!({"pattern": "X", "include_hidden": true, "path": "other"});
    assert_eq!(found(&workspace, hidden), ["other/.hidden:1:1:X", "other/visible:1:1:X"]);
    // A path that is named explicitly is searched.
    assert_eq!(found(&workspace, json!({"pattern": "X", "path": "build"})), ["build/x:1:1:X"]);
    assert_eq!(found(&workspace, json!({"pattern": "X", "path": "a.log"})), ["a.log:1:1:X"]);
}

#[test]
fn pages_follow_each_other_without_gap_or_repeat() {
    let workspace = Workspace::new();
    for (file, count) in [("a/one", 5), ("a/two", 1), ("b", 7), ("c/d/e", 3)] {
        workspace.write(file, "x\nX\n".repeat(count));
    }
    let whole = found(&workspace, json!({"pattern": "X"}));
    assert_eq!(whole.len(), 16);
    for (path, limit) in [(".", 1), (".", 3), (".", 5), (".", 16), ("b", 2)] {
        let expected: Vec<_> = whole.iter().filter(|line| path == "." || line.starts_with("b:")).collect();
        let (mut pages, mut cursor) = (Vec::new(), Value::Null);
        loop {
            let mut arguments = json!({"pattern": "X", "limit": limit, "path": path, "context_lines": 1});
            if !cursor.is_null() {
                arguments["cursor"] = cursor;
            }
            let page = search(&workspace, arguments).unwrap();
            pages.extend(lines(&page));
            cursor = page["next_cursor"].clone();
            assert_eq!(cursor.is_null(), page["truncated"] == false);
            if cursor.is_null() {
                break;
            }
        }
        assert_eq!(pages.iter().collect::<Vec<_>>(), expected, "limit {limit}");
    }
}
