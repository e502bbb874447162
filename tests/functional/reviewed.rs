//! Ways around a denial that a review found: further files of a server, single files of a plugin, renames of a
//! repository, and a file of servers that cannot be read.

use std::io::ErrorKind;
use std::os::unix::net::UnixListener;

use serde_json::{Value, json};

use crate::functional::plugins;
use crate::functional::self_development;
use crate::harness::Fixture;

/// Server with two tools: one reads a file, one connects to a socket.
const SERVER: &str = r#"
import json, socket, sys
def send(message): print(json.dumps(message), flush=True)
def call(name, value):
    try:
        if name == "read": return open(value).read()
        socket.socket(socket.AF_UNIX).connect(value)
        return "connected"
    except OSError as error: return f"refused: {error.strerror}"
schema = {"type": "object", "properties": {"value": {"type": "string"}}}
for line in sys.stdin:
    request = json.loads(line)
    method, params = request.get("method"), request.get("params", {})
    if "id" not in request: continue
    if method == "initialize":
        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": [{"name": name, "description": name, "inputSchema": schema} for name in ["read", "connect"]]}
    elif method == "tools/call":
        words = call(params["name"], params["arguments"]["value"])
        result = {"content": [{"type": "text", "text": words}]}
    else:
        send({"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32601, "message": "unknown"}})
        continue
    send({"jsonrpc": "2.0", "id": request["id"], "result": result})
"#;

/// Returns a fixture with the server under the key `s`, whose cell shows this folder.
fn showing(folder: &str) -> Fixture {
    let fixture = Fixture::with_files(&[("server.py", SERVER)]);
    fixture.configure(&format!(
        "mode: full_auto\nmcp_servers:\n  s:\n    command: /usr/bin/python3\n    args: [server.py]\n    shows: [\"{folder}\"]\n"
    ));
    fixture
}

#[test]
fn what_a_server_is_shown_has_no_denied_files_and_no_listening_sockets() {
    let shown = tempfile::Builder::new().prefix("handfast-shown-").tempdir_in("/var/tmp").unwrap();
    let at = |name: &str| shown.path().join(name);
    std::fs::write(at("plain.txt"), "plain").unwrap();
    std::fs::create_dir(at("below")).unwrap();
    std::fs::write(at("below/.env"), "KEY=tesnu").unwrap();
    let socket = UnixListener::bind(at("agent.sock")).unwrap();
    socket.set_nonblocking(true).unwrap();
    let fixture = showing(shown.path().to_str().unwrap());
    let library = fixture.library();
    let listed = library.call("mcp_servers", json!({"server": "s"}));
    assert_eq!(listed["ok"], true, "{listed:#}");
    let text = |tool: &str, path: &str| -> String {
        let result = library.call(tool, json!({"value": at(path)}));
        result["data"]["text"].as_str().unwrap_or_else(|| panic!("{result:#}")).to_owned()
    };
    assert_eq!(text("s__read", "plain.txt"), "plain");
    let denied = text("s__read", "below/.env");
    assert!(!denied.contains("tesnu"), "{denied}");
    let connected = text("s__connect", "agent.sock");
    assert!(connected.starts_with("refused"), "{connected}");
    assert_eq!(socket.accept().unwrap_err().kind(), ErrorKind::WouldBlock, "nobody has connected");
    // The listener works for a program that is not in a cell.
    std::os::unix::net::UnixStream::connect(at("agent.sock")).unwrap();
    socket.accept().unwrap();
}

#[test]
fn a_server_is_shown_no_folder_around_the_files_of_this_program() {
    let fixture = showing("/var/tmp");
    assert!(fixture.state().starts_with("/var/tmp"), "the state lies below the folder that is shown");
    let refused = fixture.run(&["call", "mcp_servers", r#"{"server": "s"}"#]).json();
    let words = refused.to_string();
    assert!(words.contains("EUNAVAILABLE") && words.contains("the files of Handfast"), "{refused:#}");
}

#[test]
fn a_denied_file_of_the_system_is_read_by_no_command_and_by_no_plugin_without_a_workspace() {
    const FILE: &str = "/usr/bin/yes";
    let fixture = Fixture::new();
    let script =
        format!("printf '{{\"ok\":true,\"data\":{{\"said\":\"%s\"}}}}' \"$(head -c 4 {FILE} | tail -c 3)\"");
    plugins::write(&fixture, "reader", &script, "");
    assert_eq!(fixture.run(&["plugin", "enable", "reader", "--yes"]).code, 0);
    assert_eq!(fixture.data("reader", json!({}))["said"], "ELF");
    let command = json!({"command": "cd /usr/bin; for name in ye?; do head -c 4 $name | tail -c 3; done"});
    assert_eq!(fixture.data("shell_execute", command.clone())["stdout"], "ELF");
    fixture.configure(&format!("sandbox_config: {{normal: {{deny_read_paths: [{FILE}]}}}}\n"));
    let ran = fixture.run(&["call", "shell_execute", &command.to_string()]).json();
    assert_eq!(ran["data"]["stdout"], "", "{ran:#}");
    let result = fixture.run(&["call", "reader", "{}"]).json();
    assert_eq!(result["data"]["said"], "", "{result:#}");
    // The system as a whole stays in sight, because nothing would run without it.
    let fixture = Fixture::new();
    fixture.configure("sandbox_config: {normal: {deny_read_paths: [/etc, /usr]}}\n");
    assert_eq!(fixture.data("shell_execute", json!({"command": "echo runs"}))["stdout"], "runs\n");
}

#[test]
fn a_revert_does_not_follow_a_file_that_was_moved_to_a_protected_place() {
    let fixture = self_development::project();
    let git = |arguments: &[&str]| self_development::git(&fixture, arguments);
    let modified = json!({
        "path": "src/sum.js", "change_description": "mend it",
        "new_content": self_development::MENDED, "reason": "a test fails",
    });
    let done = fixture.data("self_modify_source", modified);
    let commit = done["rollback_commit"].as_str().unwrap().to_owned();
    git(&["mv", "src/sum.js", "src/gate/sum.js"]);
    fixture.write("src/sum.js", "module.exports = require('./gate/sum.js');\n");
    git(&["add", "."]);
    git(&["commit", "-q", "-m", "moved"]);
    let head = git(&["rev-parse", "HEAD"]);
    let revert = json!({"action": "revert", "commit_hash": commit});
    let error: Value = fixture.error("self_rollback", revert);
    assert_eq!(error["code"], "ECONFLICT", "{error:#}");
    assert_eq!(git(&["rev-parse", "HEAD"]), head);
    assert_eq!(fixture.read("src/gate/sum.js"), self_development::MENDED);
}

#[test]
fn an_unreadable_file_of_servers_stops_no_other_call() {
    for content in [Some(&b"\xff\xfe{}"[..]), None] {
        let fixture = Fixture::with_files(&[("a.txt", "the file")]);
        let path = fixture.workspace().join(".mcp.json");
        match content {
            Some(bytes) => std::fs::write(&path, bytes).unwrap(),
            None => std::fs::create_dir(&path).unwrap(),
        }
        let run = fixture.run(&["call", "file_read", r#"{"path": "a.txt"}"#]);
        assert_eq!(run.json()["ok"], true, "{} {}", run.stdout, run.stderr);
        assert!(run.stderr.contains(".mcp.json are not used"), "{}", run.stderr);
    }
}
