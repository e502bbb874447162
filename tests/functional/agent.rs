//! An agent works through Handfast's own repository: with the official MCP client, and through
//! `handfast call`.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::harness::{Fixture, program, python_with_mcp, repository};

/// Builds a fixture whose workspace is a checkout of this repository's current files, and whose
/// home has the toolchain of this machine.
fn checkout() -> Fixture {
    let fixture = Fixture::new();
    // The test uses the tree on disk, committed or not, without build output.
    let listed = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(repository())
        .output()
        .unwrap();
    assert!(listed.status.success(), "the tests run in a git checkout");
    for path in listed.stdout.split(|byte| *byte == 0).filter(|path| !path.is_empty()) {
        let path = Path::new(std::str::from_utf8(path).unwrap());
        let source = repository().join(path);
        if !source.is_file() {
            continue;
        }
        let target = fixture.workspace().join(path);
        std::fs::create_dir_all(target.parent().unwrap()).unwrap();
        std::fs::copy(source, target).unwrap();
    }
    fixture.write(".env", "KEY=not-for-agents\n");
    fixture
}

fn home() -> String {
    std::env::home_dir().unwrap().into_os_string().into_string().unwrap()
}

#[test]
fn an_official_mcp_client_works_through_a_real_repository() {
    // In this revision a question is a request of the server, so each call is one call in the audit.
    work_through("legacy", checkout().asking(), &["check ok"]);
}

#[test]
fn so_it_does_in_the_era_without_a_handshake() {
    // In this revision the question is the response to a first call, and the approved call is a
    // second one.
    work_through("auto", checkout().asking(), &["check EAPPROVAL", "check ok"]);
}

#[test]
fn nobody_is_asked_about_what_can_be_undone() {
    work_through("legacy", checkout(), &["pass ok"]);
}

/// Works through the repository with the official client. `edited` lists the audit steps of each
/// edit and each command.
fn work_through(era: &str, fixture: Fixture, edited: &[&str]) {
    let output = Command::new(python_with_mcp())
        .arg(repository().join("tests/functional/agent.py"))
        .arg(program())
        .arg(fixture.workspace())
        .arg(fixture.state())
        .arg(home())
        .arg(era)
        .env("XDG_CONFIG_HOME", fixture.home().join(".config"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let seen: Value = serde_json::from_slice(&output.stdout).unwrap();

    assert!(seen["tools"].as_array().unwrap().iter().any(|name| name == "shell_execute"), "{seen:#}");
    assert!(seen["listed"].as_array().unwrap().iter().any(|name| name == "level.rs"), "{seen:#}");
    assert_eq!(seen["found"], "crates/tool/src/level.rs");
    assert_eq!(seen["range"].as_str().unwrap().lines().count(), 3);
    let diff = seen["diff"].as_str().unwrap();
    assert!(diff.contains("\n-            Level::Moderate => \"moderate\",\n"), "{diff}");
    assert!(seen["outdated"].as_str().unwrap().starts_with("ECONFLICT"), "{seen:#}");
    let failing = seen["failing"].as_str().unwrap();
    assert!(failing.contains("moderately") && failing.contains("1 failed"), "{failing}");
    assert!(failing.contains("\n[exit code 101]"), "{failing}");
    let passing = seen["passing"].as_str().unwrap();
    assert!(passing.contains("1 passed") && !passing.contains("[exit code"), "{passing}");
    assert_eq!(seen["denied"]["is_error"], true);
    assert!(seen["denied"]["text"].as_str().unwrap().starts_with("EPERMISSION"), "{seen:#}");
    // Two edits and two commands at most were asked about. Reads and an edit that only checks were not.
    let asks = edited != ["pass ok"];
    assert_eq!(seen["asked"].as_array().unwrap().len(), if asks { 4 } else { 0 }, "{seen:#}");
    assert_eq!(
        asks,
        seen["asked"][1].as_str().is_some_and(|question| question.contains("cargo test")),
        "{seen:#}"
    );

    let mut expected: Vec<String> =
        ["file_list", "file_search", "file_read", "file_read"].map(|tool| format!("{tool} pass ok")).to_vec();
    let of_an_edit = |tool: &str| edited.iter().map(|step| format!("{tool} {step}")).collect::<Vec<_>>();
    expected.extend(of_an_edit("file_edit"));
    expected.push("file_edit pass ECONFLICT".to_owned());
    for tool in ["shell_execute", "file_edit", "shell_execute"] {
        expected.extend(of_an_edit(tool));
    }
    expected.push("file_read deny EPERMISSION".to_owned());
    assert_eq!(steps(&fixture), expected);
    assert_eq!(fixture.run(&["audit", "verify"]).code, 0);
}

#[test]
fn the_same_calls_work_from_the_command_line() {
    let fixture = checkout();
    let call = |tool: &str, arguments: Value| {
        let mut command = fixture.command();
        command.env("HOME", home()).env("PATH", std::env::var_os("PATH").unwrap());
        command.args(["call", "--yes", tool, &arguments.to_string()]);
        let output = command.output().unwrap();
        let result: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(result["ok"], true, "{result:#}");
        result["data"].clone()
    };
    let found = call("file_search", json!({"pattern": "pub enum Level", "literal": true, "path": "crates"}));
    let path = found["matches"][0]["path"].as_str().unwrap().to_owned();
    assert_eq!(path, "crates/tool/src/level.rs");
    let right = call("file_read", json!({ "path": path }))["content"].as_str().unwrap().to_owned();
    call(
        "file_write",
        json!({ "path": path, "content": right.replace("pub enum Level", "pub enum Levels"), "backup": false }),
    );
    let command = json!({"command": "cargo check --package tool", "timeout": 900});
    let failing = call("shell_execute", command.clone());
    assert!(failing["stderr"].as_str().unwrap().contains("error[E"), "{failing:#}");
    call("file_write", json!({ "path": path, "content": right, "backup": false }));
    let passing = call("shell_execute", command);
    assert_eq!(passing["exit_code"], 0, "{passing:#}");
    assert_eq!(steps(&fixture).len(), 6);
    assert_eq!(fixture.run(&["audit", "verify"]).code, 0);
}

/// Returns the calls in the audit, the oldest first.
fn steps(fixture: &Fixture) -> Vec<String> {
    let listed = fixture.run(&["audit", "list", "--json"]).stdout;
    let mut steps: Vec<String> = listed
        .lines()
        .map(|line| {
            let call: Value = serde_json::from_str(line).unwrap();
            let text = |field: &str| call[field].as_str().unwrap_or("-").to_owned();
            format!("{} {} {}", text("tool"), text("decision"), text("outcome"))
        })
        .collect();
    steps.reverse();
    steps
}
