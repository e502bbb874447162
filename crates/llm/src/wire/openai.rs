//! Chat completions of `OpenAI`, and of the many servers that have the same interface.
//!
//! Source: its `OpenAPI` specification (`CreateChatCompletionRequest`,
//! `CreateChatCompletionStreamResponse`), as of August 2026. `reasoning_content` and `reasoning` are no part
//! of it; servers of open models send thoughts there.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{Decoder, Rendered, base64_of, effort, failure, format, object, parse, plain, temperature};
use crate::assembly::Assembly;
use crate::error::{ModelError, StreamFault, malformed, out_of_order, shorten};
use crate::info::ModelInfo;
use crate::message::{ChatRequest, Effort, Image, Message, Part, Role, ToolCall, ToolChoice};
use crate::response::Finish;
use crate::sse::Event;
use crate::usage::Usage;

/// Maximum length of a refusal that is kept, in bytes.
const LONGEST_REFUSAL: usize = 1_000;

/// Server that a request is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Server {
    /// Service of `OpenAI`.
    Own,
    /// Another server, which may not know the newer fields.
    Compatible,
}

/// Renders a request.
pub(super) fn render(request: &ChatRequest, info: &ModelInfo, server: Server) -> Rendered {
    let mut omitted = Vec::new();
    let mut messages = Vec::new();
    if let Some(system) = &request.system {
        messages.push(json!({"role": "system", "content": system}));
    }
    request.messages.iter().for_each(|message| add_message(message, &mut messages));
    let mut body = object([
        ("model", json!(info.name)),
        ("messages", Value::Array(messages)),
        ("stream", json!(true)),
        ("stream_options", json!({"include_usage": true})),
    ]);
    let mut set = |name: &str, value: Value| body.insert(name.to_owned(), value);
    if let Some(most) = request.max_tokens {
        let field = if server == Server::Own { "max_completion_tokens" } else { "max_tokens" };
        set(field, json!(most));
    }
    if let Some(degree) = temperature(request, info, &mut omitted) {
        set("temperature", json!(degree));
    }
    if let Some(effort) = effort(request, info, &mut omitted) {
        let word = match effort {
            Effort::Off => "none",
            Effort::Low => "low",
            Effort::Default | Effort::Medium => "medium",
            Effort::High => "high",
        };
        set("reasoning_effort", json!(word));
    }
    if !request.stop.is_empty() {
        set("stop", json!(request.stop));
    }
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|tool| {
            json!({"type": "function", "function": {
                "name": tool.name, "description": tool.description, "parameters": tool.schema,
            }})
        });
        set("tools", tools.collect());
        let choice = match &request.tool_choice {
            ToolChoice::Auto => json!("auto"),
            ToolChoice::Never => json!("none"),
            ToolChoice::Required => json!("required"),
            ToolChoice::Named(name) => json!({"type": "function", "function": {"name": name}}),
        };
        set("tool_choice", choice);
    }
    if let Some(format) = format(request, info, &mut omitted) {
        let schema = json!({"name": format.name, "schema": format.schema, "strict": true});
        set("response_format", json!({"type": "json_schema", "json_schema": schema}));
    }
    Rendered { path: "/chat/completions".into(), body, omitted }
}

fn add_message(message: &Message, messages: &mut Vec<Value>) {
    match message.role {
        Role::Assistant => {
            let texts = message.parts.iter().filter_map(|part| match part {
                Part::Text(text) => Some(text.as_str()),
                _ => None,
            });
            let text: String = texts.collect();
            let calls: Vec<Value> = message.parts.iter().filter_map(call).collect();
            match (text.is_empty(), calls.is_empty()) {
                (true, true) => {}
                (false, true) => messages.push(json!({"role": "assistant", "content": text})),
                (true, false) => {
                    messages.push(json!({"role": "assistant", "content": null, "tool_calls": calls}));
                }
                (false, false) => {
                    messages.push(json!({"role": "assistant", "content": text, "tool_calls": calls}));
                }
            }
        }
        Role::User => {
            // Results follow their calls at once; their pictures come after, since a result is a text.
            let mut content = Vec::new();
            for part in &message.parts {
                match part {
                    Part::ToolResult(result) => {
                        messages.push(
                            json!({"role": "tool", "tool_call_id": result.call_id, "content": result.text}),
                        );
                        content.extend(result.images.iter().map(picture));
                    }
                    Part::Text(text) => content.push(json!({"type": "text", "text": text})),
                    Part::Image(image) => content.push(picture(image)),
                    Part::Thinking(_) | Part::ToolCall(_) => {}
                }
            }
            if let [Value::Object(only)] = content.as_slice()
                && let Some(text) = only.get("text")
            {
                messages.push(json!({"role": "user", "content": text}));
            } else if !content.is_empty() {
                messages.push(json!({"role": "user", "content": content}));
            }
        }
    }
}

fn call(part: &Part) -> Option<Value> {
    let Part::ToolCall(call) = part else { return None };
    let ToolCall { id, name, .. } = call;
    // Servers of open models parse the arguments, and fail for the whole conversation if they cannot.
    let arguments = Value::Object(call.as_object()).to_string();
    Some(json!({"id": id, "type": "function", "function": {"name": plain(name), "arguments": arguments}}))
}

fn picture(image: &Image) -> Value {
    let url = format!("data:{};base64,{}", image.format.media_type(), base64_of(image));
    json!({"type": "image_url", "image_url": {"url": url, "detail": "high"}})
}

#[derive(Deserialize)]
struct Chunk {
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    choices: Option<Vec<Choice>>,
    #[serde(default)]
    usage: Option<Counts>,
    #[serde(default)]
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default)]
    index: u64,
    #[serde(default)]
    delta: Option<Fragment>,
    #[serde(default)]
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Fragment {
    #[serde(default)]
    content: Option<String>,
    #[serde(default)]
    refusal: Option<String>,
    #[serde(default)]
    reasoning_content: Option<String>,
    #[serde(default)]
    reasoning: Option<String>,
    #[serde(default)]
    tool_calls: Option<Vec<CallFragment>>,
}

#[derive(Deserialize)]
struct CallFragment {
    #[serde(default)]
    index: Option<u64>,
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    function: Option<FunctionFragment>,
}

#[derive(Deserialize)]
struct FunctionFragment {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    arguments: Option<String>,
}

#[derive(Deserialize)]
struct Counts {
    #[serde(default)]
    prompt_tokens: u64,
    #[serde(default)]
    completion_tokens: u64,
    #[serde(default)]
    prompt_tokens_details: Option<InputTokens>,
    #[serde(default)]
    completion_tokens_details: Option<OutputTokens>,
}

#[derive(Deserialize)]
struct InputTokens {
    #[serde(default)]
    cached_tokens: Option<u64>,
    #[serde(default)]
    cache_write_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct OutputTokens {
    #[serde(default)]
    reasoning_tokens: Option<u64>,
}

/// Decoder of the chunks of a chat completion.
#[derive(Default)]
pub(super) struct Chunks {
    is_done: bool,
    refusal: String,
    /// Key of the call that the last fragment belonged to, for servers that number no calls.
    last_call: Option<u64>,
}

impl Decoder for Chunks {
    fn event(&mut self, event: Event<'_>, answer: &mut Assembly<'_>) -> Result<(), ModelError> {
        if event.data.trim() == "[DONE]" {
            self.is_done = true;
            return Ok(());
        }
        let chunk: Chunk = parse(event.data)?;
        if let Some(error) = chunk.error {
            return Err(failure::of_event(&json!({"error": error})));
        }
        if let Some(model) = chunk.model.filter(|model| !model.is_empty()) {
            answer.served_model = Some(shorten(&model));
        }
        if let Some(tokens) = chunk.usage {
            answer.usage = Some(tokens.counted());
        }
        // This crate asks for one choice.
        for choice in chunk.choices.into_iter().flatten().filter(|choice| choice.index == 0) {
            self.choice(choice, answer)?;
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.is_done
    }

    fn end(&mut self, answer: &mut Assembly<'_>) -> Result<(), ModelError> {
        if !self.refusal.is_empty() {
            return Err(ModelError::Refused { message: shorten(&self.refusal), usage: Usage::default() });
        }
        if answer.finish.is_none() {
            return Err(StreamFault::Ended.into());
        }
        Ok(())
    }
}

impl Chunks {
    fn choice(&mut self, choice: Choice, answer: &mut Assembly<'_>) -> Result<(), ModelError> {
        if let Some(fragment) = choice.delta {
            let has_content = [&fragment.content, &fragment.reasoning, &fragment.reasoning_content]
                .into_iter()
                .any(|text| text.as_ref().is_some_and(|text| !text.is_empty()))
                || fragment.tool_calls.as_ref().is_some_and(|calls| !calls.is_empty());
            if has_content && answer.finish.is_some() {
                return Err(out_of_order("content after the end of the choice"));
            }
            let thoughts = fragment.reasoning_content.or(fragment.reasoning);
            answer.thinking(thoughts.as_deref().unwrap_or_default())?;
            answer.text(fragment.content.as_deref().unwrap_or_default())?;
            for call in fragment.tool_calls.into_iter().flatten() {
                self.call(call, answer)?;
            }
            // A refusal is short; what is longer than the message of an error adds nothing.
            if self.refusal.len() < LONGEST_REFUSAL {
                self.refusal.push_str(fragment.refusal.as_deref().unwrap_or_default());
                self.refusal.truncate(self.refusal.floor_char_boundary(LONGEST_REFUSAL));
            }
        }
        if let Some(reason) = choice.finish_reason {
            answer.finish = Some(match reason.as_str() {
                "content_filter" => {
                    let message = "the provider's filter left out content".to_owned();
                    return Err(ModelError::Refused { message, usage: Usage::default() });
                }
                "length" => Finish::MaxTokens,
                // Some servers say `stop` although they call tools.
                "stop" | "tool_calls" | "function_call" if answer.has_calls() => Finish::ToolCalls,
                "stop" | "tool_calls" => Finish::Complete,
                other => Finish::Other(shorten(other)),
            });
        }
        Ok(())
    }

    fn call(&mut self, fragment: CallFragment, answer: &mut Assembly<'_>) -> Result<(), ModelError> {
        let id = fragment.id.filter(|id| !id.is_empty());
        let function = fragment.function;
        let (name, arguments) = function.map_or((None, None), |function| (function.name, function.arguments));
        let key = match (fragment.index, &id, self.last_call) {
            (Some(index), _, _) => index,
            (None, None, Some(last)) => last,
            (None, _, _) => answer.next_key(),
        };
        self.last_call = Some(key);
        if !answer.knows_call(key) {
            let Some(name) = name.filter(|name| !name.is_empty()) else {
                return Err(malformed("a call without the name of a tool"));
            };
            answer.start_call(key, id.as_deref(), &name, None)?;
        }
        answer.arguments(key, arguments.as_deref().unwrap_or_default())
    }
}

impl Counts {
    fn counted(&self) -> Usage {
        let input = self.prompt_tokens_details.as_ref();
        let output = self.completion_tokens_details.as_ref();
        Usage {
            input: self.prompt_tokens,
            cached: input.and_then(|details| details.cached_tokens).unwrap_or(0),
            cache_written: input.and_then(|details| details.cache_write_tokens).unwrap_or(0),
            output: self.completion_tokens,
            thinking: output.and_then(|details| details.reasoning_tokens).unwrap_or(0),
            is_estimate: false,
        }
    }
}
