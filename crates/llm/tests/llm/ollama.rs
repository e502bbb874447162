//! Chat of Ollama.

use llm::{ChatRequest, Effort, Finish, ModelError, ToolChoice, Usage, WireFormat, known};
use serde_json::{Value, json};

use crate::server::{Clock, Reply, Server, answer, ask, question, stream, unchecked};
use crate::streams::{self, conversation, parts};

const WIRE: WireFormat = WireFormat::Ollama;

fn ended(reason: &str) -> Reply {
    Reply::bytes(stream(
        WIRE,
        &[json!({"model": "qwen3", "message": {"role": "assistant", "content": "x"}, "done": true,
                 "done_reason": reason, "prompt_eval_count": 9, "eval_count": 1})],
    ))
}

#[test]
fn thoughts_text_calls_and_tokens_of_an_answer_are_read() {
    let bytes = stream(WIRE, &streams::answer(WIRE));
    let server = Server::new(WIRE, vec![Reply::bytes(bytes)]);
    let response = ask(&server.model("qwen3"), &question()).0.unwrap();
    assert_eq!(
        parts(&response),
        [
            "thinking It is a file. None",
            "text Look: é\u{1f600}",
            "call call_a file_read {\"path\":\"a\"}",
            "call call_2 file_list {}"
        ]
    );
    let usage = Usage { input: 100, output: 20, ..Usage::default() };
    assert_eq!((response.finish, response.usage), (Finish::ToolCalls, usage));
    assert_eq!(server.request().url, "http://127.0.0.1:11434/api/chat");
    // After three calls in the conversation, the second call without an id is the fifth.
    let server = Server::new(WIRE, vec![Reply::bytes(stream(WIRE, &streams::answer(WIRE)))]);
    let response = ask(&server.model("qwen3"), &conversation("qwen3")).0.unwrap();
    assert_eq!(response.calls().last().unwrap().id, "call_5");
}

#[test]
fn a_conversation_is_rendered_as_published() {
    let server = Server::new(WIRE, vec![ended("stop")]);
    let mut info = known(WIRE, "qwen3");
    info.context = Some(32_768);
    let model = server.with(info, llm::Limits::default(), Clock::jumping());
    let response = ask(&model, &ChatRequest { thinking: Effort::Low, ..conversation("qwen3") }).0.unwrap();
    assert_eq!(response.omitted, ["tool_choice"]);
    let body = &server.bodies()[0];
    let call = |id: &str, arguments: Value| json!({"id": id, "function": {"name": "file_read", "arguments": arguments}});
    let result = |id: &str, has_image: bool| {
        let mut result =
            json!({"role": "tool", "content": "content", "tool_name": "file_read", "tool_call_id": id});
        if has_image {
            result["images"] = json!(["iVBORw=="]);
        }
        result
    };
    let expected = json!([
        {"role": "system", "content": "Be short."},
        {"role": "user", "content": "See:", "images": ["iVBORw=="]},
        {"role": "assistant", "content": "I look.", "tool_calls": [
            call("call_a", json!({"path": "a"})),
            call("call_b", json!({"arguments_that_are_no_json": "{\"path\":"})),
            call("call_c", json!({})),
        ]},
        result("call_a", true), result("call_b", false), result("call_c", true),
        {"role": "user", "content": "And?"},
    ]);
    assert_eq!(body["messages"], expected);
    let options = json!({"num_ctx": 32_768, "num_predict": 8_000, "temperature": 0.5, "stop": ["END"]});
    assert_eq!(body["options"], options);
    assert_eq!((&body["think"], &body["format"]["type"]), (&json!("low"), &json!("object")));
}

#[test]
fn the_end_and_the_choice_of_tools_are_those_of_ollama() {
    let of = |reason: &str| answer(WIRE, "qwen3", ended(reason)).unwrap().finish;
    assert_eq!(of("stop"), Finish::Complete);
    assert_eq!(of("length"), Finish::MaxTokens);
    assert_eq!(of("load"), Finish::Other("load".into()));
    let server = Server::new(WIRE, vec![ended("stop")]);
    let request =
        ChatRequest { tool_choice: ToolChoice::Never, thinking: Effort::Off, ..conversation("qwen3") };
    ask(&server.model("qwen3"), &request).0.unwrap();
    assert_eq!((&server.bodies()[0]["tools"], &server.bodies()[0]["think"]), (&Value::Null, &json!(false)));
}

#[test]
fn a_failure_within_the_stream_is_one_and_a_last_line_needs_no_end() {
    let mut events = streams::answer(WIRE);
    events.truncate(2);
    events.push(json!({"error": "an error was encountered while running the model"}));
    let error = answer(WIRE, "qwen3", Reply::bytes(unchecked(WIRE, &events))).unwrap_err();
    assert!(matches!(error, ModelError::Overloaded { status: 200, .. }), "{error:?}");
    let mut bytes = stream(WIRE, &streams::answer(WIRE));
    assert_eq!(bytes.pop(), Some(b'\n'));
    assert_eq!(answer(WIRE, "qwen3", Reply::bytes(bytes)).unwrap().parts.len(), 4);
    let error =
        answer(WIRE, "qwen3", Reply::failure(WIRE, 404, &json!({"error": "model 'qwen3' not found"})));
    assert_eq!(error.unwrap_err(), ModelError::Invalid { message: "model 'qwen3' not found".into() });
}
