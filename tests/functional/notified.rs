//! Notices of a question that waits: by the user's own command, and on the terminal of `up`.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::harness::{Fixture, eventually};
use crate::http::Up;

#[test]
fn the_users_command_gets_each_new_question_once() {
    let fixture = Fixture::new().asking();
    let told = fixture.outside().join("told");
    let notify = format!("cat > {0}.new && mv {0}.new {0}", told.display());
    fixture.configure(&format!("approvals:\n  notify: {}\n", json!(notify)));
    let asked = fixture.run(&["call", "file_write", r#"{"path": "a.txt", "content": "one"}"#]).json();
    let id = asked["error"]["approval_id"].as_str().unwrap();
    eventually("the command has run", || told.exists());
    let question: Value = serde_json::from_str(&std::fs::read_to_string(&told).unwrap()).unwrap();
    assert_eq!((&question["id"], &question["headline"]), (&json!(id), &json!("write a.txt")));
    assert_eq!(question["workspace"], fixture.workspace().to_str().unwrap());
    assert!(question["preview"].as_str().unwrap().contains("+one"), "{question:#}");
    assert!(question["show"].as_str().unwrap().contains(&format!("approvals show {id}")));
    // A question that is asked again is not told again.
    std::fs::remove_file(&told).unwrap();
    fixture.run(&["call", "file_write", r#"{"path": "a.txt", "content": "one"}"#]);
    fixture.run(&["call", "file_write", r#"{"path": "b.txt", "content": "two"}"#]);
    eventually("the command has run", || told.exists());
    assert!(std::fs::read_to_string(&told).unwrap().contains("write b.txt"));
    assert_eq!(fixture.run(&["approvals", "list", "--json"]).json().as_array().unwrap().len(), 2);
}

#[test]
fn a_workspaces_file_names_no_command_and_a_failing_one_stops_no_call() {
    let fixture = Fixture::new().asking();
    let told = fixture.outside().join("told");
    let notify = json!(format!("touch {}", told.display()));
    fixture.write("handfast.yaml", &format!("approvals:\n  notify: {notify}\n"));
    fixture.run(&["trust"]);
    let write = ["call", "file_write", r#"{"path": "a.txt", "content": "one"}"#];
    let ignored = fixture.run(&write);
    assert!(ignored.stderr.contains("approvals"), "{}", ignored.stderr);
    assert_eq!(ignored.json()["error"]["code"], "EAPPROVAL");
    fixture.configure("approvals:\n  notify: exit 7\n");
    let failed = fixture.run(&["call", "file_write", r#"{"path": "b.txt", "content": "one"}"#]);
    assert_eq!(failed.json()["error"]["code"], "EAPPROVAL");
    assert!(!told.exists());
}

#[test]
fn a_command_that_does_not_end_is_killed_also_where_its_call_has_ended() {
    let fixture = Fixture::new().asking();
    let process = fixture.outside().join("process");
    fixture.configure(&format!(
        "approvals:\n  notify: {}\n",
        json!(format!("echo $$ > {}; exec yes", process.display()))
    ));
    let run = fixture.run(&["call", "file_write", r#"{"path": "a.txt", "content": "one"}"#]);
    assert_eq!(run.json()["error"]["code"], "EAPPROVAL");
    assert!(run.stderr.contains("was killed after 10 seconds"), "{}", run.stderr);
    let process = std::fs::read_to_string(&process).unwrap();
    assert!(!std::path::Path::new("/proc").join(process.trim()).exists());
}

#[test]
fn up_says_on_its_terminal_that_a_question_waits() {
    let fixture = Fixture::new().asking();
    let mut command = fixture.command();
    command.args(["up", "--listen", "127.0.0.1:0", "--json"]).stderr(Stdio::piped());
    let mut up = Up::of(command);
    let body = json!({"tool": "file_write", "arguments": {"path": "a.txt", "content": "x"}}).to_string();
    let token = format!("authorization: Bearer {}", up.agent);
    let response =
        up.request("POST", "/v1/call", &[&token, "content-type: application/json"], body.as_bytes());
    assert_eq!(response.json()["error"]["code"], "EAPPROVAL");
    let id = response.json()["error"]["approval_id"].as_str().unwrap().to_owned();
    let lines = BufReader::new(up.errors()).lines().map(Result::unwrap);
    let line = { lines }.find(|line| line.contains("a question waits")).unwrap();
    assert!(line.contains("write a.txt") && line.contains(&format!("approvals show {id}")), "{line}");
}
