//! `handfast run` through the real program, with a scripted server of chat completions.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use testkit::web::{Reply, Request, Server};

use super::models::configure;
use crate::harness::Fixture;

/// Returns the answer of a server with chat completions: a text, then calls.
pub(crate) fn answer(text: &str, calls: &[(&str, Value)]) -> Reply {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let chunk = |choices: Value, usage: Value| {
        let chunk = json!({"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "small", "choices": choices, "usage": usage});
        format!("data: {chunk}\n\n")
    };
    let delta = |delta: Value, finish: Value| json!([{"index": 0, "delta": delta, "finish_reason": finish}]);
    let mut events = chunk(delta(json!({"role": "assistant", "content": text}), Value::Null), Value::Null);
    for (index, (name, arguments)) in calls.iter().enumerate() {
        let id = format!("call_{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let arguments = match arguments {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let call = json!({"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": arguments}});
        events += &chunk(delta(json!({"tool_calls": [call]}), Value::Null), Value::Null);
    }
    let finish = if calls.is_empty() { "stop" } else { "tool_calls" };
    events += &chunk(delta(json!({}), json!(finish)), Value::Null);
    events += &chunk(json!([]), json!({"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}));
    Reply::of(200, &[("content-type", "text/event-stream")], events + "data: [DONE]\n\n")
}

/// Starts a server that gives these answers in order, and the last one for ever.
pub(crate) fn script(answers: impl IntoIterator<Item = Reply>) -> Server {
    let answers: Vec<Reply> = answers.into_iter().collect();
    let next = AtomicUsize::new(0);
    Server::http(move |_| answers[next.fetch_add(1, Ordering::SeqCst).min(answers.len() - 1)].clone())
}

/// Returns the messages of a request.
pub(crate) fn messages(request: &Request) -> Vec<Value> {
    let body: Value = serde_json::from_slice(&request.body).unwrap();
    body["messages"].as_array().unwrap().clone()
}

/// Returns the events that a run printed.
pub(crate) fn events(printed: &str) -> Vec<Value> {
    printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn project() -> Fixture {
    Fixture::with_files(&[
        ("calc.py", "def add(a, b):\n    return a - b\n"),
        ("check.py", "import calc\nassert calc.add(2, 3) == 5, calc.add(2, 3)\nprint('passed')\n"),
        ("AGENTS.md", "Run `python3 check.py` before you answer.\n"),
    ])
}

// Without `-B`, Python takes the bytecode of a file that was changed within the same second.
const TEST: &str = "python3 -B check.py";
const PATCH: &str =
    "--- a/calc.py\n+++ b/calc.py\n@@ -1,2 +1,2 @@\n def add(a, b):\n-    return a - b\n+    return a + b\n";

#[test]
fn an_agent_fixes_a_failing_test_and_its_work_can_be_undone() {
    let server = script([
        answer(
            "I look.",
            &[("shell_execute", json!({"command": TEST})), ("file_read", json!({"path": "calc.py"}))],
        ),
        answer("", &[("file_patch", json!({"patch": PATCH}))]),
        answer("", &[("shell_execute", json!({"command": TEST}))]),
        answer("`add` subtracted. It adds now, and the check passes.", &[]),
    ]);
    let fixture = project();
    configure(&fixture, &server, "");
    let run = fixture.run(&["run", "Fix the failing check."]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(run.stdout, "`add` subtracted. It adds now, and the check passes.\n");
    assert!(run.stderr.contains("> file_patch") && run.stderr.contains("400 tokens in"), "{}", run.stderr);
    assert!(fixture.read("calc.py").contains("a + b"));
    let seen = server.seen();
    let last = messages(seen.last().unwrap());
    assert!(last[0]["content"].as_str().unwrap().contains("Run `python3 check.py` before"), "{}", last[0]);
    let results: Vec<&Value> = last.iter().filter(|message| message["role"] == "tool").collect();
    assert_eq!(results.len(), 4, "{last:#?}");
    assert!(results[0]["content"].as_str().unwrap().contains("AssertionError: -1"), "{}", results[0]);
    assert!(results[3]["content"].as_str().unwrap().starts_with("passed"), "{}", results[3]);
    // Requests and calls are rows of the audit, through the one way into a tool.
    let rows = fixture.recorded();
    let of_agent = rows.iter().filter(|row| row["door"] == "agent" && row["outcome"].is_string());
    let of_agent: Vec<&str> = of_agent.filter_map(|row| row["tool"].as_str()).collect();
    assert_eq!(of_agent.iter().filter(|tool| **tool == "model_turn").count(), 4, "{of_agent:?}");
    assert_eq!(of_agent.len(), 9, "the instructions of the project are a call too: {of_agent:?}");
    assert_eq!(fixture.run(&["undo", "--since", "1h"]).code, 0);
    assert!(fixture.read("calc.py").contains("a - b"));
}

#[test]
fn what_the_policy_denies_stays_denied_and_the_model_is_told_why() {
    let server = script([
        answer(
            "",
            &[("shell_execute", json!({"command": "rm -rf /"})), ("file_read", json!({"path": ".env"}))],
        ),
        answer("I could not.", &[]),
    ]);
    let fixture = Fixture::with_files(&[(".env", "KEY=abc\n")]);
    configure(&fixture, &server, "");
    let run = fixture.run(&["run", "--yes", "--json", "Remove everything."]);
    let events = events(&run.stdout);
    let results: Vec<&Value> = events.iter().filter(|event| event["type"] == "result").collect();
    assert!(
        results.iter().all(|result| result["text"].as_str().unwrap().starts_with("EPERMISSION: ")),
        "{results:#?}"
    );
    let end = events.last().unwrap();
    assert_eq!(
        (&end["status"], &end["text"], run.code),
        (&json!("done"), &json!("I could not."), 0),
        "{end}"
    );
    // The call that asks the model is found and made by nobody else.
    let direct = fixture.run(&["call", "model_turn", r#"{"turn": "x", "task_type": "coding"}"#]).json();
    assert_eq!(direct["error"]["code"], "ENOTFOUND", "{direct}");
    let through = fixture
        .run(&[
            "call",
            "tool_call",
            r#"{"name": "model_turn", "arguments": {"turn": "x", "task_type": "coding"}}"#,
        ])
        .json();
    assert_eq!(through["error"]["code"], "ENOTFOUND", "{through}");
    assert!(!fixture.run(&["tools", "--json"]).stdout.contains("model_turn"));
    assert_eq!(server.seen().len(), 2);
}

#[test]
fn nonsense_of_a_model_ends_in_bounded_time() {
    let endless = |number: &AtomicUsize| {
        let number = number.fetch_add(1, Ordering::SeqCst);
        answer("", &[("file_list", json!({"path": ".", "limit": number % 50 + 1}))])
    };
    let number = AtomicUsize::new(0);
    let server = Server::http(move |_| endless(&number));
    let fixture = Fixture::with_files(&[("a.txt", "")]);
    configure(&fixture, &server, "");
    let run = fixture.run(&["run", "--max-steps", "5", "Go on."]);
    assert!(run.code == 1 && run.stderr.contains("asked 5 times without an end"), "{}", run.stderr);
    for (reply, told) in [
        (answer("", &[("no_such_tool", json!({})), ("file_read", json!("{\"path\": "))]), "cannot be made"),
        (answer("", &[]), "answered nothing"),
        (Reply::of(401, &[], r#"{"error": {"message": "wrong key"}}"#), "EPERMISSION: "),
        (
            Reply::of(200, &[("content-type", "text/event-stream")], "data: {\"choices\": 7}\n\n"),
            "ERUNTIME: ",
        ),
        (Reply::of(200, &[("content-type", "text/event-stream")], "data: {\"id\": \"c\"}\n\n"), "ERUNTIME: "),
    ] {
        let server = script([reply]);
        let fixture = Fixture::new();
        configure(&fixture, &server, "");
        let run = fixture.run(&["run", "Go on."]);
        assert!(run.code == 1 && run.stderr.contains(told), "{told}: {}", run.stderr);
    }
}

#[test]
fn an_agent_is_a_file_with_its_own_tools_model_profile_and_instructions() {
    let server =
        script([answer("", &[("file_write", json!({"path": "a", "content": ""}))]), answer("ok", &[])]);
    let fixture = Fixture::with_files(&[(
        ".handfast/agents/reader.md",
        "---\ndescription: Reads.\nmodel: local/other\ntools: [file_read, file_write]\nprofile: closed\n---\nRead slowly.\n",
    )]);
    configure(&fixture, &server, "");
    fixture.write(
        "handfast.yaml",
        "sandbox_config: {closed: {allowed_hosts: [localhost], deny_write_paths: [\"**\"]}}\n",
    );
    assert_eq!(fixture.run(&["trust"]).code, 0);
    let run = fixture.run(&["run", "--agent", "reader", "--json", "Read."]);
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
    let result = events(&run.stdout).into_iter().find(|event| event["type"] == "result").unwrap();
    assert!(result["text"].as_str().unwrap().starts_with("EPERMISSION: "), "{result}");
    assert!(!fixture.workspace().join("a").exists());
    let body: Value = serde_json::from_slice(&server.seen()[0].body).unwrap();
    assert_eq!((body["model"].as_str(), body["tools"].as_array().unwrap().len()), (Some("other"), 2));
    assert!(
        body["messages"][0]["content"].as_str().unwrap().ends_with("Read slowly."),
        "{}",
        body["messages"][0]
    );
    for (file, told) in [
        ("---\ntools: [file_raed]\n---\n", "did you mean `file_read`"),
        ("---\nprofile: missing\n---\n", "missing"),
        ("---\ncolour: red\n---\n", "colour"),
    ] {
        fixture.write(".handfast/agents/reader.md", file);
        let run = fixture.run(&["run", "--agent", "reader", "Read."]);
        assert!(run.code == 2 && run.stderr.contains(told), "{file}: {}", run.stderr);
    }
    let missing = fixture.run(&["run", "--agent", "raeder", "Read."]);
    assert!(missing.code == 2 && missing.stderr.contains("did you mean `reader`"), "{}", missing.stderr);
    assert_eq!(fixture.run(&["run", " "]).code, 2);
}

#[test]
fn without_a_model_the_run_says_what_to_configure() {
    let fixture = Fixture::new();
    let run = fixture.run(&["run", "Go on."]);
    assert!(run.code == 2 && run.stderr.contains("docs/MODELS.md"), "{} {}", run.code, run.stderr);
}

#[test]
fn a_run_goes_on_where_an_earlier_one_ended_and_one_that_runs_is_left_alone() {
    let server = script([
        answer("", &[("file_write", json!({"path": "a", "content": "one"}))]),
        answer("First.", &[]),
        answer("Second.", &[]),
        Reply::hanging("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"),
    ]);
    let fixture = Fixture::new();
    configure(&fixture, &server, "");
    let none = fixture.run(&["run", "--continue", "And?"]);
    assert!(none.code == 2 && none.stderr.contains("no earlier run"), "{}", none.stderr);
    assert_eq!(fixture.run(&["run", "Write a."]).stdout, "First.\n");
    assert_eq!(fixture.run(&["run", "--continue", "And then?"]).stdout, "Second.\n");
    let last = messages(&server.seen()[2]);
    let texts: Vec<&str> = last.iter().skip(1).filter_map(|message| message["content"].as_str()).collect();
    assert_eq!((texts[0], texts.last().copied()), ("Write a.", Some("And then?")), "{last:#?}");
    assert!(texts.contains(&"First."), "{texts:?}");
    // A run that is killed holds its conversation until its lease ends, and loses nothing of it.
    let mut command = fixture.command();
    command.args(["run", "--continue", "Wait."]);
    let mut killed =
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().unwrap();
    crate::harness::eventually("the request", || server.seen().len() == 4);
    let other = fixture.run(&["run", "--continue", "And me?"]);
    assert!(other.code == 1 && other.stderr.contains("runs the agent"), "{}", other.stderr);
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert_eq!(messages(&server.seen()[3]).last().unwrap()["content"], "Wait.");
}

#[test]
fn ctrl_c_stops_a_run_and_its_request() {
    let server = script([Reply::hanging("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")]);
    let fixture = Fixture::new();
    configure(&fixture, &server, "");
    let mut command = fixture.command();
    command.args(["run", "Wait."]).stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let child = command.spawn().unwrap();
    crate::harness::eventually("the request", || !server.seen().is_empty());
    let id = nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap());
    nix::sys::signal::kill(id, nix::sys::signal::Signal::SIGINT).unwrap();
    let output = child.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(130) && told.contains("stopped"), "{:?} {told}", output.status);
}
