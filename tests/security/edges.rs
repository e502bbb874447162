//! A known secret that a caller sends in any text of a request: no door repeats it, and no audit
//! row or file contains it.

use std::io::Write as _;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::harness::Fixture;
use crate::http::{Up, bearer};
use crate::security::secrets::{everything_below, leaked};
use crate::server::Server;
use crate::specialist::{Specialist, request};

/// A secret with characters that JSON, shells and URLs escape.
const SECRET: &str = "sk-Live/0123'4567 \"89\\ab\u{e4}+cdef==";
/// A secret that a path, a header and an option can contain unescaped.
const PLAIN: &str = "sk-live-0123456789-abcdefghijkl";
/// A text that is no secret, and is repeated where a secret would be.
const CONTROL: &str = "no-secret-0123456789-abcdefghijk";

/// Leaks that were found, and the number of times that the control was.
struct Heard {
    leaks: Vec<String>,
    controls: usize,
}

impl Heard {
    fn hear(&mut self, door: &str, said: &str) {
        for secret in [SECRET, PLAIN] {
            if let Some(found) = leaked(said.as_bytes(), secret) {
                self.leaks.push(format!("{door}: {found} in {said}"));
            }
        }
        self.controls += usize::from(said.contains(CONTROL));
    }
}

/// Lists the texts to send, alone and where a response cuts its repetition.
fn texts() -> Vec<String> {
    let texts = [SECRET, PLAIN, CONTROL];
    let cut =
        texts.iter().flat_map(|text| [70, 80, 90, 186].map(|before| format!("{}{text}", "x".repeat(before))));
    texts.iter().map(|text| (*text).to_owned()).chain(cut).collect()
}

/// Returns calls that contain the text in the tool's name, in the names of arguments, and in values
/// of every kind.
fn calls(text: &str) -> Vec<(String, Value)> {
    vec![
        (text.to_owned(), json!({})),
        ("file_read".to_owned(), json!({"path": text})),
        ("file_read".to_owned(), json!({text: 1})),
        ("file_read".to_owned(), json!({"path": {text: [text]}})),
        ("file_read".to_owned(), json!([text])),
        ("file_read".to_owned(), json!(text)),
        ("file_list".to_owned(), json!({"path": ".", "pattern": text})),
        ("tool_call".to_owned(), json!({"name": text, "arguments": {"a": text}})),
        ("tool_describe".to_owned(), json!({"name": text})),
        ("output_read".to_owned(), json!({"output_ref": text})),
        ("checkpoint_restore".to_owned(), json!({"checkpoint_id": text})),
        ("checkpoint_restore".to_owned(), json!({"id": text})),
        ("shell_session".to_owned(), json!({"action": "read", "session_id": text})),
        ("shell_execute".to_owned(), json!({"command": "true", "working_directory": text})),
        ("shell_execute".to_owned(), json!({"command": "true", "env": {text: text}})),
        ("shell_execute".to_owned(), json!({"command": format!("nosuch-{text}")})),
        ("fetch_url".to_owned(), json!({"url": text})),
        ("fetch_url".to_owned(), json!({"url": "https://a.example", "method": text})),
        ("fetch_url".to_owned(), json!({"url": "https://a.example", "headers": {text: text}})),
        ("db_query".to_owned(), json!({"database": text, "query": "SELECT 1"})),
        ("memory".to_owned(), json!({"action": text})),
        ("skill_read".to_owned(), json!({"name": text})),
        ("vault_delete".to_owned(), json!({"key": text})),
    ]
}

fn by_command_line(fixture: &Fixture, heard: &mut Heard) {
    for text in [SECRET, PLAIN, CONTROL] {
        let half = format!("--{text}");
        let equal = format!("--scope={text}");
        for line in [
            vec!["undo", text],
            vec!["undo", "--since", text],
            vec!["undo", text, text],
            vec!["vault", "remove", text],
            vec!["vault", "set", "other", text],
            vec!["vault", "set", "other", "--host", text],
            vec!["vault", "set", text, "--host", "a.example"],
            vec!["approvals", "show", text],
            vec!["approvals", "approve", text],
            vec!["approvals", "approve", "x", &equal],
            vec!["approvals", "revoke", text],
            vec!["audit", "show", text],
            vec!["audit", "list", "--session", text],
            vec!["audit", "list", "--tool", text],
            vec!["audit", "verify", "--expect", text],
            vec!["changes", "show", text],
            vec!["checkpoints", "show", text],
            vec!["policy", "show", text],
            vec!["--profile", text, "tools"],
            vec!["--mode", text, "tools"],
            vec!["--workspace", text, "tools"],
            vec![text],
            vec!["tools", &half],
            vec!["trust", text],
            vec!["setup", text],
            vec!["call", text, "{}"],
            vec!["call", "file_read", text],
            vec!["check", "file_read", text],
        ] {
            let run = fixture.run(&line);
            heard.hear(&format!("{line:?}"), &(run.stdout + &run.stderr));
        }
        for (tool, arguments) in calls(text) {
            let run = fixture.run(&["call", &tool, &arguments.to_string()]);
            heard.hear(&format!("call {tool} {arguments}"), &(run.stdout + &run.stderr));
        }
    }
}

fn by_mcp(fixture: &Fixture, heard: &mut Heard) {
    let mut server = Server::start(fixture, &["--mode", "full_auto"]);
    server.ask("logging/setLevel", json!({"level": "debug"}));
    for text in texts() {
        let mut lines = vec![
            json!({"id": text, "method": "ping"}),
            json!({"id": text, "method": text}),
            json!({"id": 1, "method": text, "params": {text.as_str(): text}}),
            json!({"id": 2, "method": "resources/read", "params": {"uri": text}}),
            json!({"id": 3, "method": "resources/read", "params": {"uri": format!("handfast://audit/{text}")}}),
            json!({"id": 4, "method": "resources/subscribe", "params": {"uri": text}}),
            json!({"id": 5, "method": "prompts/get", "params": {"name": text, "arguments": {"call": text}}}),
            json!({"id": 6, "method": "completion/complete", "params": {
                "ref": {"type": "ref/prompt", "name": text}, "argument": {"name": text, "value": text}}}),
            json!({"id": 7, "method": "logging/setLevel", "params": {"level": text}}),
            json!({"id": 8, "method": "tasks/get", "params": {"taskId": text}}),
            json!({"id": 9, "method": "tools/list", "params": {"cursor": text}}),
            json!({"id": 10, "method": "initialize", "params": {"protocolVersion": text, "capabilities": {},
                "clientInfo": {"name": text, "version": text}}}),
            json!({"method": text, "params": {"requestId": text}}),
            json!({"id": {text.as_str(): text}, "method": "ping"}),
            json!({"method": "notifications/cancelled", "params": {"requestId": text, "reason": text}}),
            json!({"id": text, "result": {text.as_str(): text}}),
        ];
        for (tool, arguments) in calls(&text) {
            let meta = json!({"progressToken": text, text.as_str(): text});
            lines.push(json!({"id": text, "method": "tools/call",
                "params": {"name": tool, "arguments": arguments, "_meta": meta}}));
        }
        for mut line in lines {
            line["jsonrpc"] = "2.0".into();
            let said = server.answers_to(format!("{line}\n").as_bytes());
            heard.hear(&format!("MCP {line}"), &said);
        }
        // JSON can spell each letter as an escape.
        let escaped: String = text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
        let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":\"{escaped}\",\"method\":\"ping\"}}\n");
        for said in server.answers_to(line.as_bytes()).lines() {
            let said: Value = serde_json::from_str(said).unwrap();
            heard.hear("an escaped id", &said.to_string());
        }
        let broken = server.answers_to(format!("{{\"{}\n", text.replace(['\\', '"'], "")).as_bytes());
        heard.hear("a broken line", &broken);
    }
    heard.hear("what MCP told", &format!("{:?}", server.notifications));
}

fn by_http(fixture: &Fixture, heard: &mut Heard) {
    let up = {
        let mut command = fixture.command();
        command
            .args(["--mode", "full_auto", "up", "--listen", "127.0.0.1:0", "--json"])
            .stderr(Stdio::null());
        Up::of(command)
    };
    let mut tell = |what: &str, response: crate::http::Response| {
        heard.hear(&format!("HTTP {what}"), &format!("{:?} {}", response.headers, response.body));
    };
    for text in texts() {
        let encoded: String = text.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let plain = text.contains(PLAIN) || text.contains(CONTROL);
        let paths =
            [format!("/{encoded}"), format!("/v1/audit/{encoded}"), format!("/v1/approvals/{encoded}")];
        for path in paths.iter().cloned().chain(plain.then(|| format!("/{text}"))) {
            tell(&path, up.get(&up.user, &path));
            tell(
                &path,
                up.post(&up.user, &format!("{path}/approve"), &json!({"scope": text, text.as_str(): text})),
            );
            tell(&path, up.request("DELETE", &path, &[&bearer(&up.user)], b""));
        }
        tell(
            "query",
            up.get(&up.user, &format!("/v1/audit?since={encoded}&{encoded}={encoded}&session={encoded}")),
        );
        if plain {
            tell("method", up.request(&text, "/v1/tools", &[&bearer(&up.user)], b""));
            tell("host", up.request("GET", "/v1/tools", &[&format!("host: {text}"), &bearer(&up.user)], b""));
            tell(
                "origin",
                up.request("GET", "/v1/tools", &[&format!("origin: https://{text}"), &bearer(&up.user)], b""),
            );
            tell("token", up.get(&text, "/v1/tools"));
            tell(
                "header",
                up.request("GET", "/v1/tools", &[&format!("{text}: {text}"), &bearer(&up.user)], b""),
            );
            for header in
                ["mcp-session-id", "mcp-protocol-version", "last-event-id", "mcp-method", "content-type"]
            {
                let lines = [
                    &*format!("{header}: {text}"),
                    &bearer(&up.agent),
                    "accept: application/json, text/event-stream",
                ];
                tell(
                    header,
                    up.request("POST", "/mcp", &lines, b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}"),
                );
                tell(header, up.request("GET", "/mcp", &lines, b""));
            }
        }
        tell("body", up.request("POST", "/v1/call", &[&bearer(&up.agent)], text.as_bytes()));
        tell(
            "check",
            up.post(&up.agent, "/v1/check", &json!({"tool": text, "arguments": {text.as_str(): text}})),
        );
        for (tool, arguments) in calls(&text) {
            tell(&tool, up.post(&up.agent, "/v1/call", &json!({"tool": tool, "arguments": arguments})));
        }
        tell("fields", up.post(&up.agent, "/v1/call", &json!({"tool": "file_read", text.as_str(): text})));
        let message = json!({"jsonrpc": "2.0", "id": text, "method": text, "params": {"uri": text}});
        let kinds = [
            &*bearer(&up.agent),
            "content-type: application/json",
            "accept: application/json, text/event-stream",
        ];
        tell("MCP", up.request("POST", "/mcp", &kinds, message.to_string().as_bytes()));
    }
    tell("the audit", up.get(&up.user, "/v1/audit"));
    tell("figures", up.get(&up.observer, "/metrics"));
}

fn by_csp(fixture: &Fixture, heard: &mut Heard) {
    for text in texts() {
        let mut child = fixture
            .command()
            .args(["--mode", "full_auto", "csp"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        let quoted = Value::from(text.as_str()).to_string();
        let word = text.replace(char::is_whitespace, "");
        for request in [
            request(&text, ""),
            request("true", &format!("ID {word}\n")),
            request("true", &format!("ID {quoted}\n")),
            request("true", &format!("{word} 1\n")),
            request("true", &format!("PURPOSE {quoted}\n")),
            request(&format!("echo {CONTROL} >&2; false '{}'", text.replace('\'', "'\\''")), ""),
            format!("TASK REQ:{word} IN:SHELL OUT:EXEC_RESULT\n\n"),
            format!("TASK REQ:exec IN:{word} OUT:{word}\n\n"),
            format!("{text}\n\n"),
        ] {
            input.write_all(request.as_bytes()).unwrap();
        }
        drop(input);
        let output = child.wait_with_output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        heard.hear(&format!("CSP/1 with {text}"), &String::from_utf8_lossy(&said));
    }
    // The control: the specialist answers.
    assert!(!Specialist::start(fixture, &["--mode", "full_auto"]).run("echo there", "").is_empty());
}

#[test]
fn a_known_secret_in_any_text_that_a_caller_can_send_is_repeated_by_no_door_and_lies_nowhere() {
    let fixture = Fixture::new().with_vault();
    fixture.store("planted", SECRET);
    fixture.store("plain", PLAIN);
    let mut heard = Heard { leaks: Vec::new(), controls: 0 };
    let mut controls = Vec::new();
    for (door, by) in [
        ("the command line", by_command_line as fn(&Fixture, &mut Heard)),
        ("MCP", by_mcp),
        ("HTTP", by_http),
        ("CSP/1", by_csp),
    ] {
        by(&fixture, &mut heard);
        controls.push((door, std::mem::take(&mut heard.controls)));
    }
    // Handfast writes the exec log of a specialist, and the log lies in the workspace.
    heard.hear(
        "the exec log",
        &String::from_utf8_lossy(&everything_below(&fixture.workspace().join("memory"))),
    );
    assert!(std::mem::take(&mut heard.controls) > 0, "the exec log has what is no secret");
    let lies = everything_below(&fixture.state());
    for secret in [SECRET, PLAIN] {
        if let Some(found) = leaked(&lies, secret) {
            let files = files_with(&fixture.state(), secret);
            heard.leaks.push(format!("{found} lies in the state: {files:?}"));
        }
    }
    assert!(leaked(&lies, CONTROL).is_some(), "what is no secret is in the audit");
    assert!(heard.leaks.is_empty(), "{} leaks:\n{}", heard.leaks.len(), heard.leaks.join("\n"));
    // The control: a text that is no secret comes back through each door.
    assert!(controls.iter().all(|(_, repeated)| *repeated > 0), "{controls:?}");
}

/// Finds the files below a folder that contain the secret.
fn files_with(folder: &std::path::Path, secret: &str) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(folder) = waiting.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                waiting.push(path);
            } else if path.is_file() && leaked(&std::fs::read(&path).unwrap(), secret).is_some() {
                found.push(path);
            }
        }
    }
    found
}
