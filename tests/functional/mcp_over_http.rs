//! MCP over HTTP, and questions answered over HTTP, through the real program.

use std::io::{BufRead, BufReader, Write};

use serde_json::{Value, json};

use crate::functional::conformance;
use crate::harness::Fixture;
use crate::http::{Response, Up, bearer};
use crate::shown::data_of;

const FREE: [&str; 2] = ["--mode", "full_auto"];

pub(crate) fn post(up: &Up, headers: &[&str], message: &Value) -> Response {
    let token = bearer(&up.agent);
    let both = "accept: application/json, text/event-stream";
    let mut all = vec![token.as_str(), "content-type: application/json", both];
    all.extend(headers);
    up.request("POST", "/mcp", &all, message.to_string().as_bytes())
}

fn request(id: u32, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

/// Opens a session, and returns the header that names it.
pub(crate) fn open(up: &Up, revision: &str) -> String {
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

pub(crate) fn call(id: u32, tool: &str, arguments: Value) -> Value {
    request(id, "tools/call", json!({"name": tool, "arguments": arguments}))
}

fn modern(tool: &str, arguments: Value) -> Value {
    modern_of("tools/call", json!({"name": tool, "arguments": arguments}))
}

/// Builds a request of the revision without sessions.
pub(crate) fn modern_of(method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    request(1, method, params)
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
        assert_eq!(data_of("file_read", &read["result"])["content"], "a");
        let unknown = post(&up, &within, &call(4, "file_reed", json!({})));
        assert_eq!((unknown.status, &unknown.json()["error"]["code"]), (200, &json!(-32602)));
        let token = bearer(&up.agent);
        assert_eq!(up.request("DELETE", "/mcp", &[&token, &session], b"").status, 200);
        assert_eq!(post(&up, &within, &call(5, "file_read", json!({"path": "a.txt"}))).status, 404);
    }
    assert_eq!(post(&up, &[], &call(1, "file_read", json!({"path": "a.txt"}))).status, 400);
}

/// Listens for messages that belong to no request, line by line, until the server ends the stream.
fn hear(up: &Up, headers: &[&str]) -> impl Iterator<Item = String> + use<> {
    let mut stream = up.connect();
    let (address, token, headers) = (up.address, bearer(&up.agent), headers.join("\r\n"));
    let head = format!(
        "GET /mcp HTTP/1.1\r\nhost: {address}\r\n{token}\r\naccept: text/event-stream\r\n{headers}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
    assert!(lines.next().unwrap().contains(" 200 "));
    assert!(
        lines.by_ref().take_while(|line| !line.is_empty()).any(|line| line.contains("text/event-stream"))
    );
    // The last chunk of the body is an empty one.
    lines.take_while(|line| line != "0")
}

/// Returns the id of the next message on the stream, and the message.
fn heard(lines: &mut impl Iterator<Item = String>) -> (String, Value) {
    let id = lines.find_map(|line| line.strip_prefix("id: ").map(str::to_owned)).unwrap();
    let data = lines.find_map(|line| line.strip_prefix("data: ").map(str::to_owned)).unwrap();
    (id, serde_json::from_str(&data).unwrap())
}

#[test]
fn what_belongs_to_no_request_comes_on_the_stream_of_its_session() {
    let up = conformance::server(Some("the token of the agents"));
    let (session, other) = (open(&up, "2025-11-25"), open(&up, "2025-11-25"));
    let mut streams = [&session, &session, &other].map(|session| hear(&up, &[session]));
    // A session's later stream receives its messages, and the earlier stream has ended.
    assert!(streams[0].by_ref().all(|line| !line.contains("data:")));
    let watched = json!({"uri": "test://watched-resource"});
    assert_eq!(post(&up, &[&session], &request(2, "resources/subscribe", watched)).status, 200);
    for (id, tool) in [(3, "test_trigger_resource_change"), (4, "test_trigger_tool_change")] {
        assert_eq!(post(&up, &[&session], &call(id, tool, json!({}))).status, 200);
    }
    let (first, told) = heard(&mut streams[1]);
    assert_eq!(told["method"], "notifications/resources/updated");
    assert_eq!(told["params"], json!({"uri": "test://watched-resource"}));
    let second = heard(&mut streams[1]);
    assert_eq!(second.1["method"], "notifications/tools/list_changed");
    let (_, to_other) = heard(&mut streams[2]);
    assert_eq!(
        to_other["method"], "notifications/tools/list_changed",
        "who watches nothing hears of no resource"
    );
    // A client that returns with an event id receives the events after it, and all new ones.
    let mut again = hear(&up, &[&session, &format!("last-event-id: {first}")]);
    assert!(streams[1].by_ref().all(|line| !line.contains("data:")), "one hears");
    assert_eq!(heard(&mut again), second);
    assert_eq!(post(&up, &[&session], &call(5, "test_trigger_resource_change", json!({}))).status, 200);
    let (third, told_again) = heard(&mut again);
    assert_eq!(told_again, told);
    assert!(third != first && third != second.0, "{third}");
    let refused = up.request(
        "GET",
        "/mcp",
        &[&bearer(&up.agent), &other, "accept: text/event-stream", &format!("last-event-id: {third}")],
        b"",
    );
    assert_eq!(refused.status, 400, "of another session: {refused:?}");
    // A server that is asked to end waits for no stream.
    assert_eq!(up.end(), Some(143));
}

#[test]
fn a_stream_is_for_a_session_that_is_there() {
    let fixture = Fixture::new();
    let up = Up::start(&fixture, &FREE);
    let token = bearer(&up.agent);
    let get =
        |headers: &[&str]| up.request("GET", "/mcp", &[&[token.as_str()], headers].concat(), b"").status;
    assert_eq!(get(&[]), 400);
    assert_eq!(get(&["mcp-session-id: 00112233445566778899aabbccddeeff"]), 404);
    assert_eq!(get(&["mcp-protocol-version: 2026-07-28"]), 405);
    assert_eq!(get(&[&open(&up, "2025-11-25"), "accept: application/json"]), 406);
    assert_eq!(up.request("GET", "/mcp", &[&open(&up, "2025-11-25")], b"").status, 401);
}

#[test]
fn a_message_of_2026_07_28_needs_no_session_and_the_right_headers() {
    let fixture = Fixture::with_files(&[("a.txt", "a")]);
    let up = Up::start(&fixture, &FREE);
    let headers = ["mcp-protocol-version: 2026-07-28", "mcp-method: tools/call", "mcp-name: file_read"];
    let read = post(&up, &headers, &modern("file_read", json!({"path": "a.txt"})));
    assert_eq!((read.status, read.header("mcp-session-id")), (200, None));
    assert_eq!(data_of("file_read", &read.json()["result"])["content"], "a");
    let other = post(&up, &headers, &modern("file_write", json!({"path": "b.txt", "content": "b"})));
    assert_eq!((other.status, &other.json()["error"]["code"]), (400, &json!(-32020)));
    assert!(!fixture.workspace().join("b.txt").exists());
}

/// Returns true if a process of the host has exactly this command line.
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

/// Makes a call within a session, and returns its data.
fn made(up: &Up, session: &str, tool: &str, arguments: Value) -> Value {
    data_of(tool, &post(up, &[session], &call(2, tool, arguments)).json()["result"])
}

/// Returns the ids of the background commands in a listing.
fn ids(listed: &Value) -> Vec<&str> {
    let sessions = listed["sessions"].as_array().unwrap();
    sessions.iter().map(|session| session["session_id"].as_str().unwrap()).collect()
}

#[test]
fn what_is_kept_outlives_its_session_belongs_to_the_token_and_ends_with_the_server() {
    let fixture = Fixture::new();
    let up = Up::start(&fixture, &FREE);
    let list = json!({"action": "list"});
    let first = open(&up, "2025-11-25");
    let start = |command: &str, keep: bool| {
        let arguments = json!({"command": command, "background": true, "keep": keep});
        made(&up, &first, "shell_execute", arguments)["session_id"].as_str().unwrap().to_owned()
    };
    let (kept, ended) = (start("echo begun; exec sleep 41881", true), start("exec sleep 41882", false));
    let again = start("exec sleep 41883", true);
    while !["41881", "41882", "41883"].iter().all(|seconds| runs(&["sleep", seconds])) {}
    assert_eq!(up.request("DELETE", "/mcp", &[&bearer(&up.agent), &first], b"").status, 200);
    // The control: the command without `keep` has ended with the session.
    assert!(!runs(&["sleep", "41882"]) && runs(&["sleep", "41881"]) && runs(&["sleep", "41883"]));

    let second = open(&up, "2025-11-25");
    let seen = made(&up, &second, "shell_session", list.clone());
    assert_eq!(ids(&seen), [&kept, &again], "and not {ended}: {seen:#}");
    assert_eq!(seen["sessions"][0]["keep"], true);
    let read = json!({"action": "read", "session_id": kept, "wait": 60, "regex": "^begun$"});
    let read = post(&up, &[&second], &call(3, "shell_session", read)).json();
    assert_eq!(data_of("shell_session", &read["result"])["content"], "begun\n", "{read:#}");
    let plain = up.call("shell_session", list.clone());
    assert_eq!(ids(&plain["data"]), [&kept, &again], "calls without a session are of the token: {plain:#}");
    // No other token: the user's and the observer's cannot make calls.
    for token in [&up.user, &up.observer] {
        let body = json!({"tool": "shell_session", "arguments": list});
        assert_eq!(up.post(token, "/v1/call", &body).status, 403);
        let hello = request(1, "initialize", json!({})).to_string();
        assert_eq!(up.request("POST", "/mcp", &[&bearer(token)], hello.as_bytes()).status, 403);
    }
    made(&up, &second, "shell_session", json!({"action": "close", "session_id": kept}));
    assert!(!runs(&["sleep", "41881"]));
    assert_eq!(up.end(), Some(143));
    assert!(!runs(&["sleep", "41883"]), "it ends with the server");
}

#[test]
fn what_is_kept_and_what_calls_without_a_session_start_is_bounded_together_and_shares_a_network() {
    let lines = "sandbox_config:\n  normal:\n    limits:\n      sessions: 2\n";
    let fixture = Fixture::with_files(&[("handfast.yaml", lines)]);
    let up = Up::start(&fixture, &FREE);
    let session = open(&up, "2025-11-25");
    let serve = "python3 -u -c 'import socket\ns = socket.create_server((\"127.0.0.1\", 18127))\nprint(\"ready\")\nwhile True: s.accept()[0].sendall(b\"SERVED\")'";
    let fetch = "python3 -c 'import socket\ntry:\n    print(socket.create_connection((\"127.0.0.1\", 18127), 5).recv(100))\nexcept OSError as e:\n    print(type(e).__name__)'";
    let kept = json!({"command": serve, "background": true, "keep": true});
    let id = made(&up, &session, "shell_execute", kept)["session_id"].clone();
    let ready = json!({"action": "read", "session_id": id, "wait": 60, "regex": "^ready$"});
    assert_eq!(up.call("shell_session", ready)["data"]["content"], "ready\n");
    // The command belongs to the token, and so does its network.
    let own = up.call("shell_execute", json!({"command": fetch}));
    assert!(own["data"]["stdout"].as_str().unwrap().contains("SERVED"), "{own:#}");
    let other = made(&up, &session, "shell_execute", json!({"command": fetch}));
    assert!(other["stdout"].as_str().unwrap().contains("ConnectionRefusedError"), "{other:#}");

    let background = json!({"command": "exec sleep 41884", "background": true});
    assert_eq!(up.call("shell_execute", background.clone())["ok"], true);
    let third = up.call("shell_execute", background.clone());
    assert_eq!(third["error"]["code"], "EQUOTA", "{third:#}");
    let mut kept = background.clone();
    kept["keep"] = json!(true);
    let refused = post(&up, &[&session], &call(4, "shell_execute", kept)).json();
    assert!(refused["result"]["content"][0]["text"].as_str().unwrap().contains("EQUOTA"), "{refused:#}");
    // The session's own commands count separately.
    assert!(made(&up, &session, "shell_execute", background)["session_id"].is_string());
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

#[test]
fn a_client_whose_connection_breaks_comes_back_for_its_answer() {
    let fixture = Fixture::new();
    let up = Up::start(&fixture, &FREE);
    let session = open(&up, "2025-11-25");
    let line = "sleep 2; echo arrived";
    let message = call(7, "shell_execute", json!({"command": line, "background": false})).to_string();
    let stream = up.connect();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: {}\r\n{}\r\n{session}\r\nmcp-protocol-version: 2025-11-25\r\n\
         content-type: application/json\r\naccept: text/event-stream\r\ncontent-length: {}\r\n\r\n{message}",
        up.address,
        bearer(&up.agent),
        message.len()
    );
    (&stream).write_all(head.as_bytes()).unwrap();
    let mut reader = BufReader::new(stream);
    let mut id = String::new();
    while !id.starts_with("id: ") {
        id.clear();
        assert_ne!(reader.read_line(&mut id).unwrap(), 0);
    }
    drop(reader);
    let id = format!("last-event-id: {}", id.trim().trim_start_matches("id: "));
    let token = bearer(&up.agent);
    let accept = "accept: text/event-stream";
    let other = open(&up, "2025-11-25");
    let refused = up.request("GET", "/mcp", &[&token, &other, accept, &id], b"");
    assert_eq!(refused.status, 400, "of another session: {refused:?}");
    let answer = up.request("GET", "/mcp", &[&token, &session, accept, &id], b"");
    assert_eq!(answer.status, 200, "{answer:?}");
    let (_, last) = answer.events().pop().unwrap();
    assert_eq!((&last["id"], &last["result"]["content"][0]["text"]), (&json!(7), &json!("arrived\n")));
}

#[test]
fn the_list_of_tools_is_the_same_for_one_credential_whatever_happens_and_whichever_session_asks() {
    let fixture = Fixture::with_files(&[("a.txt", "a")]);
    let up = Up::start(&fixture, &FREE);
    let list = |session: &str| {
        let within = [session, "mcp-protocol-version: 2025-11-25"];
        let listed = post(&up, &within, &request(2, "tools/list", json!({}))).json();
        listed["result"]["tools"].to_string()
    };
    let (one, other) = (open(&up, "2025-11-25"), open(&up, "2025-11-25"));
    let first = list(&one);
    assert!(first.contains("file_read"), "{first}");
    assert_eq!(list(&other), first, "of another session");
    let within = [one.as_str(), "mcp-protocol-version: 2025-11-25"];
    for message in [
        call(3, "file_write", json!({"path": "a.txt", "content": "b"})),
        call(4, "shell_execute", json!({"command": "touch b"})),
        call(5, "file_reed", json!({})),
        call(6, "file_read", json!({"path": "/etc/shadow"})),
    ] {
        assert_eq!(post(&up, &within, &message).status, 200);
    }
    assert_eq!(fixture.read("a.txt"), "b");
    fixture.write("handfast.yaml", "sandbox_config:\n  normal:\n    deny_tools: [file_write]\n");
    for session in [&one, &other, &open(&up, "2025-11-25")] {
        assert_eq!(list(session), first, "as long as the server runs");
    }
}

#[test]
fn an_id_over_http_comes_back_as_it_was_written() {
    let fixture = Fixture::new();
    let up = Up::start(&fixture, &FREE);
    let session = open(&up, "2025-11-25");
    let token = bearer(&up.agent);
    let headers =
        [&*token, "content-type: application/json", "accept: application/json, text/event-stream", &session];
    for id in crate::functional::mcp::IDS {
        for (session, method) in [(true, "ping"), (true, "nothing/such"), (false, "ping")] {
            let message = format!(r#"{{"jsonrpc":"2.0","method":"{method}","id":{id}}}"#);
            let headers = if session { &headers[..] } else { &headers[..3] };
            let response = up.request("POST", "/mcp", headers, message.as_bytes());
            let named = format!(r#""id":{id},"#);
            assert!(response.body.contains(&named), "{id} {method}: {response:?}");
        }
    }
}
