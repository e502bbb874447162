//! The same calls through every door: results and codes are the same.

use handfast::Runtime;
use serde_json::{Value, json};

use crate::harness::Fixture;
use crate::http::{Up, bearer};
use crate::server::Server;

/// What a door must not change: whether it worked, the data, and the error but for the hint, which says what to do there.
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

    /// From a result as plain HTTP and the command line give it.
    fn of_result(mut result: Value) -> Self {
        let data = result["data"].take();
        Self::of(result["ok"] == true, data, &result["error"])
    }

    /// From a result of MCP: the data stands beside the text, or in it.
    fn of_mcp(mut result: Value) -> Self {
        let texts: Vec<String> = result["content"]
            .as_array()
            .unwrap_or_else(|| panic!("no result: {result:#}"))
            .iter()
            .map(|block| block["text"].as_str().unwrap().to_owned())
            .collect();
        if result["isError"] == true {
            let data = texts.get(1).map(|text| serde_json::from_str(text).unwrap()).unwrap_or_default();
            return Self::of(false, data, &result["_meta"]["handfast/error"]);
        }
        let mut data = result["structuredContent"].take();
        if data.is_null() {
            data = serde_json::from_str(texts.last().unwrap()).unwrap();
            if let [text, _] = texts.as_slice() {
                data["content"] = text.as_str().into();
            }
        }
        Self::of(true, data, &Value::Null)
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

#[test]
fn every_door_gives_the_same_results_and_codes() {
    let fixture =
        Fixture::with_files(&[("a.txt", "one\ntwo\n"), ("src/b.rs", "fn two() {}\n"), (".env", "KEY=1\n")]);
    let up = Up::start(&fixture, &[]);
    let mut stdio = Server::start(&fixture, &[]);
    let library = Runtime::builder()
        .workspace(fixture.workspace())
        .state(fixture.state())
        .configuration(fixture.home().join(".config/handfast"))
        .build()
        .unwrap();
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello});
    let session = format!("mcp-session-id: {}", post(&up, &[], &hello).0.unwrap());
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
        let called = tokio.block_on(async { library.call(tool, arguments.clone()).await });
        let called = Plain::of_result(serde_json::to_value(&called).unwrap());
        assert_eq!(called, line, "the library: {tool} {arguments}");
        let http = Plain::of_result(up.call(tool, arguments.clone()));
        assert_eq!(http, line, "HTTP: {tool} {arguments}");
        let piped = Plain::of_mcp(stdio.call(tool, arguments.clone()));
        assert_eq!(piped, line, "MCP over stdio: {tool} {arguments}");
        let params = json!({"name": tool, "arguments": arguments});
        let message = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params});
        let within = Plain::of_mcp(post(&up, &[&session], &message).1["result"].take());
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
        let apart = Plain::of_mcp(post(&up, &headers, &message).1["result"].take());
        assert_eq!(apart, line, "MCP over HTTP without a session: {tool} {arguments}");
    }
    stdio.end();
}
