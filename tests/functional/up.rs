//! `handfast up` and plain HTTP, through the real program.

use std::io::Write;
use std::process::Stdio;

use serde_json::json;

use crate::harness::Fixture;
use crate::http::{Up, bearer, read};

const FREE: [&str; 2] = ["--mode", "full_auto"];

#[test]
fn the_list_and_the_decisions_are_those_of_the_command_line() {
    let fixture = Fixture::new();
    let up = Up::start(&fixture, &[]);
    for (arguments, decision) in
        [(json!({"command": "rm -rf /"}), "deny"), (json!({"command": "ls"}), "pass")]
    {
        let here =
            up.post(&up.agent, "/v1/check", &json!({"tool": "shell_execute", "arguments": arguments})).json();
        let there = fixture.run(&["check", "shell_execute", &arguments.to_string()]).json();
        assert_eq!(here, there);
        assert_eq!(here["decision"], decision);
    }
    let unknown = up.post(&up.agent, "/v1/check", &json!({"tool": "shell_exekute"}));
    assert_eq!((unknown.status, &unknown.json()["error"]["code"]), (404, &json!("ENOTFOUND")));
    assert_eq!(up.get(&up.user, "/v1/tools").json(), fixture.run(&["tools", "--json"]).json());
}

#[test]
fn a_call_over_http_is_in_the_audit_with_its_door_and_so_is_a_malformed_one() {
    let fixture = Fixture::with_files(&[("a.txt", "a")]);
    let up = Up::start(&fixture, &FREE);
    let result = up.call("shell_execute", json!({"command": "echo hello"}));
    assert_eq!(result["data"]["stdout"], "hello\n", "{result:#}");
    let malformed = up.request("POST", "/v1/call", &[&bearer(&up.agent)], b"{\"tool\": ");
    assert_eq!(malformed.status, 400);
    assert_eq!(malformed.json()["error"]["code"], "EVALIDATION");
    let ids =
        [&result, &malformed.json()].map(|result| result["meta"]["call_id"].as_str().unwrap().to_owned());
    assert_eq!(up.end(), Some(128 + 15));
    for (id, outcome) in ids.iter().zip(["ok", "EVALIDATION"]) {
        let rows = fixture.run(&["audit", "show", id, "--json"]).json();
        let last = rows.as_array().unwrap().last().unwrap().clone();
        assert_eq!((&last["door"], &last["outcome"]), (&json!("http"), &json!(outcome)), "{rows:#}");
    }
}

#[test]
fn progress_and_the_result_come_as_events_where_they_are_asked_for() {
    let fixture = Fixture::new().asking();
    let up = Up::start(&fixture, &[]);
    let body = json!({"tool": "file_write", "arguments": {"path": "b.txt", "content": "b"}}).to_string();
    let headers = [bearer(&up.agent), "accept: text/event-stream".to_owned()];
    let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
    let response = up.request("POST", "/v1/call", &headers, body.as_bytes());
    assert_eq!(response.header("content-type"), Some("text/event-stream"));
    let events = response.events();
    let names: Vec<&str> = events.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["approval", "result"], "{events:#?}");
    assert_eq!(events[1].1["error"]["code"], "EAPPROVAL");
    assert_eq!(events[0].1["approval_id"], events[1].1["error"]["approval_id"]);
}

#[test]
fn the_tokens_stay_and_health_needs_none() {
    let fixture = Fixture::new();
    let up = Up::start(&fixture, &[]);
    let tokens = (up.agent.clone(), up.user.clone());
    let health = up.request("GET", "/healthz", &[], b"");
    assert_eq!((health.status, health.json()["status"].as_str()), (200, Some("ok")));
    assert_eq!(up.request("GET", "/readyz", &[], b"").status, 200);
    assert_eq!(up.end(), Some(128 + 15));
    let again = Up::start(&fixture, &[]);
    assert_eq!((again.agent.clone(), again.user.clone()), tokens);
}

#[test]
fn a_listener_that_others_reach_is_refused_without_a_token_and_an_address_in_use_is_named() {
    let fixture = Fixture::new();
    let refused = fixture.run(&["up", "--listen", "0.0.0.0:0", "--no-token"]);
    assert_eq!(refused.code, 2);
    assert!(
        refused.stderr.contains("without a token") && refused.stderr.contains("0.0.0.0:0"),
        "{}",
        refused.stderr
    );
    let up = Up::with(&fixture, &[], &["--no-token"]);
    let address = up.address.to_string();
    let list = json!({"tool": "file_list", "arguments": {"path": "."}}).to_string();
    assert_eq!(up.request("POST", "/v1/call", &[], list.as_bytes()).json()["ok"], true);
    let taken = fixture.run(&["up", "--listen", &address]);
    assert_eq!(taken.code, 1);
    assert!(taken.stderr.contains(&address) && taken.stderr.contains("in use"), "{}", taken.stderr);
    // The state folder identifies the running server, and the error explains the next step.
    assert!(taken.stderr.contains("already serves this folder there"), "{}", taken.stderr);
    let elsewhere = fixture.outside().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let other = |state: &std::path::Path| {
        let output = std::process::Command::new(crate::harness::program())
            .args(["--workspace".as_ref(), elsewhere.as_os_str(), "--state".as_ref(), state.as_os_str()])
            .args(["up", "--listen", &address])
            .env("HOME", fixture.home())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let told = other(&fixture.state());
    let serves = format!("serves {} there", fixture.workspace().canonicalize().unwrap().display());
    assert!(told.contains("`handfast up` (process ") && told.contains(&serves), "{told}");
    let unknown = other(&fixture.outside().join("other-state"));
    assert!(unknown.contains("another program") && unknown.contains("--listen 127.0.0.1:0"), "{unknown}");
    drop(up);
    let again = Up::with(&fixture, &[], &["--no-token"]);
    assert!(again.address.port() > 0, "what a killed server has left stands in nobody's way");
}

#[test]
fn the_lines_for_codex_let_it_call_what_changes_something() {
    let fixture = Fixture::new();
    let mut command = fixture.command();
    let mut child = command.args(["up", "--listen", "localhost:0"]).stdout(Stdio::piped()).spawn().unwrap();
    let lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    let shown: Vec<String> =
        lines.map_while(Result::ok).take_while(|line| !line.starts_with("by hand")).collect();
    child.kill().unwrap();
    child.wait().unwrap();
    let from = shown.iter().position(|line| line.starts_with("Codex")).unwrap();
    let codex: Vec<&str> = shown[from + 1..].iter().map_while(|line| line.strip_prefix("    ")).collect();
    assert_eq!(codex.first(), Some(&"[mcp_servers.handfast]"));
    assert!(codex.contains(&"default_tools_approval_mode = \"approve\""), "{codex:#?}");
}

#[test]
fn people_are_told_where_it_is_and_what_to_send() {
    let fixture = Fixture::new();
    let mut command = fixture.command();
    let mut child = command.args(["up", "--listen", "127.0.0.1:0"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    let first = lines.next().unwrap().unwrap();
    assert!(first.contains("http://127.0.0.1:"), "{first}");
    let second = lines.next().unwrap().unwrap();
    assert!(second.contains("hf_agent_"), "{second}");
    child.kill().unwrap();
    child.wait().unwrap();
    let rest: String = lines.map_while(Result::ok).collect();
    let user = std::fs::read_to_string(fixture.state().join("http/user.key")).unwrap();
    assert!(
        !rest.contains(user.trim()),
        "the user's token is not shown where an agent's configuration is copied from"
    );
}

#[test]
fn a_polite_kill_lets_a_call_end_and_takes_no_further() {
    let fixture = Fixture::new();
    let up = Up::with(&fixture, &FREE, &["--drain", "1s"]);
    let mut stream = up.connect();
    let body = json!({"tool": "shell_execute",
        "arguments": {"command": "exec sleep 1000"}})
    .to_string();
    let token = bearer(&up.agent);
    write!(
        stream,
        "POST /v1/call HTTP/1.1\r\nhost: {}\r\n{token}\r\ncontent-length: {}\r\n\r\n{body}",
        up.address,
        body.len()
    )
    .unwrap();
    while !fixture.run(&["audit", "list", "--json"]).stdout.contains("shell_execute") {}
    up.signal("TERM");
    while std::net::TcpStream::connect(up.address).is_ok() {}
    let response = read(stream);
    // The shutdown timeout passes, and the call is cancelled and answered.
    assert_eq!(response.json()["error"]["code"], "ECANCELLED", "{response:?}");
    let id = response.json()["meta"]["call_id"].as_str().unwrap().to_owned();
    drop(up);
    let rows = fixture.run(&["audit", "show", &id, "--json"]).json();
    assert_eq!(rows.as_array().unwrap().last().unwrap()["outcome"], "ECANCELLED");
}

/// Returns the `curl` line that `handfast up` prints with these options.
fn printed_request(fixture: &Fixture, options: &[&str]) -> String {
    let mut command = fixture.command();
    command.args(options).args(["up", "--listen", "127.0.0.1:0"]);
    let mut child =
        command.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    let curl = lines.find_map(|line| line.ok().filter(|line| line.contains("curl "))).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    curl
}

#[test]
fn the_call_that_is_printed_exists_in_the_dialect() {
    for dialect in ["handfast", "elophanto", "sluagh", "msc", "sage", "csp1"] {
        let fixture = Fixture::new();
        let curl = printed_request(&fixture, &["--dialect", dialect]);
        let body = curl.split("-d '").nth(1).unwrap().trim_end_matches('\'');
        let call: serde_json::Value = serde_json::from_str(body).unwrap();
        let arguments = call["arguments"].to_string();
        let tool = call["tool"].as_str().unwrap();
        let answer = fixture.run(&["--dialect", dialect, "call", "--yes", tool, &arguments]).json();
        assert_eq!(answer["ok"], true, "{dialect}: {curl}: {answer:#}");
        // A server that only reads may lack the tool of that call.
        let read_only = ["--read-only", "--dialect", dialect];
        let curl = printed_request(&fixture, &read_only);
        let tools = fixture.run(&[&read_only[..], &["tools", "--json"]].concat()).json();
        let is_served = tools.as_array().unwrap().iter().any(|served| served["name"] == tool);
        let expected = if is_served { "/v1/call" } else { "/v1/tools" };
        assert!(curl.contains(expected), "{dialect}: {curl}");
    }
}
