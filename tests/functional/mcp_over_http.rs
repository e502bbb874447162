//! MCP over HTTP, and questions answered over HTTP, through the real program.

use std::io::{BufRead, BufReader, Write};

use serde_json::{Value, json};

use crate::harness::Fixture;
use crate::http::{Response, Up, bearer};

const FREE: [&str; 2] = ["--mode", "full_auto"];

fn post(up: &Up, headers: &[&str], message: &Value) -> Response {
    let token = bearer(&up.agent);
    let both = "accept: application/json, text/event-stream";
    let mut all = vec![token.as_str(), "content-type: application/json", both];
    all.extend(headers);
    up.request("POST", "/mcp", &all, message.to_string().as_bytes())
}

fn request(id: u32, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

/// Opens a session; the header that names it.
fn open(up: &Up, revision: &str) -> String {
    let params =
        json!({"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let opened = post(up, &[], &request(1, "initialize", params));
    assert_eq!(
        (opened.status, &opened.json()["result"]["protocolVersion"]),
        (200, &json!(revision)),
        "{opened:?}"
    );
    let session = opened.header("mcp-session-id").unwrap();
    assert!(
        session.len() >= 32 && session.chars().all(|character| character.is_ascii_hexdigit()),
        "{session}"
    );
    format!("mcp-session-id: {session}")
}

fn call(id: u32, tool: &str, arguments: Value) -> Value {
    request(id, "tools/call", json!({"name": tool, "arguments": arguments}))
}

fn modern(tool: &str, arguments: Value) -> Value {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    request(1, "tools/call", json!({"_meta": meta, "name": tool, "arguments": arguments}))
}

#[test]
fn every_revision_with_sessions_lists_and_calls() {
    let fixture = Fixture::with_files(&[("a.txt", "a")]);
    let up = Up::start(&fixture, &FREE);
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let session = open(&up, revision);
        let version = format!("mcp-protocol-version: {revision}");
        let within = [session.as_str(), version.as_str()];
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(post(&up, &within, &initialized).status, 202);
        let list = post(&up, &within, &request(2, "tools/list", json!({}))).json();
        assert!(list["result"]["tools"].as_array().unwrap().len() > 5);
        let read = post(&up, &within, &call(3, "file_read", json!({"path": "a.txt"}))).json();
        assert_eq!(read["result"]["content"][0]["text"], "a");
        let unknown = post(&up, &within, &call(4, "file_reed", json!({})));
        assert_eq!((unknown.status, &unknown.json()["error"]["code"]), (200, &json!(-32602)));
        let token = bearer(&up.agent);
        assert_eq!(up.request("DELETE", "/mcp", &[&token, &session], b"").status, 200);
        assert_eq!(post(&up, &within, &call(5, "file_read", json!({"path": "a.txt"}))).status, 404);
    }
    assert_eq!(post(&up, &[], &call(1, "file_read", json!({"path": "a.txt"}))).status, 400);
    assert_eq!(up.get(&up.agent, "/mcp").status, 405);
}

#[test]
fn a_message_of_2026_07_28_needs_no_session_and_the_right_headers() {
    let fixture = Fixture::with_files(&[("a.txt", "a")]);
    let up = Up::start(&fixture, &FREE);
    let headers = ["mcp-protocol-version: 2026-07-28", "mcp-method: tools/call", "mcp-name: file_read"];
    let read = post(&up, &headers, &modern("file_read", json!({"path": "a.txt"})));
    assert_eq!((read.status, read.header("mcp-session-id")), (200, None));
    assert_eq!(read.json()["result"]["content"][0]["text"], "a");
    let other = post(&up, &headers, &modern("file_write", json!({"path": "b.txt", "content": "b"})));
    assert_eq!((other.status, &other.json()["error"]["code"]), (400, &json!(-32020)));
    assert!(!fixture.workspace().join("b.txt").exists());
}

/// Whether a process of the host runs exactly this.
fn runs(command: &[&str]) -> bool {
    let wanted: Vec<u8> = command.iter().flat_map(|word| [word.as_bytes(), b"\0"].concat()).collect();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes
        .map(|entry| entry.path().join("cmdline"))
        .any(|file| std::fs::read(file).is_ok_and(|line| line == wanted))
}

#[test]
fn a_session_that_ends_takes_its_background_commands_along_and_those_of_no_other() {
    let fixture = Fixture::new();
    let up = Up::start(&fixture, &FREE);
    let started = ["41871", "41872"].map(|seconds| {
        let session = open(&up, "2025-11-25");
        let command = format!("exec sleep {seconds}");
        post(&up, &[&session], &call(2, "shell_execute", json!({"command": command, "background": true})));
        while !runs(&["sleep", seconds]) {}
        session
    });
    let ended = up.request("DELETE", "/mcp", &[&bearer(&up.agent), &started[0]], b"");
    assert_eq!(ended.status, 200, "{ended:?}");
    assert!(!runs(&["sleep", "41871"]));
    assert!(runs(&["sleep", "41872"]));
    let again = up.request("DELETE", "/mcp", &[&bearer(&up.agent), &started[0]], b"");
    assert_eq!(again.status, 404);
}

#[test]
fn a_question_is_heard_and_answered_by_the_user_while_the_call_waits() {
    let fixture = Fixture::new().asking();
    let up = Up::start(&fixture, &[]);
    let mut listening = up.connect();
    write!(listening, "GET /v1/events HTTP/1.1\r\nhost: {}\r\n{}\r\n\r\n", up.address, bearer(&up.user))
        .unwrap();
    let mut lines = BufReader::new(listening).lines();
    assert!(lines.next().unwrap().unwrap().contains("200"));
    std::thread::scope(|scope| {
        let call = scope.spawn(|| up.call("file_write", json!({"path": "a.txt", "content": "x"})));
        let mut next = |state: &str| loop {
            let line = lines.next().unwrap().unwrap();
            let Some(data) = line.strip_prefix("data: ") else { continue };
            let asked: Value = serde_json::from_str(data).unwrap();
            if asked["state"] == state {
                return asked;
            }
        };
        let asked = next("waiting");
        assert!(asked["effects"][0].as_str().unwrap().contains("a.txt"), "{asked:#}");
        let id = asked["id"].as_str().unwrap();
        assert_eq!(up.get(&up.user, "/v1/approvals").json()[0]["id"], id);
        let approved = up.post(&up.user, &format!("/v1/approvals/{id}/approve"), &json!({"scope": "once"}));
        assert_eq!(approved.status, 200, "{approved:?}");
        let result = call.join().unwrap();
        assert_eq!(
            (&result["ok"], &result["meta"]["approved_by"]),
            (&json!(true), &json!("the user, over HTTP"))
        );
        assert_eq!(next("used")["id"], id);
        let page = up.get(&up.user, "/v1/audit?tool=approval_answer&limit=1").json();
        assert_eq!(page["calls"][0]["door"], "http", "{page:#}");
        let denied = up.call_later(scope, "file_write", json!({"path": "b.txt", "content": "x"}));
        let asked = next("waiting");
        let deny = format!("/v1/approvals/{}/deny", asked["id"].as_str().unwrap());
        assert_eq!(up.post(&up.user, &deny, &json!({"message": "not now"})).status, 200);
        let denied = denied.join().unwrap();
        assert!(denied["error"]["message"].as_str().unwrap().contains("not now"), "{denied:#}");
    });
    let unknown = up.post(&up.user, "/v1/approvals/nothing/approve", &json!({}));
    assert_eq!(unknown.status, 404);
}

#[test]
fn figures_count_calls_and_requests() {
    let fixture = Fixture::with_files(&[("a.txt", "a")]);
    let up = Up::start(&fixture, &FREE);
    up.call("file_read", json!({"path": "a.txt"}));
    up.call("file_read", json!({"path": "nowhere"}));
    up.call("no_such_tool", json!({}));
    let text = up.get(&up.observer, "/metrics").body;
    for line in [
        "handfast_calls_total{tool=\"file_read\",outcome=\"ok\"} 1",
        "handfast_calls_total{tool=\"file_read\",outcome=\"ENOTFOUND\"} 1",
        "handfast_calls_total{tool=\"unknown\",outcome=\"ENOTFOUND\"} 1",
        "handfast_call_duration_seconds_count 3",
        "handfast_http_requests_total{route=\"/v1/call\",method=\"POST\",status=\"200\"} 3",
        "handfast_calls_running 0",
    ] {
        assert!(text.lines().any(|said| said == line), "{line} is missing in\n{text}");
    }
}
