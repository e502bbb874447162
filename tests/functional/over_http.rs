//! The official MCP client over HTTP, in both eras.

use std::process::Command;

use serde_json::{Value, json};

use crate::harness::{Fixture, python_with_mcp, repository};
use crate::http::Up;

/// Works with the official client. `called` is the number of audit rows of the write that is asked
/// about.
fn works(era: &str, called: usize) {
    let fixture = Fixture::with_files(&[("a.txt", "read over HTTP")]).asking();
    let up = Up::start(&fixture, &[]);
    let output = Command::new(python_with_mcp())
        .arg(repository().join("tests/functional/over_http.py"))
        .args([format!("http://{}/mcp", up.address), up.agent.clone(), era.to_owned()])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let seen: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(seen["tools"].as_array().unwrap().iter().any(|name| name == "shell_execute"), "{seen:#}");
    assert_eq!((&seen["read"], &seen["resource"]), (&json!("read over HTTP"), &json!("read over HTTP")));
    assert!(seen["prompts"].as_array().unwrap().contains(&json!("review_changes")), "{seen:#}");
    assert_eq!(
        seen["asked"],
        json!(["write b.txt? Asked because in mode smart_auto, calls of level moderate are asked about"])
    );
    assert_eq!((&seen["written"], fixture.read("b.txt").as_str()), (&json!(true), "written"));
    // A call of six seconds reports progress once, on the stream of its response.
    assert_eq!((&seen["progress"], &seen["ran"]), (&json!([5.0]), &json!("done\n")));
    let listed = fixture.run(&["audit", "list", "--tool", "file_write", "--json"]).stdout;
    let doors = listed.lines().filter(|line| line.contains("\"door\":\"mcp\"")).count();
    assert_eq!(doors, called, "{listed}");
}

#[test]
fn the_official_client_works_over_http_with_a_session() {
    works("legacy", 1);
}

#[test]
fn so_it_does_where_each_message_stands_for_itself() {
    // In this revision the question is the response to a first call, and the approved call is a
    // second one.
    works("auto", 2);
}
