//! Chat completions.

use llm::{Effort, Finish, ModelError, StreamFault, ToolChoice, Usage, WireFormat};
use serde_json::{Value, json};

use crate::server::{Reply, Server, answer, ask, question, stream, unchecked};
use crate::streams::{self, chunk, conversation, parts, tokens};

const OWN: WireFormat = WireFormat::OpenAi;

fn reply(events: &[Value]) -> Reply {
    Reply::bytes(stream(OWN, events))
}

#[test]
fn text_calls_and_tokens_of_an_answer_are_read() {
    let server = Server::new(OWN, vec![reply(&streams::answer(OWN))]);
    let (response, deltas) = ask(&server.model("gpt-5.4"), &question());
    let response = response.unwrap();
    assert_eq!(response.model, "gpt-5.4-2026-03-05");
    assert_eq!(
        parts(&response),
        ["text Look: é\u{1f600}", "call call_a file_read {\"path\":\"a\"}", "call call_b file_list {}"]
    );
    assert_eq!(response.finish, Finish::ToolCalls);
    let usage = Usage { input: 100, cached: 64, output: 20, thinking: 8, ..Usage::default() };
    assert_eq!(response.usage, usage);
    assert_eq!(
        deltas,
        [
            "text Look: ",
            "text é\u{1f600}",
            "call 0 file_read",
            "arguments 0 {\"path\":",
            "call 1 file_list",
            "arguments 1 {}",
            "arguments 0 \"a\"}"
        ]
    );
    let request = server.request();
    assert_eq!(request.url, "https://api.openai.com/v1/chat/completions");
    assert_eq!((request.key.name, request.key.prefix), ("authorization", "Bearer "));
    assert!(request.headers.contains(&("content-type", "application/json")));
}

#[test]
fn a_conversation_is_rendered_as_published() {
    let server =
        Server::new(OWN, vec![reply(&[chunk(&json!({"content": "x"}), Some("stop")), tokens(9, 1)])]);
    let response = ask(&server.model("gpt-4.1"), &conversation("gpt-4.1")).0.unwrap();
    assert_eq!(response.omitted, Vec::<&str>::new());
    let body = &server.bodies()[0];
    let picture = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw==", "detail": "high"}});
    let call = |id: &str, arguments: &str| json!({"id": id, "type": "function", "function": {"name": "file_read", "arguments": arguments}});
    let result = |id: &str| json!({"role": "tool", "tool_call_id": id, "content": "content"});
    let expected = json!([
        {"role": "system", "content": "Be short."},
        {"role": "user", "content": [{"type": "text", "text": "See:"}, picture]},
        {"role": "assistant", "content": "I look.", "tool_calls": [
            call("call_a", "{\"path\":\"a\"}"),
            // A server that parses arguments must not fail for the whole conversation.
            call("call_b", "{\"arguments_that_are_no_json\":\"{\\\"path\\\":\"}"),
            call("call_c", "{}"),
        ]},
        result("call_a"), result("call_b"), result("call_c"),
        {"role": "user", "content": [picture, picture, {"type": "text", "text": "And?"}]},
    ]);
    assert_eq!(body["messages"], expected);
    assert_eq!(body["max_completion_tokens"], 8_000);
    assert_eq!(body["temperature"], 0.5);
    assert_eq!(body["tool_choice"], json!({"type": "function", "function": {"name": "file_list"}}));
    assert_eq!(body["response_format"]["json_schema"]["strict"], true);
    assert_eq!(body["stream_options"], json!({"include_usage": true}));
}

#[test]
fn what_a_model_does_not_take_is_left_out_and_reported() {
    let ends = || reply(&[chunk(&json!({"content": "x"}), Some("stop")), tokens(9, 1)]);
    let server = Server::new(OWN, vec![ends(), ends(), ends()]);
    let mut request = question();
    (request.temperature, request.thinking) = (Some(0.5), Effort::Off);
    let response = ask(&server.model("gpt-5-mini"), &request).0.unwrap();
    assert_eq!(response.omitted, ["temperature"]);
    let response = ask(&server.model("gpt-5.1"), &request).0.unwrap();
    assert_eq!(response.omitted, ["temperature"]);
    request.thinking = Effort::High;
    let response = ask(&server.model("gpt-4.1"), &request).0.unwrap();
    assert_eq!(response.omitted, ["thinking"]);
    let efforts: Vec<Value> = server.bodies().iter().map(|body| body["reasoning_effort"].clone()).collect();
    // Thinking of `gpt-5-mini` cannot be switched off.
    assert_eq!(efforts, [json!("low"), json!("none"), Value::Null]);
}

#[test]
fn a_compatible_server_may_have_its_own_ways() {
    let wire = WireFormat::OpenAiCompatible;
    let events = [
        json!({"choices": [{"delta": {"role": "assistant", "reasoning_content": "hm"}}]}),
        json!({"choices": [{"delta": {"reasoning": "!", "content": null}}]}),
        // Calls without an index, begun twice, with the name repeated; and `stop` at their end.
        json!({"choices": [{"delta": {"tool_calls": [{"id": "a", "function": {"name": "file_read", "arguments": "{\"p\""}}]}}]}),
        json!({"choices": [{"delta": {"tool_calls": [{"function": {"name": "file_read", "arguments": ":1}"}}]}}]}),
        json!({"choices": [{"delta": {"tool_calls": [{"id": "", "index": 7, "function": {"name": "file_list"}}]}}]}),
        json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}, {"index": 1, "delta": {"content": "other"}}]}),
    ];
    let server = Server::new(wire, vec![Reply::bytes(unchecked(wire, &events))]);
    let mut request = question();
    (request.max_tokens, request.tools, request.tool_choice) =
        (Some(50), vec![streams::tool("file_read")], ToolChoice::Required);
    let response = ask(&server.model("qwen/qwen3:8b"), &request).0.unwrap();
    assert_eq!(
        parts(&response),
        ["thinking hm! None", "call a file_read {\"p\":1}", "call call_2 file_list "]
    );
    assert_eq!((response.finish, &*response.model), (Finish::ToolCalls, "qwen/qwen3:8b"));
    // No tokens were reported, so upper bounds stand in their place.
    assert!(response.usage.is_estimate && response.usage.input > 1_000 && response.usage.output > 10);
    let sent = server.request();
    assert_eq!(sent.url, "http://127.0.0.1:8000/v1/chat/completions");
    let body = &server.bodies()[0];
    assert_eq!((&body["max_tokens"], &body["tool_choice"]), (&json!(50), &json!("required")));
}

#[test]
fn a_refusal_is_an_error_with_its_tokens() {
    let refused = [
        chunk(&json!({"refusal": "I cannot "}), None),
        chunk(&json!({"refusal": "help."}), Some("stop")),
        tokens(100, 20),
    ];
    let Err(ModelError::Refused { message, usage }) = answer(OWN, "gpt-5.4", reply(&refused)) else {
        panic!()
    };
    assert_eq!((&*message, usage.output), ("I cannot help.", 20));
    let filtered = [chunk(&json!({"content": "x"}), None), chunk(&json!({}), Some("content_filter"))];
    let error = answer(OWN, "gpt-5.4", reply(&filtered)).unwrap_err();
    assert!(matches!(error, ModelError::Refused { .. }), "{error:?}");
}

#[test]
fn wrong_orders_and_reported_failures_end_the_answer() {
    let after = [chunk(&json!({}), Some("stop")), chunk(&json!({"content": "more"}), None)];
    let error = answer(OWN, "gpt-5.4", reply(&after)).unwrap_err();
    assert!(matches!(error, ModelError::Broken { fault: StreamFault::Order(_), .. }), "{error:?}");
    let nameless = [chunk(&json!({"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]}), None)];
    let error = answer(OWN, "gpt-5.4", reply(&nameless)).unwrap_err();
    assert!(matches!(error, ModelError::Broken { fault: StreamFault::Malformed(_), .. }), "{error:?}");
    let failure = [
        chunk(&json!({"content": "x"}), None),
        json!({"error": {"message": "slow down", "type": "rate_limit_exceeded", "code": null}}),
    ];
    let error = answer(OWN, "gpt-5.4", Reply::bytes(unchecked(OWN, &failure))).unwrap_err();
    assert_eq!(error, ModelError::RateLimited { retry_after: None, message: "slow down".into() });
}
