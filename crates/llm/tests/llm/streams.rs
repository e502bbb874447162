//! Whole streams of each provider, which the tests send as they are, cut and damaged.

use llm::WireFormat;
use serde_json::{Value, json};

/// Wire formats with a model of each.
pub(crate) const ALL: [(WireFormat, &str); 4] = [
    (WireFormat::OpenAi, "gpt-5.4"),
    (WireFormat::Anthropic, "claude-sonnet-4-5"),
    (WireFormat::Gemini, "gemini-3.5-flash"),
    (WireFormat::Ollama, "qwen3"),
];

/// Returns the chunk of a chat completion.
pub(crate) fn chunk(delta: &Value, finish: Option<&str>) -> Value {
    json!({
        "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_790_000_000, "model": "gpt-5.4-2026-03-05",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], "usage": null,
    })
}

/// Returns the last chunk, which has the tokens.
pub(crate) fn tokens(prompt: u64, completion: u64) -> Value {
    json!({
        "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_790_000_000, "model": "gpt-5.4-2026-03-05",
        "choices": [],
        "usage": {
            "prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion,
            "prompt_tokens_details": {"cached_tokens": 64, "audio_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 8, "audio_tokens": 0},
        },
    })
}

/// Returns the events of an answer with thoughts (where the provider has them), text and two calls.
pub(crate) fn answer(wire: WireFormat) -> Vec<Value> {
    match wire {
        WireFormat::OpenAi | WireFormat::OpenAiCompatible => {
            let call = |index: u64, id: &str, name: &str| {
                json!({"tool_calls": [{"index": index, "id": id, "type": "function",
                                       "function": {"name": name, "arguments": ""}}]})
            };
            let more = |index: u64, text: &str| json!({"tool_calls": [{"index": index, "function": {"arguments": text}}]});
            vec![
                chunk(&json!({"role": "assistant", "content": "", "refusal": null}), None),
                chunk(&json!({"content": "Look: "}), None),
                chunk(&json!({"content": "é\u{1f600}"}), None),
                chunk(&call(0, "call_a", "file_read"), None),
                chunk(&more(0, "{\"path\":"), None),
                chunk(&call(1, "call_b", "file_list"), None),
                chunk(&more(1, "{}"), None),
                chunk(&more(0, "\"a\"}"), None),
                chunk(&json!({}), Some("tool_calls")),
                tokens(100, 20),
            ]
        }
        WireFormat::Anthropic => {
            let delta = |index: u64, delta: Value| json!({"type": "content_block_delta", "index": index, "delta": delta});
            let start = |index: u64, block: Value| json!({"type": "content_block_start", "index": index, "content_block": block});
            let stop = |index: u64| json!({"type": "content_block_stop", "index": index});
            let json = |text: &str| json!({"type": "input_json_delta", "partial_json": text});
            vec![
                json!({"type": "message_start", "message": {
                    "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5-20250929",
                    "content": [], "stop_reason": null, "stop_sequence": null,
                    "usage": {"input_tokens": 30, "cache_creation_input_tokens": 6,
                              "cache_read_input_tokens": 64, "output_tokens": 1},
                }}),
                json!({"type": "ping"}),
                start(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
                delta(0, json!({"type": "thinking_delta", "thinking": "It is "})),
                delta(0, json!({"type": "thinking_delta", "thinking": "a file."})),
                delta(0, json!({"type": "signature_delta", "signature": "c2ln"})),
                stop(0),
                start(1, json!({"type": "text", "text": ""})),
                delta(1, json!({"type": "text_delta", "text": "Look: "})),
                delta(1, json!({"type": "text_delta", "text": "é\u{1f600}"})),
                stop(1),
                start(2, json!({"type": "tool_use", "id": "call_a", "name": "file_read", "input": {}})),
                delta(2, json("")),
                delta(2, json("{\"path\":")),
                delta(2, json("\"a\"}")),
                stop(2),
                start(3, json!({"type": "tool_use", "id": "call_b", "name": "file_list", "input": {}})),
                delta(3, json("{}")),
                stop(3),
                json!({"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": null},
                       "usage": {"output_tokens": 20}}),
                json!({"type": "message_stop"}),
            ]
        }
        WireFormat::Gemini => {
            let parts = |parts: Value| {
                json!({"candidates": [{"content": {"role": "model", "parts": parts}, "index": 0}],
                       "modelVersion": "gemini-3.5-flash"})
            };
            vec![
                parts(json!([{"text": "It is a file.", "thought": true}])),
                parts(json!([{"text": "Look: "}])),
                parts(json!([{"text": "é\u{1f600}"}])),
                parts(json!([
                    {"functionCall": {"id": "call_a", "name": "file_read", "args": {"path": "a"}},
                     "thoughtSignature": "c2ln"},
                    {"functionCall": {"id": "call_b", "name": "file_list", "args": {}}},
                ])),
                json!({
                    "candidates": [{"content": {"role": "model", "parts": [{"text": ""}]}, "finishReason": "STOP", "index": 0}],
                    "usageMetadata": {"promptTokenCount": 100, "cachedContentTokenCount": 64, "candidatesTokenCount": 12,
                                      "thoughtsTokenCount": 8, "totalTokenCount": 120},
                    "modelVersion": "gemini-3.5-flash",
                }),
            ]
        }
        WireFormat::Ollama => {
            let message = |message: Value| json!({"model": "qwen3", "created_at": "2026-11-28T00:00:00Z", "message": message, "done": false});
            vec![
                message(json!({"role": "assistant", "content": "", "thinking": "It is a file."})),
                message(json!({"role": "assistant", "content": "Look: "})),
                message(json!({"role": "assistant", "content": "é\u{1f600}"})),
                message(json!({"role": "assistant", "content": "", "tool_calls": [
                    {"id": "call_a", "function": {"name": "file_read", "arguments": {"path": "a"}}},
                    {"function": {"name": "file_list", "arguments": {}}},
                ]})),
                json!({"model": "qwen3", "created_at": "2026-11-28T00:00:00Z",
                       "message": {"role": "assistant", "content": ""}, "done": true, "done_reason": "stop",
                       "prompt_eval_count": 100, "eval_count": 20, "total_duration": 1}),
            ]
        }
    }
}

/// Returns a conversation with everything that a request can have, after an answer of `model`.
pub(crate) fn conversation(model: &str) -> llm::ChatRequest {
    use llm::{
        ChatRequest, Effort, Image, ImageFormat, Message, OutputFormat, Part, Role, Thought, ToolCall,
        ToolChoice, ToolResult,
    };
    let image = Image { format: ImageFormat::Png, bytes: bytes::Bytes::from_static(b"\x89PNG") };
    let call = |id: &str, arguments: &str| {
        Part::ToolCall(ToolCall {
            id: id.into(),
            name: "file_read".into(),
            arguments: arguments.into(),
            signature: Some("c2ln".into()),
            model: model.into(),
        })
    };
    let result = |id: &str, is_error: bool| {
        Part::ToolResult(ToolResult {
            call_id: id.into(),
            name: "file_read".into(),
            text: "content".into(),
            images: if is_error { Vec::new() } else { vec![image.clone()] },
            is_error,
        })
    };
    let thought = |signature: Option<&str>, is_sealed: bool| {
        Part::Thinking(Thought {
            text: if is_sealed { String::new() } else { "It is a file.".into() },
            signature: signature.map(str::to_owned),
            is_sealed,
            model: model.into(),
        })
    };
    let schema = |value: Value| value.as_object().unwrap().clone();
    ChatRequest {
        system: Some("Be short.".into()),
        messages: vec![
            Message { role: Role::User, parts: vec![Part::Text("See:".into()), Part::Image(image.clone())] },
            Message {
                role: Role::Assistant,
                parts: vec![
                    thought(Some("c2ln"), false),
                    thought(Some("c2VhbGVk"), true),
                    thought(None, false),
                    Part::Text("I look.".into()),
                    call("call_a", "{\"path\":\"a\"}"),
                    call("call_b", "{\"path\":"),
                    call("call_c", ""),
                ],
            },
            Message {
                role: Role::User,
                parts: vec![
                    result("call_a", false),
                    result("call_b", true),
                    result("call_c", false),
                    Part::Text("And?".into()),
                ],
            },
        ],
        tools: vec![tool("file_read"), tool("file_list")],
        tool_choice: ToolChoice::Named("file_list".into()),
        temperature: Some(0.5),
        max_tokens: Some(8_000),
        thinking: Effort::Default,
        stop: vec!["END".into()],
        format: Some(OutputFormat {
            name: "answer".into(),
            schema: schema(json!({"type": "object", "properties": {}, "additionalProperties": false})),
        }),
        cache: true,
    }
}

/// Returns a tool with one argument.
pub(crate) fn tool(name: &str) -> llm::ToolDefinition {
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}});
    llm::ToolDefinition {
        name: name.into(),
        description: "Reads.".into(),
        schema: schema.as_object().unwrap().clone(),
    }
}

/// Returns the parts of the answer of [`answer`] in words.
pub(crate) fn parts(response: &llm::Response) -> Vec<String> {
    let word = |part: &llm::Part| match part {
        llm::Part::Text(text) => format!("text {text}"),
        llm::Part::Thinking(thought) => format!("thinking {} {:?}", thought.text, thought.signature),
        llm::Part::ToolCall(call) => format!("call {} {} {}", call.id, call.name, call.arguments),
        other => format!("{other:?}"),
    };
    response.parts.iter().map(word).collect()
}
