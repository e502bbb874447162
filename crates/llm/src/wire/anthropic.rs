//! Messages of Anthropic.
//!
//! Source: the types of Anthropic's own SDK, generated from its specification (August 2026), and the
//! documented order of events: `message_start`; for each block `content_block_start`, any number of
//! `content_block_delta`, `content_block_stop`; one or more `message_delta`; `message_stop`. `ping` and
//! unknown events may come anywhere, `error` ends the stream.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Decoder, Rendered, base64_of, effort, failure, format, object, parse, plain, temperature};
use crate::assembly::Assembly;
use crate::error::{ModelError, StreamFault, invalid, out_of_order, shorten};
use crate::info::{ModelInfo, ThinkingControl};
use crate::message::{ChatRequest, Effort, Image, Message, Part, Role, Thought, ToolChoice};
use crate::response::Finish;
use crate::sse::Event;
use crate::usage::Usage;

/// Version of the interface, which every request states. It has not changed since 2023.
pub(super) const VERSION: &str = "2023-06-01";

/// Maximum number of tokens of an answer if neither the request nor the model has one: Anthropic demands a
/// number, and every model takes this one.
const USUAL_MAX_TOKENS: u32 = 4_096;

/// Renders a request.
///
/// # Errors
/// [`ModelError::Invalid`] if `max_tokens` leaves no room for the answer beside the thoughts.
pub(super) fn render(request: &ChatRequest, info: &ModelInfo) -> Result<Rendered, ModelError> {
    let mut omitted = Vec::new();
    let messages: Vec<Value> =
        request.messages.iter().filter_map(|message| render_message(message, &info.name)).collect();
    if messages.is_empty() {
        return Err(invalid("there is no message"));
    }
    let most = request.max_tokens.or(info.max_output).unwrap_or(USUAL_MAX_TOKENS);
    let mut body = object([
        ("model", json!(info.name)),
        ("max_tokens", json!(most)),
        ("messages", Value::Array(messages)),
        ("stream", json!(true)),
    ]);
    let mut output = Map::new();
    let effort = effort(request, info, &mut omitted);
    if let Some(effort) = effort {
        let thinking = thinking(effort, info.thinking, most)?;
        if let Some(level) = level(effort, info.thinking) {
            output.insert("effort".into(), json!(level));
        }
        body.insert("thinking".into(), thinking);
    }
    if let Some(format) = format(request, info, &mut omitted) {
        output.insert("format".into(), json!({"type": "json_schema", "schema": format.schema}));
    }
    let mut set = |name: &str, value: Value| body.insert(name.to_owned(), value);
    if !output.is_empty() {
        set("output_config", Value::Object(output));
    }
    if let Some(degree) = temperature(request, info, &mut omitted) {
        if effort.is_some_and(|effort| effort != Effort::Off) {
            // A model that thinks takes no temperature but 1.
            omitted.push("temperature");
        } else {
            set("temperature", json!(degree.min(1.0)));
        }
    }
    if let Some(system) = &request.system {
        set("system", json!(system));
    }
    if !request.stop.is_empty() {
        set("stop_sequences", json!(request.stop));
    }
    if request.cache {
        set("cache_control", json!({"type": "ephemeral"}));
    }
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|tool| {
            let mut schema = tool.schema.clone();
            schema.entry("type").or_insert_with(|| json!("object"));
            json!({"name": tool.name, "description": tool.description, "input_schema": schema})
        });
        set("tools", tools.collect());
        let choice = match &request.tool_choice {
            ToolChoice::Auto => json!({"type": "auto"}),
            ToolChoice::Never => json!({"type": "none"}),
            ToolChoice::Required => json!({"type": "any"}),
            ToolChoice::Named(name) => json!({"type": "tool", "name": name}),
        };
        set("tool_choice", choice);
    }
    Ok(Rendered { path: "/v1/messages".into(), body, omitted })
}

fn thinking(effort: Effort, control: ThinkingControl, most: u32) -> Result<Value, ModelError> {
    if effort == Effort::Off {
        return Ok(json!({"type": "disabled"}));
    }
    let ThinkingControl::Budget { least } = control else { return Ok(json!({"type": "adaptive"})) };
    let share = match effort {
        Effort::Off | Effort::Low => most / 8,
        Effort::Default | Effort::Medium => most / 4,
        Effort::High => most / 2,
    };
    let budget = share.max(least);
    if budget >= most {
        return Err(invalid(format!("`max_tokens` must be above {least} for a model that thinks")));
    }
    Ok(json!({"type": "enabled", "budget_tokens": budget}))
}

fn level(effort: Effort, control: ThinkingControl) -> Option<&'static str> {
    match (effort, control) {
        (Effort::Off | Effort::Default, _) | (_, ThinkingControl::Budget { .. }) => None,
        (Effort::Low, _) => Some("low"),
        (Effort::Medium, _) => Some("medium"),
        (Effort::High, _) => Some("high"),
    }
}

fn render_message(message: &Message, model: &str) -> Option<Value> {
    let content: Vec<Value> = message.parts.iter().filter_map(|part| block(part, model)).collect();
    let role = match message.role {
        Role::User => "user",
        Role::Assistant => "assistant",
    };
    (!content.is_empty()).then(|| json!({"role": role, "content": content}))
}

fn block(part: &Part, model: &str) -> Option<Value> {
    match part {
        // Empty texts are refused.
        Part::Text(text) => (!text.is_empty()).then(|| json!({"type": "text", "text": text})),
        Part::Image(image) => Some(picture(image)),
        // Thoughts of another model, or without their signature, are refused.
        Part::Thinking(thought) if thought.model == model => match thought {
            Thought { signature: Some(data), is_sealed: true, .. } => {
                Some(json!({"type": "redacted_thinking", "data": data}))
            }
            Thought { signature: Some(signature), text, .. } => {
                Some(json!({"type": "thinking", "thinking": text, "signature": signature}))
            }
            Thought { signature: None, .. } => None,
        },
        Part::Thinking(_) => None,
        Part::ToolCall(call) => {
            let (id, name) = (plain(&call.id), plain(&call.name));
            Some(json!({"type": "tool_use", "id": id, "name": name, "input": call.as_object()}))
        }
        Part::ToolResult(result) => {
            let text = (!result.text.is_empty()).then(|| json!({"type": "text", "text": result.text}));
            let content: Vec<Value> = text.into_iter().chain(result.images.iter().map(picture)).collect();
            let id = plain(&result.call_id);
            Some(json!({
                "type": "tool_result", "tool_use_id": id, "content": content, "is_error": result.is_error,
            }))
        }
    }
}

fn picture(image: &Image) -> Value {
    let (media_type, data) = (image.format.media_type(), base64_of(image));
    json!({"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}})
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum StreamEvent {
    MessageStart {
        message: Start,
    },
    ContentBlockStart {
        index: u64,
        content_block: Block,
    },
    ContentBlockDelta {
        index: u64,
        delta: BlockDelta,
    },
    ContentBlockStop {
        index: u64,
    },
    MessageDelta {
        delta: End,
        #[serde(default)]
        usage: Option<Counts>,
    },
    MessageStop,
    Error {
        error: Value,
    },
    /// `ping`, and events that do not exist yet.
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Start {
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    usage: Option<Counts>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block {
    Text {
        #[serde(default)]
        text: String,
    },
    Thinking {
        #[serde(default)]
        thinking: String,
        #[serde(default)]
        signature: Option<String>,
    },
    RedactedThinking {
        data: String,
    },
    ToolUse {
        id: String,
        name: String,
    },
    /// Blocks of tools that the server runs, which this crate does not ask for.
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
#[serde(tag = "type")]
enum BlockDelta {
    #[serde(rename = "text_delta")]
    Text { text: String },
    #[serde(rename = "thinking_delta")]
    Thinking { thinking: String },
    #[serde(rename = "signature_delta")]
    Signature { signature: String },
    #[serde(rename = "input_json_delta")]
    InputJson { partial_json: String },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct End {
    #[serde(default)]
    stop_reason: Option<String>,
    #[serde(default)]
    stop_details: Option<Details>,
}

#[derive(Deserialize)]
struct Details {
    #[serde(default)]
    explanation: Option<String>,
    #[serde(default)]
    category: Option<String>,
}

/// Counts so far; each event repeats the sums, or leaves out what has not changed.
#[derive(Deserialize, Default)]
struct Counts {
    #[serde(default)]
    input_tokens: Option<u64>,
    #[serde(default)]
    cache_creation_input_tokens: Option<u64>,
    #[serde(default)]
    cache_read_input_tokens: Option<u64>,
    #[serde(default)]
    output_tokens: Option<u64>,
    #[serde(default)]
    output_tokens_details: Option<OutputTokens>,
}

#[derive(Deserialize)]
struct OutputTokens {
    #[serde(default)]
    thinking_tokens: Option<u64>,
}

/// Kind of a block, which its deltas must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Thinking,
    Call,
    /// Kind that takes any deltas, which are dropped.
    Other,
}

/// Place in the order of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Place {
    #[default]
    BeforeStart,
    Between,
    In(u64, Kind),
    AfterReason,
    Stopped,
}

/// Decoder of the events of a message.
#[derive(Default)]
pub(super) struct MessageEvents {
    place: Place,
    tokens: Counts,
    refusal: Option<String>,
}

impl Decoder for MessageEvents {
    fn event(&mut self, event: Event<'_>, answer: &mut Assembly<'_>) -> Result<(), ModelError> {
        match (parse(event.data)?, self.place) {
            (StreamEvent::Other, _) => {}
            (StreamEvent::Error { error }, _) => return Err(failure::of_event(&json!({"error": error}))),
            (StreamEvent::MessageStart { message }, Place::BeforeStart) => {
                answer.served_model = message.model.map(|model| shorten(&model));
                self.count(message.usage, answer);
                self.place = Place::Between;
            }
            (StreamEvent::ContentBlockStart { index, content_block }, Place::Between) => {
                self.place = Place::In(index, start(index, content_block, answer)?);
            }
            (StreamEvent::ContentBlockDelta { index, delta }, Place::In(own, kind)) if index == own => {
                match (delta, kind) {
                    (BlockDelta::Text { text }, Kind::Text) => answer.text(&text)?,
                    (BlockDelta::Thinking { thinking }, Kind::Thinking) => answer.thinking(&thinking)?,
                    (BlockDelta::Signature { signature }, Kind::Thinking) => answer.sign(&signature)?,
                    (BlockDelta::InputJson { partial_json }, Kind::Call) => {
                        answer.arguments(index, &partial_json)?;
                    }
                    (BlockDelta::Other, _) | (_, Kind::Other) => {}
                    _ => return Err(out_of_order("a delta of another kind than its block")),
                }
            }
            (StreamEvent::ContentBlockStop { index }, Place::In(own, _)) if index == own => {
                self.place = Place::Between;
            }
            (StreamEvent::MessageDelta { delta, usage }, Place::Between | Place::AfterReason) => {
                self.count(usage, answer);
                if let Some(reason) = delta.stop_reason {
                    self.stop(&reason, delta.stop_details, answer);
                    self.place = Place::AfterReason;
                }
            }
            (StreamEvent::MessageStop, Place::AfterReason) => self.place = Place::Stopped,
            (event, place) => {
                return Err(out_of_order(format!("`{}` {}", event.name(), place.described())));
            }
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.place == Place::Stopped
    }

    fn end(&mut self, _answer: &mut Assembly<'_>) -> Result<(), ModelError> {
        if let Some(message) = self.refusal.take() {
            return Err(ModelError::Refused { message, usage: Usage::default() });
        }
        if self.place != Place::Stopped {
            return Err(StreamFault::Ended.into());
        }
        Ok(())
    }
}

fn start(index: u64, block: Block, answer: &mut Assembly<'_>) -> Result<Kind, ModelError> {
    match block {
        Block::Text { text } => answer.text(&text).map(|()| Kind::Text),
        Block::Thinking { thinking, signature } => {
            answer.start_thoughts();
            answer.thinking(&thinking)?;
            if let Some(signature) = signature.filter(|signature| !signature.is_empty()) {
                answer.sign(&signature)?;
            }
            Ok(Kind::Thinking)
        }
        Block::RedactedThinking { data } => answer.sealed(data).map(|()| Kind::Other),
        Block::ToolUse { id, name } => {
            if answer.knows_call(index) {
                return Err(out_of_order("a second block with the same index"));
            }
            answer.start_call(index, Some(&id), &name, None).map(|()| Kind::Call)
        }
        Block::Other => Ok(Kind::Other),
    }
}

impl MessageEvents {
    fn count(&mut self, tokens: Option<Counts>, answer: &mut Assembly<'_>) {
        let Some(new) = tokens else { return };
        let own = &mut self.tokens;
        own.input_tokens = new.input_tokens.or(own.input_tokens);
        own.cache_creation_input_tokens = new.cache_creation_input_tokens.or(own.cache_creation_input_tokens);
        own.cache_read_input_tokens = new.cache_read_input_tokens.or(own.cache_read_input_tokens);
        own.output_tokens = new.output_tokens.or(own.output_tokens);
        let thinking = new.output_tokens_details.and_then(|details| details.thinking_tokens);
        let cached = own.cache_read_input_tokens.unwrap_or(0);
        let cache_written = own.cache_creation_input_tokens.unwrap_or(0);
        let fresh = own.input_tokens.unwrap_or(0);
        answer.usage = Some(Usage {
            input: fresh.saturating_add(cached).saturating_add(cache_written),
            cached,
            cache_written,
            output: own.output_tokens.unwrap_or(0),
            thinking: thinking.unwrap_or(0),
            is_estimate: false,
        });
    }

    fn stop(&mut self, reason: &str, details: Option<Details>, answer: &mut Assembly<'_>) {
        answer.finish = Some(match reason {
            "end_turn" => Finish::Complete,
            "max_tokens" => Finish::MaxTokens,
            "stop_sequence" => Finish::StopText,
            "tool_use" => Finish::ToolCalls,
            "model_context_window_exceeded" => Finish::ContextFull,
            "refusal" => {
                let said = details.and_then(|details| details.explanation.or(details.category));
                let message = said.unwrap_or_else(|| "the provider gives no explanation".to_owned());
                self.refusal = Some(shorten(&message));
                Finish::Other("refusal".to_owned())
            }
            other => Finish::Other(shorten(other)),
        });
    }
}

impl StreamEvent {
    fn name(&self) -> &'static str {
        match self {
            Self::MessageStart { .. } => "message_start",
            Self::ContentBlockStart { .. } => "content_block_start",
            Self::ContentBlockDelta { .. } => "content_block_delta",
            Self::ContentBlockStop { .. } => "content_block_stop",
            Self::MessageDelta { .. } => "message_delta",
            Self::MessageStop => "message_stop",
            Self::Error { .. } | Self::Other => "an event",
        }
    }
}

impl Place {
    fn described(self) -> String {
        match self {
            Self::BeforeStart => "before `message_start`".to_owned(),
            Self::Between => "outside of a block, or before a `stop_reason`".to_owned(),
            Self::In(index, _) => format!("within block {index}"),
            Self::AfterReason => "after the `stop_reason`".to_owned(),
            Self::Stopped => "after `message_stop`".to_owned(),
        }
    }
}
