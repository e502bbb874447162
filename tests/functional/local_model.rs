//! `handfast run` with a real model on this machine, behind the interface of chat completions.

use std::path::Path;

use llm::{ChatRequest, Delta, Message, Model, Part, Response, Role, ToolChoice, ToolDefinition};
use llm_local::LocalModel;
use serde_json::{Value, json};
use testkit::web::{Reply, Server};
use tool::Stop;

use super::agents::{answer, events};
use super::models::configure;
use crate::harness::Fixture;

const WEIGHTS: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../target/test-tools/model/SmolLM2-135M-Instruct/SmolLM2-135M-Instruct.Q4_1.gguf"
);

/// Returns the request of a client of chat completions, without the results of calls. Before the first result
/// the model must call a tool, and then it answers briefly: a model of this size knows no other end.
fn request(body: &Value) -> ChatRequest {
    let text = |message: &Value| message["content"].as_str().unwrap_or_default().to_owned();
    let messages = body["messages"].as_array().unwrap();
    let has_result = messages.iter().any(|message| message["role"] == "tool");
    let tools = body["tools"].as_array().unwrap().iter().map(|tool| ToolDefinition {
        name: tool["function"]["name"].as_str().unwrap().to_owned(),
        description: tool["function"]["description"].as_str().unwrap().to_owned(),
        schema: tool["function"]["parameters"].as_object().unwrap().clone(),
    });
    ChatRequest {
        messages: messages
            .iter()
            .filter(|message| message["role"] == "user")
            .map(|message| Message { role: Role::User, parts: vec![Part::Text(text(message))] })
            .collect(),
        tools: if has_result { Vec::new() } else { tools.collect() },
        tool_choice: if has_result { ToolChoice::Never } else { ToolChoice::Required },
        max_tokens: Some(if has_result { 12 } else { 120 }),
        ..ChatRequest::default()
    }
}

fn ask(model: &LocalModel, body: &[u8]) -> Response {
    let request = request(&serde_json::from_slice(body).unwrap());
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio.block_on(model.chat(&request, &mut |_: Delta<'_>| {}, &Stop::default())).unwrap()
}

#[test]
fn a_small_model_of_this_machine_makes_a_valid_call() {
    assert!(Path::new(WEIGHTS).exists(), "`cargo xtask test --step set-up` fetches {WEIGHTS}");
    let model = LocalModel::open(Path::new(WEIGHTS)).unwrap();
    let server = Server::http(move |seen| {
        let response = ask(&model, &seen.body);
        let calls: Vec<(String, Value)> =
            response.calls().map(|call| (call.name.clone(), Value::String(call.arguments.clone()))).collect();
        let calls: Vec<(&str, Value)> =
            calls.iter().map(|(name, arguments)| (name.as_str(), arguments.clone())).collect();
        let text = if calls.is_empty() { format!("Answer: {}", response.text()) } else { String::new() };
        Reply::clone(&answer(&text, &calls))
    });
    let agent = "---\ntools: [file_read]\nmax_steps: 4\n---\n";
    let fixture = Fixture::with_files(&[(".handfast/agents/small.md", agent), ("notes.txt", "Buy milk.\n")]);
    configure(&fixture, &server, "");
    let run = fixture.run(&["run", "--agent", "small", "--json", "Read the file notes.txt."]);
    let events = events(&run.stdout);
    let call = events.iter().find(|event| event["type"] == "call").expect("a call");
    assert_eq!(call["tool"], "file_read", "{call}");
    // The grammar of the schema holds the call, so whatever the path is, the arguments are no fault.
    let result = events.iter().find(|event| event["type"] == "result").unwrap();
    assert!(!result["text"].as_str().unwrap().starts_with("EVALIDATION"), "{call} {result}");
    assert_eq!(events.last().unwrap()["status"], json!("done"), "{} {}", run.stdout, run.stderr);
}
