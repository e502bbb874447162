//! Model of the caller's program, in the messages of MCP's `sampling/createMessage`.
//!
//! Source: schema of revision 2025-11-25 of the Model Context Protocol (`CreateMessageRequestParams`,
//! `CreateMessageResult`). The result comes as a whole.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tool::{BoxFuture, CallerModel, SampleError, Stop};

use crate::assembly::Assembly;
use crate::error::{ModelError, malformed, shorten};
use crate::estimate::likely_input;
use crate::info::{ModelInfo, ThinkingControl};
use crate::interrupt::{Interrupt, StopWatch};
use crate::message::{ChatRequest, Message, Part, Role, ToolChoice, ToolResult};
use crate::model::Model;
use crate::money::Price;
use crate::remote::Limits;
use crate::response::{Finish, Response, Sink};
use crate::usage::Usage;
use crate::wire::{base64_of, check_abilities, effort, format, plain};

/// Name that leaves the choice to the program.
pub const ANY_MODEL: &str = "any";

/// Maximum number of tokens of an answer to a request that names none. The protocol demands a number.
const USUAL_OUTPUT: u32 = 16_384;

/// Bytes of usual text in one token, as in [`crate::estimate`].
const USUAL_BYTES: u64 = 3;

/// Maximum number of tokens that one picture takes; the bound of `OpenAI`.
const IMAGE_TOKENS: u32 = 4_000;

/// Model that a caller's program offers. Its tokens are estimates, because the protocol reports none.
pub struct SampledModel {
    offered: Arc<dyn CallerModel>,
    info: ModelInfo,
}

impl SampledModel {
    /// Creates a model. The program takes the name as a hint.
    pub fn new(offered: Arc<dyn CallerModel>, name: &str) -> Self {
        let info = ModelInfo { tools: offered.calls_tools(), ..Self::info_of(name) };
        Self { offered, info }
    }

    /// Returns what is known of such a model before a caller offers one. It costs the user of Handfast
    /// nothing.
    pub fn info_of(name: &str) -> ModelInfo {
        ModelInfo {
            price: Some(Price::FREE),
            max_output: Some(USUAL_OUTPUT),
            structured_output: false,
            thinking: ThinkingControl::Never,
            ..ModelInfo::unknown(name, IMAGE_TOKENS)
        }
    }

    async fn ask(
        &self,
        request: &ChatRequest,
        sink: &mut dyn Sink,
        stop: &Stop,
    ) -> Result<Response, ModelError> {
        request.check()?;
        check_abilities(request, &self.info)?;
        let mut omitted = Vec::new();
        let params = self.params(request, &mut omitted);
        let asked = Usage { input: likely_input(request, &self.info), is_estimate: true, ..Usage::default() };
        let answered = StopWatch::new(stop).wait(self.offered.sample(params), &mut []).await;
        let answered = answered.map_err(|interrupt| match interrupt {
            Interrupt::Stopped(reason) => ModelError::Cancelled { reason, usage: asked },
            Interrupt::Alarm(_) => ModelError::Unreachable { message: "no answer came".to_owned() },
        })?;
        let value = answered.map_err(|error| match error {
            SampleError::Refused(message) => ModelError::Refused { message: shorten(&message), usage: asked },
            SampleError::Failed(message) => ModelError::Unreachable { message: shorten(&message) },
        })?;
        let mut answer = Assembly::new(sink, &self.info.name, request.calls(), Limits::default().content);
        let read = read(value, &mut answer);
        let bytes = u64::try_from(answer.bytes()).unwrap_or(u64::MAX);
        let usage = Usage { output: bytes.div_ceil(USUAL_BYTES), ..asked };
        read.map_err(|error| error.spending(usage))?;
        answer.complete(usage, omitted)
    }

    fn params(&self, request: &ChatRequest, omitted: &mut Vec<&'static str>) -> Value {
        let mut messages = Vec::new();
        request.messages.iter().for_each(|message| add_message(message, &mut messages));
        let mut params = json!({
            "messages": messages,
            "maxTokens": request.max_tokens.unwrap_or(USUAL_OUTPUT),
            "includeContext": "none",
        });
        if let Some(system) = &request.system {
            params["systemPrompt"] = json!(system);
        }
        if let Some(degree) = request.temperature {
            params["temperature"] = json!(degree);
        }
        if !request.stop.is_empty() {
            params["stopSequences"] = json!(request.stop);
        }
        if self.info.name != ANY_MODEL {
            params["modelPreferences"] = json!({"hints": [{"name": self.info.name}]});
        }
        if !request.tools.is_empty() {
            let tools = request.tools.iter().map(|tool| {
                json!({"name": tool.name, "description": tool.description, "inputSchema": tool.schema})
            });
            params["tools"] = tools.collect();
            let mode = match &request.tool_choice {
                ToolChoice::Auto => "auto",
                ToolChoice::Never => "none",
                ToolChoice::Required => "required",
                // The protocol has no choice of one tool.
                ToolChoice::Named(_) => {
                    omitted.push("tool_choice");
                    "required"
                }
            };
            params["toolChoice"] = json!({"mode": mode});
        }
        // Both only note what the request asks for in vain.
        let (_, _) = (effort(request, &self.info, omitted), format(request, &self.info, omitted));
        params
    }
}

impl Model for SampledModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn chat<'a>(
        &'a self,
        request: &'a ChatRequest,
        sink: &'a mut dyn Sink,
        stop: &'a Stop,
    ) -> BoxFuture<'a, Result<Response, ModelError>> {
        Box::pin(self.ask(request, sink, stop))
    }
}

/// Adds a message. Results of tools stand in a message of their own, as the protocol demands.
fn add_message(message: &Message, messages: &mut Vec<Value>) {
    let role = match message.role {
        Role::User => "user",
        Role::Assistant => "assistant",
    };
    let (mut results, mut others) = (Vec::new(), Vec::new());
    for part in &message.parts {
        match part {
            Part::Text(text) if text.is_empty() => {}
            Part::Text(text) => others.push(text_block(text)),
            Part::Image(image) => others.push(image_block(image)),
            // No other program can use the thoughts of a model.
            Part::Thinking(_) => {}
            Part::ToolCall(call) => others.push(json!({
                "type": "tool_use", "id": plain(&call.id), "name": plain(&call.name), "input": call.as_object(),
            })),
            Part::ToolResult(result) => results.push(result_block(result)),
        }
    }
    for content in [results, others] {
        if !content.is_empty() {
            messages.push(json!({"role": role, "content": content}));
        }
    }
}

fn text_block(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn image_block(image: &crate::message::Image) -> Value {
    json!({"type": "image", "data": base64_of(image), "mimeType": image.format.media_type()})
}

fn result_block(result: &ToolResult) -> Value {
    let images = result.images.iter().map(image_block);
    let content: Vec<Value> = std::iter::once(text_block(&result.text)).chain(images).collect();
    let id = plain(&result.call_id);
    json!({"type": "tool_result", "toolUseId": id, "content": content, "isError": result.is_error})
}

/// Result of `sampling/createMessage`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Sampled {
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    stop_reason: Option<String>,
    content: Content,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Content {
    Many(Vec<Block>),
    One(Block),
}

/// Block of an answer. Pictures and sounds have no form in an answer of [`Response`].
#[derive(Deserialize)]
struct Block {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    text: String,
    #[serde(default)]
    id: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    input: Map<String, Value>,
}

/// Reads an answer.
fn read(value: Value, answer: &mut Assembly<'_>) -> Result<(), ModelError> {
    let sampled: Sampled = serde_json::from_value(value)
        .map_err(|error| malformed(format!("the answer is no result of sampling/createMessage: {error}")))?;
    let blocks = match sampled.content {
        Content::Many(blocks) => blocks,
        Content::One(block) => vec![block],
    };
    for block in blocks {
        match block.kind.as_str() {
            "text" => answer.text(&block.text)?,
            "tool_use" => {
                let key = answer.next_key();
                answer.start_call(key, Some(&block.id), &block.name, None)?;
                answer.arguments(key, &Value::Object(block.input).to_string())?;
            }
            other => return Err(malformed(format!("the answer has a block of the type {other}"))),
        }
    }
    answer.served_model = sampled.model.map(|model| shorten(&model)).filter(|model| !model.is_empty());
    answer.finish = Some(match sampled.stop_reason.as_deref() {
        _ if answer.has_calls() => Finish::ToolCalls,
        None | Some("endTurn") => Finish::Complete,
        Some("maxTokens") => Finish::MaxTokens,
        Some("stopSequence") => Finish::StopText,
        Some("toolUse") => Finish::ToolCalls,
        Some(other) => Finish::Other(shorten(other)),
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use parking_lot::Mutex;

    use super::*;
    use crate::message::{Effort, Image, ImageFormat, OutputFormat, ToolCall, ToolDefinition};
    use crate::response::Delta;

    /// Program that gives one answer, and keeps what it was asked.
    struct Program {
        tools: bool,
        answer: Result<Value, SampleError>,
        asked: Mutex<Vec<Value>>,
    }

    impl CallerModel for Program {
        fn calls_tools(&self) -> bool {
            self.tools
        }

        fn sample(&self, params: Value) -> BoxFuture<'_, Result<Value, SampleError>> {
            self.asked.lock().push(params);
            let answer = self.answer.clone();
            Box::pin(async move { answer })
        }
    }

    fn program(answer: Result<Value, SampleError>) -> Arc<Program> {
        Arc::new(Program { tools: true, answer, asked: Mutex::default() })
    }

    fn ask(
        program: &Arc<Program>,
        name: &str,
        request: &ChatRequest,
    ) -> (Result<Response, ModelError>, String) {
        let model = SampledModel::new(program.clone(), name);
        let mut text = String::new();
        let mut sink = |delta: Delta<'_>| {
            if let Delta::Text(piece) = delta {
                text.push_str(piece);
            }
        };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let response = runtime.block_on(model.chat(request, &mut sink, &Stop::default()));
        (response, text)
    }

    #[test]
    fn a_request_has_the_shape_of_the_protocol() {
        let call = ToolCall {
            id: "c1".into(),
            name: "file_read".into(),
            arguments: r#"{"path": "a"}"#.into(),
            signature: None,
            model: "m".into(),
        };
        let image = Image { format: ImageFormat::Png, bytes: Bytes::from_static(b"x") };
        let result = ToolResult {
            call_id: "c1".into(),
            name: "file_read".into(),
            text: "text of a".into(),
            images: vec![image],
            is_error: true,
        };
        let user =
            Message { role: Role::User, parts: vec![Part::Text("more".into()), Part::ToolResult(result)] };
        let request = ChatRequest {
            system: Some("Be brief.".into()),
            messages: vec![
                Message::user("Hello?"),
                Message { role: Role::Assistant, parts: vec![Part::ToolCall(call)] },
                user,
            ],
            tools: vec![ToolDefinition {
                name: "file_read".into(),
                description: "Reads.".into(),
                schema: Map::new(),
            }],
            temperature: Some(0.5),
            thinking: Effort::High,
            format: Some(OutputFormat { name: "f".into(), schema: Map::new() }),
            ..ChatRequest::default()
        };
        let program = program(Ok(json!({"role": "assistant", "model": "m1", "stopReason": "endTurn",
            "content": {"type": "text", "text": "Hello."}})));
        let (response, streamed) = ask(&program, "claude", &request);
        let response = response.unwrap();
        assert_eq!((response.text(), streamed.as_str()), ("Hello.".to_owned(), "Hello."));
        assert_eq!((response.model.as_str(), &response.finish), ("m1", &Finish::Complete));
        assert_eq!(response.omitted, ["thinking", "format"]);
        assert!(response.usage.is_estimate && response.usage.tokens() > 0);
        let expected = json!({
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "Hello?"}]},
                {"role": "assistant", "content": [
                    {"type": "tool_use", "id": "c1", "name": "file_read", "input": {"path": "a"}}]},
                {"role": "user", "content": [{"type": "tool_result", "toolUseId": "c1", "isError": true, "content": [
                    {"type": "text", "text": "text of a"},
                    {"type": "image", "data": "eA==", "mimeType": "image/png"}]}]},
                {"role": "user", "content": [{"type": "text", "text": "more"}]},
            ],
            "maxTokens": 16_384,
            "includeContext": "none",
            "systemPrompt": "Be brief.",
            "temperature": 0.5,
            "modelPreferences": {"hints": [{"name": "claude"}]},
            "tools": [{"name": "file_read", "description": "Reads.", "inputSchema": {}}],
            "toolChoice": {"mode": "auto"},
        });
        assert_eq!(program.asked.lock()[0], expected);
        let plain = ChatRequest { messages: vec![Message::user("a")], ..ChatRequest::default() };
        ask(&program, ANY_MODEL, &plain).0.unwrap();
        let asked = program.asked.lock();
        assert!(
            asked[1].get("modelPreferences").is_none() && asked[1].get("tools").is_none(),
            "{}",
            asked[1]
        );
    }

    #[test]
    fn calls_of_tools_come_with_their_ids_whatever_reason_the_program_gives() {
        let content = json!([{"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "u1", "name": "file_read", "input": {"path": "a"}},
            {"type": "tool_use", "id": "", "name": "file_list"}]);
        let program = program(Ok(json!({"content": content, "stopReason": "endTurn"})));
        let request = ChatRequest { messages: vec![Message::user("a")], ..ChatRequest::default() };
        let response = ask(&program, "any", &request).0.unwrap();
        assert_eq!(response.finish, Finish::ToolCalls);
        let calls: Vec<_> =
            response.calls().map(|call| (call.id.as_str(), call.arguments.as_str())).collect();
        assert_eq!(calls, [("u1", r#"{"path":"a"}"#), ("call_2", "{}")]);
    }

    #[test]
    fn refuses_tools_and_answers_that_are_none_and_a_refusal_is_not_asked_again() {
        let request = ChatRequest { messages: vec![Message::user("a")], ..ChatRequest::default() };
        for answer in [json!(7), json!({}), json!({"content": []}), json!({"content": {"type": "audio"}})] {
            let program = program(Ok(answer.clone()));
            let outcome = ask(&program, "any", &request).0;
            // An empty answer is one: the model had nothing to say.
            assert_eq!(outcome.is_ok(), answer == json!({"content": []}), "{answer}: {outcome:?}");
        }
        let large = "x".repeat(5 * 1024 * 1024);
        let program_of = |error| program(Err(error));
        let long = program(Ok(json!({"content": {"type": "text", "text": large}})));
        assert!(matches!(ask(&long, "any", &request).0, Err(ModelError::Broken { .. })));
        let refused = ask(&program_of(SampleError::Refused("the user said no".into())), "any", &request).0;
        assert_eq!(refused.as_ref().unwrap_err().step(), crate::error::Step::End, "{refused:?}");
        let gone = ask(&program_of(SampleError::Failed("gone".into())), "any", &request).0;
        assert_eq!(gone.unwrap_err().step(), crate::error::Step::Retry { after: None });
        let tool = ToolDefinition { name: "a".into(), description: String::new(), schema: Map::new() };
        let with_tools = ChatRequest { tools: vec![tool], ..request };
        let plain = Arc::new(Program { tools: false, answer: Ok(json!({})), asked: Mutex::default() });
        assert!(matches!(ask(&plain, "any", &with_tools).0, Err(ModelError::Invalid { .. })));
        assert!(plain.asked.lock().is_empty(), "nothing was sent");
    }
}
