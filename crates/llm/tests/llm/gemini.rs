//! Contents of Gemini.

use llm::{ChatRequest, Effort, Finish, ModelError, StreamFault, Usage, WireFormat};
use serde_json::{Value, json};

use crate::server::{Reply, Server, answer, ask, question, stream, unchecked};
use crate::streams::{self, conversation, parts};

const WIRE: WireFormat = WireFormat::Gemini;
const MODEL: &str = "gemini-3.5-flash";

fn reply(events: &[Value]) -> Reply {
    Reply::bytes(stream(WIRE, events))
}

fn ended(reason: &str) -> Reply {
    let part = json!({"role": "model", "parts": [{"text": "x"}]});
    reply(&[json!({"candidates": [{"content": part, "finishReason": reason, "index": 0}],
                   "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 1}})])
}

#[test]
fn thoughts_text_calls_and_tokens_of_an_answer_are_read() {
    let server = Server::new(WIRE, vec![reply(&streams::answer(WIRE))]);
    let (response, deltas) = ask(&server.model(MODEL), &question());
    let response = response.unwrap();
    assert_eq!(
        parts(&response),
        [
            "thinking It is a file. None",
            "text Look: é\u{1f600}",
            "call call_a file_read {\"path\":\"a\"}",
            "call call_b file_list {}"
        ]
    );
    assert_eq!(response.calls().next().unwrap().signature.as_deref(), Some("c2ln"));
    let usage = Usage { input: 100, cached: 64, output: 20, thinking: 8, ..Usage::default() };
    assert_eq!((response.finish, response.usage), (Finish::ToolCalls, usage));
    assert_eq!(deltas.len(), 7);
    let request = server.request();
    let base = "https://generativelanguage.googleapis.com/v1beta";
    assert_eq!(request.url, format!("{base}/models/{MODEL}:streamGenerateContent?alt=sse"));
    assert_eq!((request.key.name, request.key.prefix), ("x-goog-api-key", ""));
}

#[test]
fn a_conversation_is_rendered_as_published() {
    let server = Server::new(WIRE, vec![ended("STOP"), ended("STOP")]);
    ask(&server.model(MODEL), &conversation(MODEL)).0.unwrap();
    ask(&server.model(MODEL), &conversation("claude-sonnet-4-5")).0.unwrap();
    let bodies = server.bodies();
    let picture = json!({"inlineData": {"mimeType": "image/png", "data": "iVBORw=="}});
    let call = |id: &str, args: Value, signature: &str| json!({"functionCall": {"id": id, "name": "file_read", "args": args}, "thoughtSignature": signature});
    let result = |id: &str, field: &str| json!({"functionResponse": {"id": id, "name": "file_read", "response": {field: "content"}}});
    let calls = |signature: &str| {
        json!([
            {"text": "I look."},
            call("call_a", json!({"path": "a"}), signature),
            call("call_b", json!({"arguments_that_are_no_json": "{\"path\":"}), signature),
            call("call_c", json!({}), signature),
        ])
    };
    let expected = json!([
        {"role": "user", "parts": [{"text": "See:"}, picture]},
        {"role": "model", "parts": calls("c2ln")},
        {"role": "user", "parts": [
            result("call_a", "output"), picture, result("call_b", "error"), result("call_c", "output"), picture,
            {"text": "And?"},
        ]},
    ]);
    assert_eq!(bodies[0]["contents"], expected);
    // Calls of another model have no signature that this one knows.
    assert_eq!(bodies[1]["contents"][1]["parts"], calls("skip_thought_signature_validator"));
    assert_eq!(bodies[0]["systemInstruction"], json!({"parts": [{"text": "Be short."}]}));
    let choice = json!({"mode": "ANY", "allowedFunctionNames": ["file_list"]});
    assert_eq!(bodies[0]["toolConfig"]["functionCallingConfig"], choice);
    let config = &bodies[0]["generationConfig"];
    assert_eq!((&config["maxOutputTokens"], &config["temperature"]), (&json!(8_000), &json!(0.5)));
    assert_eq!(config["responseMimeType"], "application/json");
}

#[test]
fn the_effort_of_thinking_is_told_in_the_form_of_the_model() {
    let asked = |model: &str, effort: Effort| {
        let server = Server::new(WIRE, vec![ended("STOP")]);
        ask(&server.model(model), &ChatRequest { thinking: effort, ..question() }).0.unwrap();
        server.bodies()[0]["generationConfig"]["thinkingConfig"].clone()
    };
    let level = |level: &str| json!({"thinkingLevel": level, "includeThoughts": true});
    assert_eq!(asked(MODEL, Effort::High), level("HIGH"));
    assert_eq!(asked(MODEL, Effort::Off), level("MINIMAL"));
    assert_eq!(asked("gemini-3.8-flash", Effort::Off), level("LOW"));
    let none = json!({"thinkingBudget": 0, "includeThoughts": false});
    assert_eq!(asked("gemini-2.5-flash", Effort::Off), none);
    let least = json!({"thinkingBudget": 128, "includeThoughts": true});
    assert_eq!(asked("gemini-2.5-pro", Effort::Off), least);
    assert_eq!(asked(MODEL, Effort::Default), Value::Null);
}

#[test]
fn refusals_and_other_ends_are_told_apart() {
    let of = |reply: Reply| answer(WIRE, MODEL, reply);
    assert_eq!(of(ended("STOP")).unwrap().finish, Finish::Complete);
    assert_eq!(of(ended("MAX_TOKENS")).unwrap().finish, Finish::MaxTokens);
    let other = Finish::Other("MALFORMED_FUNCTION_CALL".into());
    assert_eq!(of(ended("MALFORMED_FUNCTION_CALL")).unwrap().finish, other);
    for reason in ["SAFETY", "PROHIBITED_CONTENT", "RECITATION"] {
        let error = of(ended(reason)).unwrap_err();
        let ModelError::Refused { message, usage } = error else { panic!("{error:?}") };
        assert_eq!((&*message, usage.input), (reason, 9));
    }
    let blocked =
        json!({"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 9}});
    let error = of(reply(&[blocked])).unwrap_err();
    assert!(matches!(error, ModelError::Refused { .. }), "{error:?}");
}

#[test]
fn wrong_orders_and_reported_failures_end_the_answer() {
    let mut events = streams::answer(WIRE);
    events.push(events[1].clone());
    let error = answer(WIRE, MODEL, reply(&events)).unwrap_err();
    assert!(matches!(error, ModelError::Broken { fault: StreamFault::Order(_), .. }), "{error:?}");
    let failure = json!({"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}});
    let error = answer(WIRE, MODEL, Reply::bytes(unchecked(WIRE, &[failure]))).unwrap_err();
    assert!(matches!(error, ModelError::Overloaded { .. }), "{error:?}");
    for name in ["a/b", "models/a:b"] {
        let error = ask(&Server::new(WIRE, vec![]).model(name), &question()).0.unwrap_err();
        assert!(matches!(error, ModelError::Invalid { .. }), "{error:?}");
    }
}

#[test]
fn a_rate_limit_names_its_delay_in_the_body() {
    let body = json!({"error": {
        "code": 429, "message": "quota", "status": "RESOURCE_EXHAUSTED",
        "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "48.5s"}],
    }});
    let error = answer(WIRE, MODEL, Reply::failure(WIRE, 429, &body)).unwrap_err();
    let retry_after = Some(std::time::Duration::from_millis(48_500));
    assert_eq!(error, ModelError::RateLimited { retry_after, message: "quota".into() });
}
