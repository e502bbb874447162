//! Chat of Ollama, as lines of JSON.
//!
//! Source: Ollama's `OpenAPI` specification (`ChatRequest`, `ChatStreamEvent`), its documentation of errors
//! within a stream, and its own types for ids of calls, which the specification leaves out (August 2026).

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Decoder, Rendered, base64_of, effort, failure, format, object, parse, plain, temperature};
use crate::assembly::Assembly;
use crate::error::{ModelError, StreamFault, malformed, shorten};
use crate::info::ModelInfo;
use crate::message::{ChatRequest, Effort, Message, Part, Role, ToolChoice};
use crate::response::Finish;
use crate::sse::Event;
use crate::usage::Usage;

/// Renders a request. Ollama has no choice of tools: `Never` leaves them out, the other rules are noted.
pub(super) fn render(request: &ChatRequest, info: &ModelInfo) -> Rendered {
    let mut omitted = Vec::new();
    let mut messages = Vec::new();
    if let Some(system) = &request.system {
        messages.push(json!({"role": "system", "content": system}));
    }
    request.messages.iter().for_each(|message| add_message(message, &mut messages));
    let mut body =
        object([("model", json!(info.name)), ("messages", Value::Array(messages)), ("stream", json!(true))]);
    let mut options = Map::new();
    // Without its size, Ollama cuts a long conversation to a small context without a word.
    if let Some(context) = info.context {
        options.insert("num_ctx".into(), json!(context));
    }
    if let Some(most) = request.max_tokens {
        options.insert("num_predict".into(), json!(most));
    }
    if let Some(degree) = temperature(request, info, &mut omitted) {
        options.insert("temperature".into(), json!(degree));
    }
    if !request.stop.is_empty() {
        options.insert("stop".into(), json!(request.stop));
    }
    let mut set = |name: &str, value: Value| body.insert(name.to_owned(), value);
    if !options.is_empty() {
        set("options", Value::Object(options));
    }
    if let Some(effort) = effort(request, info, &mut omitted) {
        let think = match effort {
            Effort::Off => json!(false),
            Effort::Low => json!("low"),
            Effort::Default | Effort::Medium => json!("medium"),
            Effort::High => json!("high"),
        };
        set("think", think);
    }
    if let Some(format) = format(request, info, &mut omitted) {
        set("format", json!(format.schema));
    }
    if !request.tools.is_empty() && request.tool_choice != ToolChoice::Never {
        if request.tool_choice != ToolChoice::Auto {
            omitted.push("tool_choice");
        }
        let tools = request.tools.iter().map(|tool| {
            json!({"type": "function", "function": {
                "name": tool.name, "description": tool.description, "parameters": tool.schema,
            }})
        });
        body.insert("tools".to_owned(), tools.collect());
    }
    Rendered { path: "/api/chat".into(), body, omitted }
}

fn add_message(message: &Message, messages: &mut Vec<Value>) {
    let texts = message.parts.iter().filter_map(|part| match part {
        Part::Text(text) => Some(text.as_str()),
        _ => None,
    });
    let text: String = texts.collect();
    let mut own = match message.role {
        Role::User => object([("role", json!("user")), ("content", json!(text))]),
        Role::Assistant => object([("role", json!("assistant")), ("content", json!(text))]),
    };
    let (mut images, mut calls) = (Vec::new(), Vec::new());
    for part in &message.parts {
        match part {
            Part::Image(image) => images.push(json!(base64_of(image))),
            Part::ToolCall(call) => {
                let function = json!({"name": plain(&call.name), "arguments": call.as_object()});
                calls.push(json!({"id": call.id, "function": function}));
            }
            Part::ToolResult(result) => {
                let mut answer = object([
                    ("role", json!("tool")),
                    ("content", json!(result.text)),
                    ("tool_name", json!(plain(&result.name))),
                    ("tool_call_id", json!(result.call_id)),
                ]);
                if !result.images.is_empty() {
                    let images: Vec<String> = result.images.iter().map(base64_of).collect();
                    answer.insert("images".into(), json!(images));
                }
                messages.push(Value::Object(answer));
            }
            Part::Text(_) | Part::Thinking(_) => {}
        }
    }
    if text.is_empty() && images.is_empty() && calls.is_empty() {
        return;
    }
    if !images.is_empty() {
        own.insert("images".into(), Value::Array(images));
    }
    if !calls.is_empty() {
        own.insert("tool_calls".into(), Value::Array(calls));
    }
    messages.push(Value::Object(own));
}

#[derive(Deserialize)]
struct Chunk {
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    message: Option<Piece>,
    #[serde(default)]
    done: bool,
    #[serde(default)]
    done_reason: Option<String>,
    #[serde(default)]
    prompt_eval_count: u64,
    #[serde(default)]
    eval_count: u64,
    #[serde(default)]
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Piece {
    #[serde(default)]
    content: Option<String>,
    #[serde(default)]
    thinking: Option<String>,
    #[serde(default)]
    tool_calls: Option<Vec<Call>>,
}

#[derive(Deserialize)]
struct Call {
    #[serde(default)]
    id: Option<String>,
    function: Function,
}

#[derive(Deserialize)]
struct Function {
    #[serde(default)]
    name: String,
    #[serde(default)]
    arguments: Option<Value>,
}

/// Decoder of the lines of an answer.
#[derive(Default)]
pub(super) struct Chunks {
    is_done: bool,
}

impl Decoder for Chunks {
    fn event(&mut self, event: Event<'_>, answer: &mut Assembly<'_>) -> Result<(), ModelError> {
        let chunk: Chunk = parse(event.data)?;
        if let Some(error) = chunk.error {
            return Err(failure::of_event(&json!({"error": error})));
        }
        if let Some(model) = chunk.model {
            answer.served_model = Some(shorten(&model));
        }
        if let Some(piece) = chunk.message {
            answer.thinking(piece.thinking.as_deref().unwrap_or_default())?;
            answer.text(piece.content.as_deref().unwrap_or_default())?;
            for call in piece.tool_calls.into_iter().flatten() {
                if call.function.name.is_empty() {
                    return Err(malformed("a call without the name of a tool"));
                }
                let key = answer.next_key();
                answer.start_call(key, call.id.as_deref(), &call.function.name, None)?;
                let arguments = call.function.arguments.unwrap_or_else(|| json!({}));
                answer.arguments(key, &arguments.to_string())?;
            }
        }
        if chunk.done {
            self.is_done = true;
            answer.usage =
                Some(Usage { input: chunk.prompt_eval_count, output: chunk.eval_count, ..Usage::default() });
            answer.finish = Some(match chunk.done_reason.as_deref() {
                Some("length") => Finish::MaxTokens,
                Some("stop") | None if answer.has_calls() => Finish::ToolCalls,
                Some("stop") | None => Finish::Complete,
                Some(other) => Finish::Other(shorten(other)),
            });
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.is_done
    }

    fn end(&mut self, _answer: &mut Assembly<'_>) -> Result<(), ModelError> {
        if self.is_done { Ok(()) } else { Err(StreamFault::Ended.into()) }
    }
}
