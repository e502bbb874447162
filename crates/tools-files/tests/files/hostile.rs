//! Invalid paths for every tool: each path gives the right code, is named, and changes nothing.

use std::os::unix::net::UnixListener;
use std::sync::Arc;

use serde_json::{Value, json};
use testkit::{Workspace, run_tool};
use tool::{AnyTool, Code, ToolError};

fn tools() -> Vec<Arc<dyn AnyTool>> {
    tools_files::tools()
}

/// Returns a call of every tool that takes a path, with this path; a move has it on either side.
fn calls(path: &str) -> Vec<(&'static str, Value)> {
    vec![
        ("file_read", json!({"path": path})),
        ("file_write", json!({"path": path, "content": "changed"})),
        ("file_list", json!({"path": path})),
        ("file_search", json!({"path": path, "pattern": "."})),
        ("file_delete", json!({"path": path, "recursive": true})),
        ("file_move", json!({"source": path, "destination": "moved"})),
        ("file_move", json!({"source": "file", "destination": path})),
    ]
}

fn call(workspace: &Workspace, name: &str, arguments: Value) -> Result<Value, ToolError> {
    let tools = tools();
    let tool = tools.iter().find(|tool| tool.spec().name == name).unwrap();
    run_tool(tool.as_ref(), workspace, arguments)
}

fn workspace() -> Workspace {
    let workspace = Workspace::new().with_files(&[
        ("file", "inside"),
        ("folder/f", "inside"),
        ("../outside/secret", "secret"),
        ("../outside/folder/f", "secret"),
    ]);
    workspace.link("last", "../outside/secret");
    workspace.link("first", "../outside");
    workspace.link("folder/up", "../..");
    workspace.link("chain", "first");
    workspace
}

#[test]
fn nothing_outside_is_reached_by_any_spelling() {
    let workspace = workspace();
    let absolute = workspace.at("../outside/secret").to_str().unwrap().to_owned();
    for path in [
        "../outside/secret",
        "folder/../../outside/secret",
        "first/secret",
        "first/folder/f",
        "chain/secret",
        "folder/up/outside/secret",
        absolute.as_str(),
        "/etc/passwd",
        "/proc/self/environ",
        "/",
    ] {
        for (tool, arguments) in calls(path) {
            let error = call(&workspace, tool, arguments.clone()).unwrap_err();
            assert_eq!(error.code, Code::Permission, "{tool} {arguments}: {error}");
            assert!(error.hint.is_some(), "{tool} {path}");
        }
    }
    // A link as the last component: calls that follow it are refused, and calls about the link
    // itself are not.
    for (tool, arguments) in &calls("last")[..2] {
        assert_eq!(call(&workspace, tool, arguments.clone()).unwrap_err().code, Code::Permission, "{tool}");
    }
    call(&workspace, "file_move", json!({"source": "last", "destination": "renamed"})).unwrap();
    call(&workspace, "file_delete", json!({"path": "renamed"})).unwrap();
    assert_eq!(workspace.read("../outside/secret"), "secret");
    assert_eq!(workspace.names("../outside"), ["folder", "secret"]);
    assert_eq!(workspace.names(""), ["chain", "file", "first", "folder"]);
    // Control: the tools do reach files inside the workspace.
    assert_eq!(
        call(&workspace, "file_read", json!({"path": "folder/../file"})).unwrap()["content"],
        "inside"
    );
}

#[test]
fn impossible_paths_name_their_field() {
    let workspace = workspace();
    for path in ["", "a\0b", &"x/".repeat(3000)] {
        for (tool, arguments) in calls(path) {
            let error = call(&workspace, tool, arguments).unwrap_err();
            assert_eq!(error.code, Code::Validation, "{tool}: {error}");
            let named =
                ["`path`", "`source`", "`destination`"].iter().any(|name| error.message.contains(name));
            assert!(named, "{tool}: {}", error.message);
        }
    }
    let long = "n".repeat(300);
    for (tool, arguments) in calls(&long) {
        let error = call(&workspace, tool, arguments).unwrap_err();
        assert_eq!(error.code, Code::Validation, "{tool}: {error}");
    }
}

#[test]
fn what_is_neither_file_nor_folder_is_named_and_not_touched() {
    let workspace = workspace();
    let listener = UnixListener::bind(workspace.at("socket")).unwrap();
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    let fifo = workspace.at("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let mut kinds = vec![("socket", "a socket"), ("fifo", "a FIFO")];
    let zero = rustix::fs::makedev(1, 5);
    let device = workspace.at("device");
    match rustix::fs::mknodat(rustix::fs::CWD, &device, rustix::fs::FileType::CharacterDevice, mode, zero) {
        Ok(()) => kinds.push(("device", "a device")),
        Err(error) => println!("not checked: no device can be made here ({error})"),
    }
    for (path, kind) in kinds {
        // A read of the FIFO or the device by name would never end.
        for (tool, arguments) in &calls(path)[..4] {
            let error = call(&workspace, tool, arguments.clone()).unwrap_err();
            assert_eq!(error.code, Code::Validation, "{tool} {path}: {error}");
            assert!(error.message.contains(kind) && error.message.contains(path), "{}", error.message);
        }
        let found = call(&workspace, "file_search", json!({"pattern": "."})).unwrap();
        assert!(found["matches"].as_array().unwrap().iter().all(|found| found["path"] != path));
        call(&workspace, "file_move", json!({"source": path, "destination": "moved"})).unwrap();
        call(&workspace, "file_delete", json!({"path": "moved"})).unwrap();
    }
    drop(listener);
}

#[test]
fn a_folder_where_a_file_is_meant_and_the_reverse() {
    let workspace = workspace();
    for (tool, arguments) in [
        ("file_read", json!({"path": "folder"})),
        ("file_write", json!({"path": "folder", "content": ""})),
        ("file_write", json!({"path": "file/new", "content": ""})),
        ("file_list", json!({"path": "file"})),
        ("file_read", json!({"path": "file/x"})),
        ("file_delete", json!({"path": "file/x"})),
        ("file_move", json!({"source": "file", "destination": "file/x"})),
    ] {
        let error = call(&workspace, tool, arguments.clone()).unwrap_err();
        assert_eq!(error.code, Code::Validation, "{tool} {arguments}: {error}");
        assert!(error.message.contains("fol") || error.message.contains("file"), "{}", error.message);
    }
    assert_eq!((workspace.read("file"), workspace.read("folder/f")), ("inside".into(), "inside".into()));
}

#[test]
fn unknown_missing_and_mistyped_fields_are_named() {
    let workspace = workspace();
    for (tool, arguments, field) in [
        ("file_read", json!({}), "path"),
        ("file_read", json!({"path": 7}), "`path`"),
        ("file_read", json!({"path": "file", "line": 1}), "`line`"),
        ("file_write", json!({"path": "file"}), "content"),
        ("file_write", json!({"path": "file", "content": "", "backup": "no"}), "`backup`"),
        ("file_list", json!({"path": ".", "limit": -1}), "`limit`"),
        ("file_search", json!({"path": "."}), "pattern"),
        ("file_move", json!({"source": "file"}), "destination"),
        ("file_delete", json!({"path": "file", "force": true}), "`force`"),
    ] {
        let error = call(&workspace, tool, arguments).unwrap_err();
        assert_eq!(error.code, Code::Validation, "{tool}");
        assert!(error.message.contains(field), "{tool}: {}", error.message);
    }
    assert_eq!(workspace.read("file"), "inside");
}

#[test]
fn an_argument_of_5_mb_is_written_and_read_back() {
    let workspace = Workspace::new();
    let content = "äöü\n".repeat((5 << 20) / 7);
    call(&workspace, "file_write", json!({"path": "large", "content": content})).unwrap();
    let read = call(&workspace, "file_read", json!({"path": "large", "max_bytes": 32 << 20})).unwrap();
    assert_eq!(read["content"], content);
    assert_eq!(read["line_count"], (5 << 20) / 7);
}
