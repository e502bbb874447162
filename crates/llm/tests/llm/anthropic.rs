//! Messages of Anthropic.

use llm::{
    ChatRequest, Effort, Finish, Message, ModelError, Part, StreamFault, ToolChoice, Usage, WireFormat,
};
use serde_json::{Value, json};

use crate::server::{Reply, Server, answer, ask, question, stream, unchecked};
use crate::streams::{self, conversation, parts};

const WIRE: WireFormat = WireFormat::Anthropic;
const MODEL: &str = "claude-sonnet-4-5";

fn reply(events: &[Value]) -> Reply {
    Reply::bytes(stream(WIRE, events))
}

/// Returns a short answer with this reason for its end.
fn ended(reason: &str, details: &Value) -> Vec<Value> {
    let mut events = streams::answer(WIRE);
    events.truncate(2);
    events.push(json!({
        "type": "message_delta",
        "delta": {"stop_reason": reason, "stop_sequence": null, "stop_details": details},
        "usage": {"output_tokens": 7},
    }));
    events.push(json!({"type": "message_stop"}));
    events
}

#[test]
fn thoughts_text_calls_and_tokens_of_an_answer_are_read() {
    let server = Server::new(WIRE, vec![reply(&streams::answer(WIRE))]);
    let (response, deltas) = ask(&server.model(MODEL), &question());
    let response = response.unwrap();
    assert_eq!(
        parts(&response),
        [
            "thinking It is a file. Some(\"c2ln\")",
            "text Look: é\u{1f600}",
            "call call_a file_read {\"path\":\"a\"}",
            "call call_b file_list {}"
        ]
    );
    let usage = Usage { input: 100, cached: 64, cache_written: 6, output: 20, ..Usage::default() };
    assert_eq!((response.finish, response.usage), (Finish::ToolCalls, usage));
    assert_eq!(deltas[..3], ["thinking It is ", "thinking a file.", "text Look: "]);
    let request = server.request();
    assert_eq!(request.url, "https://api.anthropic.com/v1/messages");
    assert_eq!((request.key.name, request.key.prefix), ("x-api-key", ""));
    assert!(request.headers.contains(&("anthropic-version", "2023-06-01")));
    // Without a limit, the answer may have all that the model can.
    assert_eq!(server.bodies()[0]["max_tokens"], 64_000);
}

#[test]
fn a_conversation_is_rendered_as_published() {
    let server = Server::new(WIRE, vec![reply(&ended("end_turn", &Value::Null))]);
    ask(&server.model(MODEL), &conversation(MODEL)).0.unwrap();
    let body = &server.bodies()[0];
    let picture =
        json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw=="}});
    let content = json!({"type": "text", "text": "content"});
    let call =
        |id: &str, input: Value| json!({"type": "tool_use", "id": id, "name": "file_read", "input": input});
    let result = |id: &str, content: Value, is_error: bool| json!({"type": "tool_result", "tool_use_id": id, "content": content, "is_error": is_error});
    let expected = json!([
        {"role": "user", "content": [{"type": "text", "text": "See:"}, picture]},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "It is a file.", "signature": "c2ln"},
            {"type": "redacted_thinking", "data": "c2VhbGVk"},
            {"type": "text", "text": "I look."},
            call("call_a", json!({"path": "a"})),
            call("call_b", json!({"arguments_that_are_no_json": "{\"path\":"})),
            call("call_c", json!({})),
        ]},
        {"role": "user", "content": [
            result("call_a", json!([content, picture]), false),
            result("call_b", json!([content]), true),
            result("call_c", json!([content, picture]), false),
            {"type": "text", "text": "And?"},
        ]},
    ]);
    assert_eq!(body["messages"], expected);
    assert_eq!(body["system"], "Be short.");
    assert_eq!(body["cache_control"], json!({"type": "ephemeral"}));
    assert_eq!(body["tool_choice"], json!({"type": "tool", "name": "file_list"}));
    assert_eq!(body["stop_sequences"], json!(["END"]));
}

#[test]
fn thoughts_of_another_model_are_not_sent() {
    let server = Server::new(WIRE, vec![reply(&ended("end_turn", &Value::Null))]);
    ask(&server.model("claude-haiku-4-5"), &conversation(MODEL)).0.unwrap();
    let types = server.bodies()[0]["messages"][1]["content"].clone();
    let types: Vec<&str> =
        types.as_array().unwrap().iter().map(|block| block["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["text", "tool_use", "tool_use", "tool_use"]);
}

#[test]
fn the_effort_of_thinking_is_told_in_the_form_of_the_model() {
    let asked = |model: &str, effort: Effort| {
        let server = Server::new(WIRE, vec![reply(&ended("end_turn", &Value::Null))]);
        let request = ChatRequest { thinking: effort, max_tokens: Some(16_000), ..question() };
        ask(&server.model(model), &request).0.unwrap();
        let body = &server.bodies()[0];
        (body["thinking"].clone(), body["output_config"].clone())
    };
    let budget = |tokens: u32| json!({"type": "enabled", "budget_tokens": tokens});
    assert_eq!(asked(MODEL, Effort::High), (budget(8_000), Value::Null));
    assert_eq!(asked(MODEL, Effort::Low), (budget(2_000), Value::Null));
    assert_eq!(asked(MODEL, Effort::Off), (json!({"type": "disabled"}), Value::Null));
    assert_eq!(asked(MODEL, Effort::Default), (Value::Null, Value::Null));
    let adaptive = json!({"type": "adaptive"});
    assert_eq!(asked("claude-opus-5-5", Effort::High), (adaptive.clone(), json!({"effort": "high"})));
    // This model always thinks.
    assert_eq!(asked("claude-opus-5-5", Effort::Off), (adaptive, json!({"effort": "low"})));

    let request = ChatRequest { thinking: Effort::Low, max_tokens: Some(1_024), ..question() };
    let error = ask(&Server::new(WIRE, vec![]).model(MODEL), &request).0.unwrap_err();
    assert!(matches!(error, ModelError::Invalid { .. }), "{error:?}");
}

#[test]
fn every_other_order_of_events_is_refused() {
    let whole = streams::answer(WIRE);
    let text = |index: u64| json!({"type": "content_block_delta", "index": index, "delta": {"type": "text_delta", "text": "x"}});
    let without = |left_out: &str| -> Vec<Value> {
        whole.iter().filter(|event| event["type"] != left_out).cloned().collect()
    };
    let with = |at: usize, event: Value| {
        let mut events = whole.clone();
        events.insert(at, event);
        events
    };
    let json_delta = json!({"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": "{}"}});
    let bad = [
        ("no begin", without("message_start")),
        ("two begins", with(1, whole[0].clone())),
        ("blocks that do not begin", without("content_block_start")),
        ("blocks that do not end", without("content_block_stop")),
        ("a delta between blocks", with(7, text(0))),
        ("a delta of another block", with(9, text(0))),
        ("a delta of another kind", with(9, json_delta)),
        ("a block within a block", with(8, whole[7].clone())),
        ("the end of another block", {
            let mut events = whole.clone();
            events[18]["index"] = json!(0);
            events
        }),
        ("a reason within a block", with(9, whole[whole.len() - 2].clone())),
        ("a block after the reason", with(whole.len() - 1, whole[7].clone())),
        ("an end without a reason", without("message_delta")),
        ("an end first", with(0, json!({"type": "message_stop"}))),
        ("a call with the index of another", {
            let mut events = with(16, whole[11].clone());
            events.insert(17, whole[15].clone());
            events
        }),
    ];
    for (what, events) in bad {
        let error = answer(WIRE, MODEL, reply(&events)).expect_err(what);
        assert!(
            matches!(error, ModelError::Broken { fault: StreamFault::Order(_), .. }),
            "{what}: {error:?}"
        );
    }
    // Some events may come at any time, or do not exist yet.
    let mut events = whole.clone();
    for at in (0..=whole.len()).rev() {
        events.insert(at, json!({"type": "ping"}));
        events.insert(at, json!({"type": "an_event_of_next_year", "index": 3}));
    }
    let response = answer(WIRE, MODEL, Reply::bytes(unchecked(WIRE, &events))).unwrap();
    assert_eq!(response.parts.len(), 4);
}

#[test]
fn the_reason_of_the_end_is_told() {
    let of = |reason: &str| answer(WIRE, MODEL, reply(&ended(reason, &Value::Null))).unwrap().finish;
    assert_eq!(of("end_turn"), Finish::Complete);
    assert_eq!(of("max_tokens"), Finish::MaxTokens);
    assert_eq!(of("stop_sequence"), Finish::StopText);
    assert_eq!(of("model_context_window_exceeded"), Finish::ContextFull);
    assert_eq!(of("pause_turn"), Finish::Other("pause_turn".into()));
    let details = json!({"type": "refusal", "category": "cyber", "explanation": "It could cause harm."});
    let error = answer(WIRE, MODEL, reply(&ended("refusal", &details))).unwrap_err();
    let ModelError::Refused { message, usage } = error else { panic!("{error:?}") };
    assert_eq!((&*message, usage.input, usage.output), ("It could cause harm.", 100, 7));
}

#[test]
fn an_error_within_the_stream_is_told_apart() {
    let mut events = streams::answer(WIRE);
    events.truncate(4);
    events.push(json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}));
    let error = answer(WIRE, MODEL, reply(&events)).unwrap_err();
    let overloaded = ModelError::Overloaded { status: 200, retry_after: None, message: "Overloaded".into() };
    assert_eq!(error, overloaded);
}

#[test]
fn a_request_that_nobody_could_answer_is_not_sent() {
    let server = Server::new(WIRE, vec![]);
    let invalid = |request: &ChatRequest, model: &str| {
        let error = ask(&server.model(model), request).0.unwrap_err();
        assert!(matches!(error, ModelError::Invalid { .. }), "{error:?}");
    };
    let question = question();
    invalid(&ChatRequest::default(), MODEL);
    invalid(&ChatRequest { messages: vec![Message::user("")], ..question.clone() }, MODEL);
    invalid(&ChatRequest { temperature: Some(f64::NAN), ..question.clone() }, MODEL);
    invalid(&ChatRequest { max_tokens: Some(0), ..question.clone() }, MODEL);
    invalid(&ChatRequest { tools: vec![streams::tool("no name")], ..question.clone() }, MODEL);
    invalid(&ChatRequest { tool_choice: ToolChoice::Named("gone".into()), ..question.clone() }, MODEL);
    let thoughts = conversation(MODEL).messages[1].parts.clone();
    let misplaced = Message { role: llm::Role::User, parts: thoughts };
    invalid(&ChatRequest { messages: vec![misplaced], ..question.clone() }, MODEL);
    for name in ["", "../admin", "a b", "a?b", "a//b", "a/../b", "\u{e9}"] {
        invalid(&question, name);
    }
    assert!(matches!(question.messages[0].parts[0], Part::Text(_)));
    assert_eq!(server.bodies().len(), 0);
}
