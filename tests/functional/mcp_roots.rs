//! A server that a desktop program starts in the home folder or in `/` works in the client's first root.

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::harness::{Fixture, program, system_path};

/// A client of `handfast mcp`, which was started without a workspace.
struct Client {
    server: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Client {
    fn start(fixture: &Fixture, folder: &Path, capabilities: &Value) -> Self {
        let mut server = Command::new(program())
            .args(["--state".as_ref(), fixture.state().as_os_str()])
            .args(["--no-input", "mcp"])
            .env_clear()
            .env("HOME", fixture.home())
            .env("PATH", system_path())
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (server.stdin.take().unwrap(), server.stdout.take().unwrap());
        let mut client = Self { server, input, output: BufReader::new(output).lines() };
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": {"name": "test", "version": "1"}});
        client.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}));
        client
    }

    fn send(&mut self, message: &Value) {
        // A server that has refused to start takes no more messages.
        let _ended = writeln!(self.input, "{message}");
    }

    /// Returns the next message, or `None` if the server has ended.
    fn next(&mut self) -> Option<Value> {
        Some(serde_json::from_str(&self.output.next()?.unwrap()).unwrap())
    }

    /// Goes through the handshake, and names these roots.
    fn shake_hands(&mut self, roots: &[String]) {
        let answer = self.next().unwrap();
        assert_eq!((&answer["id"], &answer["result"]["serverInfo"]["name"]), (&json!(1), &json!("handfast")));
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        // A client need not wait before it sends its first request.
        self.send(&json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}));
        let asked = self.next().unwrap();
        assert_eq!(asked["method"], "roots/list");
        let roots: Vec<Value> = roots.iter().map(|uri| json!({ "uri": uri })).collect();
        self.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"roots": roots}}));
    }

    /// Reads a file of the workspace, and returns the answer as text.
    fn reads(&mut self, path: &str) -> String {
        let arguments = json!({"name": "file_read", "arguments": {"path": path}});
        self.send(&json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": arguments}));
        let listed = self.next().unwrap();
        assert!(
            listed["id"] == 2 && listed["result"]["tools"].is_array(),
            "one answer to each request: {listed}"
        );
        let read = self.next().unwrap();
        assert_eq!(read["id"], 3, "{read}");
        read.to_string()
    }

    fn ends(self) -> (i32, String) {
        drop(self.input);
        let output = self.server.wait_with_output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    }
}

fn uri(folder: &Path) -> String {
    format!("file://{}", folder.display()).replace(' ', "%20")
}

/// Makes a folder with a file.
fn project(fixture: &Fixture, name: &str) -> PathBuf {
    let folder = fixture.home().join(name);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("name.txt"), format!("this is {name}\n")).unwrap();
    folder
}

#[test]
fn the_first_usable_root_is_the_workspace_of_a_server_in_no_project() {
    let fixture = Fixture::new();
    let (one, two) = (project(&fixture, "one project"), project(&fixture, "two"));
    for folder in [fixture.home(), PathBuf::from("/")] {
        let mut client = Client::start(&fixture, &folder, &json!({"roots": {"listChanged": true}}));
        let missing = uri(&fixture.home().join("missing"));
        let above = uri(fixture.home().parent().unwrap());
        // A link to the home folder is the home folder, and a file is no folder.
        let link = fixture.outside().join("link");
        if !link.exists() {
            std::os::unix::fs::symlink(fixture.home(), &link).unwrap();
        }
        let unusable = [
            "https://example.com/",
            &missing,
            &uri(Path::new("/")),
            &above,
            &uri(&link),
            &uri(&one.join("name.txt")),
        ]
        .map(str::to_owned);
        let roots: Vec<String> = unusable.into_iter().chain([uri(&one), uri(&two)]).collect();
        client.shake_hands(&roots);
        let read = client.reads("name.txt");
        assert!(read.contains("this is one project"), "{read}");
        let (code, told) = client.ends();
        assert!(code == 0 && told.contains("one project, the first root"), "{told}");
    }
}

#[test]
fn without_usable_roots_the_home_folder_is_warned_of_and_the_whole_file_system_refused() {
    let fixture = Fixture::new();
    std::fs::write(fixture.home().join("name.txt"), "this is home\n").unwrap();
    let mut client = Client::start(&fixture, &fixture.home(), &json!({"roots": {}}));
    client.shake_hands(&[uri(&fixture.home())]);
    assert!(client.reads("name.txt").contains("this is home"));
    let (code, told) = client.ends();
    assert!(code == 0 && told.contains("none of the client's roots"), "{told}");

    let refused = Client::start(&fixture, Path::new("/"), &json!({}));
    let (code, told) = refused.ends();
    assert!(code == 2 && told.contains("cannot be the whole file system"), "{code} {told}");
}

#[test]
fn a_server_in_a_project_does_not_ask_for_roots() {
    let fixture = Fixture::new();
    let (one, two) = (project(&fixture, "one"), project(&fixture, "two"));
    let mut client = Client::start(&fixture, &one, &json!({"roots": {}}));
    assert_eq!(client.next().unwrap()["id"], 1);
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    client.send(&json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}));
    assert!(client.reads("name.txt").contains("this is one"));
    assert_eq!(client.ends().0, 0);
    drop(two);
}
