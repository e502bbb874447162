//! Requests as the tokens of a conversation in `ChatML`, with tools as in the Hermes models.

use llm::{ChatRequest, Message, ModelError, Part, Role, ToolCall, ToolChoice};
use serde_json::json;

use crate::error::{OpenError, unsupported};
use crate::gguf::Gguf;
use crate::guide::TAG;
use crate::tokens::Vocabulary;

const BEGIN: &str = "<|im_start|>";
const END: &str = "<|im_end|>";

/// Facts of a model's chat template.
#[derive(Debug)]
pub(crate) struct Template {
    begin: u32,
    end: u32,
    /// Instructions where the request has none.
    system: String,
}

/// Conversation in the making.
struct Conversation<'a> {
    vocabulary: &'a Vocabulary,
    template: &'a Template,
    tokens: Vec<u32>,
}

impl Template {
    /// Reads the template of a file.
    pub(crate) fn read(file: &Gguf, vocabulary: &Vocabulary) -> Result<Self, OpenError> {
        let template = file.text("tokenizer.chat_template").unwrap_or_default();
        let controls = (vocabulary.control(BEGIN), vocabulary.control(END));
        let (Some(begin), Some(end), true) = (controls.0, controls.1, template.contains(BEGIN)) else {
            return Err(unsupported(format!("its conversations are not written with {BEGIN} and {END}")));
        };
        // The template is a program. Of its texts only this one differs from model to model.
        let template = template.replace("\\n", "\n");
        let system = template
            .split_once(&format!("{BEGIN}system\n"))
            .and_then(|(_, rest)| rest.split_once(END))
            .map(|(text, _)| text)
            .filter(|text| !text.contains(['{', '}', '\'', '"']));
        Ok(Self { begin, end, system: system.unwrap_or_default().to_owned() })
    }

    /// Returns the tokens of a request, up to where the answer begins.
    pub(crate) fn tokens(
        &self,
        request: &ChatRequest,
        vocabulary: &Vocabulary,
    ) -> Result<Vec<u32>, ModelError> {
        let mut conversation = Conversation { vocabulary, template: self, tokens: Vec::new() };
        let system = self.instructions(request);
        if !system.is_empty() {
            conversation.add("system", &system);
        }
        for message in &request.messages {
            let role = match message.role {
                Role::User => "user",
                Role::Assistant => "assistant",
            };
            let text = text_of(message)?;
            if !text.is_empty() {
                conversation.add(role, &text);
            }
        }
        conversation.open("assistant\n");
        if must_call(request) {
            vocabulary.encode(&format!("{TAG}\n"), &mut conversation.tokens);
        }
        Ok(conversation.tokens)
    }

    fn instructions(&self, request: &ChatRequest) -> String {
        let mut text = request.system.clone().unwrap_or_else(|| self.system.clone());
        if !request.tools.is_empty() && request.tool_choice != ToolChoice::Never {
            text.push_str("\n\n# Tools\n\nYou may call one of these functions to help the user.\n<tools>\n");
            for tool in &request.tools {
                let function =
                    json!({"name": tool.name, "description": tool.description, "parameters": tool.schema});
                text.push_str(&format!("{}\n", json!({"type": "function", "function": function})));
            }
            text.push_str(&format!(
                "</tools>\n\nTo call a function, answer with its name and arguments as JSON within tags:\n{TAG}\n\
                 {{\"name\": <name>, \"arguments\": <arguments>}}\n</tool_call>"
            ));
        }
        if let Some(format) = &request.format {
            let schema = serde_json::Value::Object(format.schema.clone());
            text.push_str(&format!("\n\nAnswer with JSON that fits this schema: {schema}"));
        }
        text.trim().to_owned()
    }
}

/// Returns true if the answer must be a call.
pub(crate) fn must_call(request: &ChatRequest) -> bool {
    matches!(request.tool_choice, ToolChoice::Required | ToolChoice::Named(_))
}

impl Conversation<'_> {
    /// Adds a message. Its text is never read as a mark of the conversation.
    fn add(&mut self, role: &str, text: &str) {
        self.open(&format!("{role}\n{text}"));
        self.tokens.push(self.template.end);
        self.vocabulary.encode("\n", &mut self.tokens);
    }

    fn open(&mut self, text: &str) {
        self.tokens.push(self.template.begin);
        self.vocabulary.encode(text, &mut self.tokens);
    }
}

/// Returns the text of a message.
fn text_of(message: &Message) -> Result<String, ModelError> {
    let mut parts = Vec::new();
    for part in &message.parts {
        match part {
            Part::Text(text) => parts.push(text.clone()),
            Part::Image(_) => return Err(invalid("the model takes no pictures")),
            // Thoughts go back only to the model that had them, and this one has none.
            Part::Thinking(_) => {}
            Part::ToolCall(call) => parts.push(text_of_call(call)),
            Part::ToolResult(result) => {
                if !result.images.is_empty() {
                    return Err(invalid("the model takes no pictures"));
                }
                let error = if result.is_error { "error: " } else { "" };
                parts.push(format!("<tool_response>\n{error}{}\n</tool_response>", result.text));
            }
        }
    }
    Ok(parts.join("\n"))
}

fn text_of_call(call: &ToolCall) -> String {
    let arguments = if call.arguments.trim().is_empty() { "{}" } else { &call.arguments };
    format!("{TAG}\n{{\"name\": {}, \"arguments\": {arguments}}}\n</tool_call>", json!(call.name))
}

/// Creates the error of a request that cannot be answered as it is.
pub(crate) fn invalid(message: impl Into<String>) -> ModelError {
    ModelError::Invalid { message: message.into() }
}
