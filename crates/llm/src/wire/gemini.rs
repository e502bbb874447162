//! `streamGenerateContent` of Gemini.
//!
//! Source: the types of Google's own SDK (August 2026). An answer is a series of
//! `GenerateContentResponse`, each with more parts; the last one has a `finishReason`. A call comes whole.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Decoder, Rendered, base64_of, effort, failure, format, object, parse, plain, temperature};
use crate::assembly::Assembly;
use crate::error::{ModelError, StreamFault, invalid, malformed, out_of_order, shorten};
use crate::info::{ModelInfo, ThinkingControl};
use crate::message::{ChatRequest, Effort, Image, Message, Part, Role, ToolChoice};
use crate::response::Finish;
use crate::sse::Event;
use crate::usage::Usage;

/// Signature that Google documents for calls of other models, which have none of their own.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

/// Largest number of thinking tokens that is asked for at each effort, for models that are told a number.
/// All of them take 24,576 (`gemini-2.5-flash`).
const HIGH_BUDGET: u32 = 24_576;
const MEDIUM_BUDGET: u32 = 8_192;
const LOW_BUDGET: u32 = 1_024;

/// Reasons for an end that mean that content was refused.
const REFUSALS: &[&str] = &[
    "SAFETY",
    "RECITATION",
    "BLOCKLIST",
    "PROHIBITED_CONTENT",
    "SPII",
    "IMAGE_SAFETY",
    "IMAGE_PROHIBITED_CONTENT",
    "IMAGE_RECITATION",
    "LANGUAGE",
];

/// Renders a request.
///
/// # Errors
/// [`ModelError::Invalid`] if the name of the model does not fit into a URL.
pub(super) fn render(request: &ChatRequest, info: &ModelInfo) -> Result<Rendered, ModelError> {
    let name = info.name.strip_prefix("models/").unwrap_or(&info.name);
    if name.contains(['/', ':', '@']) {
        return Err(invalid("the name of the model has characters that no model of Gemini has"));
    }
    let mut omitted = Vec::new();
    let contents: Vec<Value> = request.messages.iter().filter_map(|message| content(message, info)).collect();
    let mut body = object([("contents", Value::Array(contents))]);
    if let Some(system) = &request.system {
        body.insert("systemInstruction".into(), json!({"parts": [{"text": system}]}));
    }
    if !request.tools.is_empty() {
        let functions = request.tools.iter().map(|tool| {
            json!({
                "name": tool.name, "description": tool.description, "parametersJsonSchema": tool.schema,
            })
        });
        let functions: Vec<Value> = functions.collect();
        body.insert("tools".into(), json!([{"functionDeclarations": functions}]));
        let choice = match &request.tool_choice {
            ToolChoice::Auto => json!({"mode": "AUTO"}),
            ToolChoice::Never => json!({"mode": "NONE"}),
            ToolChoice::Required => json!({"mode": "ANY"}),
            ToolChoice::Named(name) => json!({"mode": "ANY", "allowedFunctionNames": [name]}),
        };
        body.insert("toolConfig".into(), json!({"functionCallingConfig": choice}));
    }
    let config = config(request, info, &mut omitted);
    if !config.is_empty() {
        body.insert("generationConfig".into(), Value::Object(config));
    }
    Ok(Rendered { path: format!("/models/{name}:streamGenerateContent?alt=sse"), body, omitted })
}

fn config(request: &ChatRequest, info: &ModelInfo, omitted: &mut Vec<&'static str>) -> Map<String, Value> {
    let mut config = Map::new();
    let mut set = |name: &str, value: Value| config.insert(name.to_owned(), value);
    if let Some(most) = request.max_tokens {
        set("maxOutputTokens", json!(most));
    }
    if let Some(degree) = temperature(request, info, omitted) {
        set("temperature", json!(degree));
    }
    if !request.stop.is_empty() {
        set("stopSequences", json!(request.stop));
    }
    if let Some(format) = format(request, info, omitted) {
        set("responseMimeType", json!("application/json"));
        set("responseJsonSchema", json!(format.schema));
    }
    if let Some(effort) = effort(request, info, omitted) {
        let thinking = match info.thinking {
            ThinkingControl::Budget { least } => {
                let budget = match effort {
                    Effort::Off => least,
                    Effort::Low => LOW_BUDGET.max(least),
                    Effort::Default | Effort::Medium => MEDIUM_BUDGET,
                    Effort::High => HIGH_BUDGET,
                };
                json!({"thinkingBudget": budget, "includeThoughts": budget > 0})
            }
            ThinkingControl::Level { .. } | ThinkingControl::Never => {
                let level = match effort {
                    Effort::Off => "MINIMAL",
                    Effort::Low => "LOW",
                    Effort::Default | Effort::Medium => "MEDIUM",
                    Effort::High => "HIGH",
                };
                json!({"thinkingLevel": level, "includeThoughts": true})
            }
        };
        set("thinkingConfig", thinking);
    }
    config
}

fn content(message: &Message, info: &ModelInfo) -> Option<Value> {
    let parts: Vec<Value> = message.parts.iter().flat_map(|part| parts(part, info)).collect();
    let role = match message.role {
        Role::User => "user",
        Role::Assistant => "model",
    };
    (!parts.is_empty()).then(|| json!({"role": role, "parts": parts}))
}

fn parts(part: &Part, info: &ModelInfo) -> Vec<Value> {
    match part {
        Part::Text(text) if text.is_empty() => Vec::new(),
        Part::Text(text) => vec![json!({"text": text})],
        Part::Image(image) => vec![picture(image)],
        // Thoughts do not go back; their signatures stand with the calls.
        Part::Thinking(_) => Vec::new(),
        Part::ToolCall(call) => {
            let mut rendered = object([(
                "functionCall",
                json!({"id": call.id, "name": plain(&call.name), "args": call.as_object()}),
            )]);
            let own = call.signature.as_deref().filter(|_| call.model == info.name);
            let needs_one = matches!(info.thinking, ThinkingControl::Level { .. });
            // A model without a signature of its own call skipped it: only the first of several calls has one.
            let none = (needs_one && call.model != info.name).then_some(NO_SIGNATURE);
            if let Some(signature) = own.or(none) {
                rendered.insert("thoughtSignature".into(), json!(signature));
            }
            vec![Value::Object(rendered)]
        }
        Part::ToolResult(result) => {
            let field = if result.is_error { "error" } else { "output" };
            let response = json!({"functionResponse": {
                "id": result.call_id, "name": plain(&result.name), "response": {field: result.text},
            }});
            std::iter::once(response).chain(result.images.iter().map(picture)).collect()
        }
    }
}

fn picture(image: &Image) -> Value {
    json!({"inlineData": {"mimeType": image.format.media_type(), "data": base64_of(image)}})
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Chunk {
    #[serde(default)]
    candidates: Vec<Candidate>,
    #[serde(default)]
    prompt_feedback: Option<Feedback>,
    #[serde(default)]
    usage_metadata: Option<Counts>,
    #[serde(default)]
    model_version: Option<String>,
    #[serde(default)]
    error: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate {
    #[serde(default)]
    index: u64,
    #[serde(default)]
    content: Option<Content>,
    #[serde(default)]
    finish_reason: Option<String>,
    #[serde(default)]
    finish_message: Option<String>,
}

#[derive(Deserialize)]
struct Content {
    #[serde(default)]
    parts: Vec<ContentPart>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ContentPart {
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    thought: bool,
    #[serde(default)]
    thought_signature: Option<String>,
    #[serde(default)]
    function_call: Option<Call>,
}

#[derive(Deserialize)]
struct Call {
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    name: String,
    #[serde(default)]
    args: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Feedback {
    #[serde(default)]
    block_reason: Option<String>,
}

#[derive(Deserialize)]
struct Counts {
    #[serde(default, rename = "promptTokenCount")]
    prompt: u64,
    #[serde(default, rename = "toolUsePromptTokenCount")]
    tool_results: u64,
    #[serde(default, rename = "cachedContentTokenCount")]
    cached: u64,
    #[serde(default, rename = "candidatesTokenCount")]
    answer: u64,
    #[serde(default, rename = "thoughtsTokenCount")]
    thoughts: u64,
}

/// Decoder of the responses of a stream.
#[derive(Default)]
pub(super) struct Chunks;

impl Decoder for Chunks {
    fn event(&mut self, event: Event<'_>, answer: &mut Assembly<'_>) -> Result<(), ModelError> {
        let chunk: Chunk = parse(event.data)?;
        if let Some(error) = chunk.error {
            return Err(failure::of_event(&json!({"error": error})));
        }
        if let Some(model) = chunk.model_version {
            answer.served_model = Some(shorten(&model));
        }
        if let Some(tokens) = chunk.usage_metadata {
            answer.usage = Some(tokens.counted());
        }
        if let Some(reason) = chunk.prompt_feedback.and_then(|feedback| feedback.block_reason) {
            return Err(refused(&format!("the prompt was blocked: {reason}")));
        }
        for candidate in chunk.candidates.into_iter().filter(|candidate| candidate.index == 0) {
            let parts = candidate.content.map(|content| content.parts).unwrap_or_default();
            if answer.finish.is_some() && !parts.is_empty() {
                return Err(out_of_order("content after a `finishReason`"));
            }
            for part in parts {
                add(part, answer)?;
            }
            if let Some(reason) = candidate.finish_reason {
                finish(&reason, candidate.finish_message.as_deref(), answer)?;
            }
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        // The tokens may come after the reason, so the stream is read to its end.
        false
    }

    fn end(&mut self, answer: &mut Assembly<'_>) -> Result<(), ModelError> {
        if answer.finish.is_none() {
            return Err(StreamFault::Ended.into());
        }
        Ok(())
    }
}

fn add(part: ContentPart, answer: &mut Assembly<'_>) -> Result<(), ModelError> {
    if let Some(call) = part.function_call {
        if call.name.is_empty() {
            return Err(malformed("a call without the name of a tool"));
        }
        let key = answer.next_key();
        answer.start_call(key, call.id.as_deref(), &call.name, part.thought_signature)?;
        let arguments = call.args.unwrap_or_else(|| json!({}));
        return answer.arguments(key, &arguments.to_string());
    }
    let text = part.text.unwrap_or_default();
    if part.thought { answer.thinking(&text) } else { answer.text(&text) }
}

fn finish(reason: &str, message: Option<&str>, answer: &mut Assembly<'_>) -> Result<(), ModelError> {
    if REFUSALS.contains(&reason) {
        return Err(refused(message.unwrap_or(reason)));
    }
    answer.finish = Some(match reason {
        "STOP" if answer.has_calls() => Finish::ToolCalls,
        "STOP" => Finish::Complete,
        "MAX_TOKENS" => Finish::MaxTokens,
        other => Finish::Other(shorten(other)),
    });
    Ok(())
}

fn refused(message: &str) -> ModelError {
    ModelError::Refused { message: shorten(message), usage: Usage::default() }
}

impl Counts {
    fn counted(&self) -> Usage {
        Usage {
            input: self.prompt.saturating_add(self.tool_results),
            cached: self.cached,
            cache_written: 0,
            output: self.answer.saturating_add(self.thoughts),
            thinking: self.thoughts,
            is_estimate: false,
        }
    }
}
