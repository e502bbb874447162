//! Calls through every door: results and codes are the same.

use serde_json::{Value, json};

use crate::harness::Fixture;
use crate::http::{Up, bearer};
use crate::server::Server;
use crate::shown::{data_of, error_of, of_command};
use crate::specialist::{Answer, Specialist, answers, request, text};

/// The parts of a result that are the same through every door: success, data, and the error. The
/// hint is left out, because it names the next step at its door.
#[derive(Debug, PartialEq)]
struct Plain {
    ok: bool,
    data: Value,
    error: [Value; 4],
}

impl Plain {
    fn of(ok: bool, data: Value, error: &Value) -> Self {
        Self { ok, data, error: ["code", "message", "effect", "retry"].map(|field| error[field].clone()) }
    }

    /// Converts a result of plain HTTP or of the command line.
    fn of_result(mut result: Value) -> Self {
        let data = result["data"].take();
        Self::of(result["ok"] == true, data, &result["error"])
    }

    /// Converts a result of MCP, whose text contains the data of the other doors.
    fn of_mcp(tool: &str, result: &Value) -> Self {
        if result["isError"] != true {
            return Self::of(true, data_of(tool, result), &Value::Null);
        }
        let data = result["content"].get(1).map(|block| block["text"].as_str().unwrap());
        let data =
            data.map(|text| if tool == "shell_execute" { of_command(text) } else { text.parse().unwrap() });
        Self::of(false, data.unwrap_or_default(), &error_of(result))
    }

    /// Leaves out the values that MCP does not show: false and null fields, and the exit code of a
    /// command that did not end.
    fn shown_over_mcp(mut self, tool: &str) -> Self {
        if let Some(fields) = self.data.as_object_mut() {
            fields.retain(|_, value| !value.is_null() && *value != false);
            let killed = tool == "shell_execute" && self.error[0] != Value::Null;
            fields.retain(|name, _| !(killed && ["exit_code", "timed_out"].contains(&name.as_str())));
        }
        self
    }
}

fn post(up: &Up, headers: &[&str], message: &Value) -> (Option<String>, Value) {
    let token = bearer(&up.agent);
    let mut all =
        vec![token.as_str(), "content-type: application/json", "accept: application/json, text/event-stream"];
    all.extend(headers);
    let response = up.request("POST", "/mcp", &all, message.to_string().as_bytes());
    let message = match response.header("content-type") {
        Some("text/event-stream") => response.events().pop().unwrap().1,
        _ => response.json(),
    };
    (response.header("mcp-session-id").map(str::to_owned), message)
}

/// Returns the message that begins a session.
fn hello() -> Value {
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
}

#[test]
fn every_door_gives_the_same_results_and_codes() {
    let fixture =
        Fixture::with_files(&[("a.txt", "one\ntwo\n"), ("src/b.rs", "fn two() {}\n"), (".env", "KEY=1\n")]);
    let up = Up::start(&fixture, &[]);
    let mut stdio = Server::start(&fixture, &[]);
    let library = fixture.library();
    let session = format!("mcp-session-id: {}", post(&up, &[], &hello()).0.unwrap());
    for (tool, arguments, outcome) in [
        ("file_read", json!({"path": "a.txt"}), "ok"),
        ("file_list", json!({"path": "src"}), "ok"),
        ("file_search", json!({"path": ".", "pattern": "two"}), "ok"),
        ("file_read", json!({"path": "nowhere"}), "ENOTFOUND"),
        ("file_read", json!({"path": "a.txt", "colour": 1}), "EVALIDATION"),
        ("file_read", json!({}), "EVALIDATION"),
        ("file_read", json!({"path": ".env"}), "EPERMISSION"),
        ("file_read", json!({"path": "/opt/nothing"}), "EAPPROVAL"),
        ("file_write", json!({"path": ".envrc", "content": "x"}), "EAPPROVAL"),
        ("shell_execute", json!({"command": "echo hello; echo no >&2; exit 3"}), "ok"),
        ("shell_execute", json!({"command": "echo begun; sleep 100", "timeout": 1}), "ETIMEOUT"),
        ("shell_execute", json!({"command": "rm -rf /"}), "EPERMISSION"),
        ("shell_execute", json!({"command": ""}), "EVALIDATION"),
        ("output_read", json!({"output_ref": "nothing"}), "ENOTFOUND"),
    ] {
        let line = Plain::of_result(fixture.run(&["call", tool, &arguments.to_string()]).json());
        let code = line.error[0].as_str().unwrap_or("ok");
        assert_eq!(code, outcome, "{tool} {arguments}: {line:#?}");
        let called = Plain::of_result(library.call(tool, arguments.clone()));
        assert_eq!(called, line, "the library: {tool} {arguments}");
        let http = Plain::of_result(up.call(tool, arguments.clone()));
        assert_eq!(http, line, "HTTP: {tool} {arguments}");
        let line = line.shown_over_mcp(tool);
        let piped = Plain::of_mcp(tool, &stdio.call(tool, arguments.clone())).shown_over_mcp(tool);
        assert_eq!(piped, line, "MCP over stdio: {tool} {arguments}");
        let params = json!({"name": tool, "arguments": arguments});
        let message = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params});
        let within = Plain::of_mcp(tool, &post(&up, &[&session], &message).1["result"]).shown_over_mcp(tool);
        assert_eq!(within, line, "MCP over HTTP with a session: {tool} {arguments}");
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let params = json!({"_meta": meta, "name": tool, "arguments": arguments});
        let message = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params});
        let name = format!("mcp-name: {tool}");
        let headers = ["mcp-protocol-version: 2026-07-28", "mcp-method: tools/call", &name];
        let apart = Plain::of_mcp(tool, &post(&up, &headers, &message).1["result"]).shown_over_mcp(tool);
        assert_eq!(apart, line, "MCP over HTTP without a session: {tool} {arguments}");
    }
    stdio.end();
}

/// A tool, its arguments, and the expected code.
type Called = (&'static str, Value, &'static str);

/// Returns calls of each dialect with their expected codes: a call that works, a command that fails
/// (if the dialect has one), and a refused call.
fn calls_of_dialects() -> [(&'static str, Vec<Called>); 5] {
    let failing = "echo hello; echo no >&2; exit 3";
    [
        (
            "elophanto",
            vec![
                ("file_read", json!({"path": "a.txt"}), "ok"),
                ("shell_execute", json!({"command": failing}), "ok"),
                ("shell_execute", json!({"command": "rm -rf /"}), "EAPPROVAL"),
            ],
        ),
        (
            "sluagh",
            vec![
                ("run_command", json!({"command": "cat", "args": ["a.txt"]}), "ok"),
                ("run_command", json!({"command": "sh", "args": ["-c", failing]}), "ok"),
                ("run_command", json!({"command": "ls", "args": [], "env": {"PATH": "/"}}), "EVALIDATION"),
            ],
        ),
        (
            "msc",
            vec![
                ("list_files", json!({"path": "src"}), "ok"),
                ("execute", json!({"command": failing}), "ok"),
                ("apply_diff", json!({"path": "a.txt", "diff": "@@ -1 +1 @@\n-1\n+2\n"}), "ECONFLICT"),
            ],
        ),
        (
            "sage",
            vec![
                ("Read", json!({"file": "a.txt"}), "ok"),
                ("Bash", json!({"command": failing}), "ok"),
                ("Read", json!({"file": ".sage/key"}), "EPERMISSION"),
            ],
        ),
        (
            "csp1",
            vec![
                ("exec", json!({"COMMAND": "cat a.txt"}), "ok"),
                ("exec", json!({"COMMAND": failing}), "ok"),
                ("exec", json!({"COMMAND": "rm -rf /home/x"}), "EPERMISSION"),
            ],
        ),
    ]
}

/// Removes the duration and the reference to the log from the data: no two calls share these. Not
/// every dialect has a duration; a duration is a number.
fn without_time(mut plain: Plain) -> Plain {
    if let Some(log) = plain.data.as_object_mut().and_then(|data| data.remove("log_ref")) {
        assert!(log.as_str().is_some_and(|log| log.starts_with("memory/exec-logs/")), "{log}");
    }
    for time in ["duration", "exec_time"] {
        if let Some(taken) = plain.data.as_object_mut().and_then(|data| data.remove(time)) {
            assert!(taken.is_u64(), "{time}: {taken}");
        }
    }
    plain
}

#[test]
fn every_dialect_gives_the_same_over_http_as_on_the_command_line() {
    for (dialect, calls) in calls_of_dialects() {
        let fixture = Fixture::with_files(&[("a.txt", "one\n"), ("src/b.rs", ""), (".sage/key", "x")]);
        let options = ["--dialect", dialect, "--mode", "full_auto"];
        let up = Up::start(&fixture, &options);
        let session = format!("mcp-session-id: {}", post(&up, &[], &hello()).0.unwrap());
        for (tool, arguments, outcome) in calls {
            let given = arguments.to_string();
            let line = fixture.run(&[&options[..], &["call", tool, &given]].concat()).json();
            let line = without_time(Plain::of_result(line));
            let code = line.error[0].as_str().unwrap_or("ok");
            assert_eq!(code, outcome, "{dialect} {tool} {arguments}: {line:#?}");
            let http = without_time(Plain::of_result(up.call(tool, arguments.clone())));
            assert_eq!(http, line, "/v1/call: {dialect} {tool} {arguments}");
            let params = json!({"name": tool, "arguments": arguments});
            let message = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params});
            let answer = post(&up, &[&session], &message).1["result"].take();
            // SAGE's responses have the same form over MCP as everywhere else.
            let mcp = match dialect {
                "sage" => Plain::of_result(answer["content"][0]["text"].as_str().unwrap().parse().unwrap()),
                _ => Plain::of_mcp(tool, &answer),
            };
            assert_eq!(without_time(mcp), line, "/mcp: {dialect} {tool} {arguments}");
        }
    }
}

/// Translates a CSP/1 answer about a command into the fields of a result.
fn of_csp(answer: &Answer) -> [Value; 4] {
    let code = match answer.get("ERROR").map_or("", |error| error.split(':').next().unwrap()) {
        "timeout_exceeded" => "ETIMEOUT",
        "permission_denied" => "EPERMISSION",
        "" | "command_failed" => "ok",
        other => panic!("{other}: {answer:?}"),
    };
    assert_eq!(answer["STATUS"] == "OK", answer["DATA"] == "exit:0", "{answer:?}");
    let exit = serde_json::from_str(answer["DATA"].strip_prefix("exit:").unwrap()).unwrap();
    let printed = |key: &str| answer.get(key).map_or(Value::Null, |summary| text(summary).into());
    [code.into(), exit, printed("STDOUT_SUMMARY"), printed("STDERR_SUMMARY")]
}

#[test]
fn csp_says_of_a_command_what_the_other_doors_say() {
    let fixture = Fixture::new();
    let options = ["--dialect", "csp1", "--mode", "full_auto"];
    let up = Up::start(&fixture, &options);
    let mut specialist = Specialist::start(&fixture, &options);
    for (command, outcome, exit) in [
        ("echo hello", "ok", json!(0)),
        ("echo hello; echo no >&2; exit 3", "ok", json!(3)),
        ("echo begun; sleep 100", "ETIMEOUT", Value::Null),
        ("rm -rf /home/x", "EPERMISSION", json!(126)),
    ] {
        let arguments = json!({"COMMAND": command, "TIMEOUT_MS": 900}).to_string();
        let line =
            Plain::of_result(fixture.run(&[&options[..], &["call", "exec", &arguments]].concat()).json());
        let code = line.error[0].as_str().unwrap_or("ok");
        assert_eq!(code, outcome, "{command}: {line:#?}");
        if line.ok {
            assert_eq!(line.data["exit_code"], exit, "{command}");
        }
        let printed =
            |field: &str| line.data[field].as_str().map_or(Value::Null, |all| all.trim_end().into());
        let expected = [json!(outcome), exit, printed("stdout"), printed("stderr")];
        let piped = specialist.run(command, "TIMEOUT_MS 900\n");
        assert_eq!(of_csp(&piped), expected, "handfast csp: {command}: {piped:?}");
        let body = request(command, "TIMEOUT_MS 900\n");
        let response = up.request("POST", "/v1/csp", &[&bearer(&up.agent)], body.as_bytes());
        let posted = answers(&response.body).pop().unwrap_or_else(|| panic!("{response:?}"));
        assert_eq!(of_csp(&posted), expected, "/v1/csp: {command}: {posted:?}");
    }
    assert_eq!(specialist.end(), Some(0));
}
