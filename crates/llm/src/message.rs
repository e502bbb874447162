//! Requests to a model, in the words that all providers share.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::{ModelError, invalid};

/// Maximum number of messages, tools and stop sequences in a request. A conversation of a model with a
/// million tokens of context stays far below.
const MOST_ITEMS: usize = 20_000;

/// Request to a model. The model itself is chosen by the [`Model`](crate::Model) that gets the request.
#[derive(Debug, Clone, Default)]
pub struct ChatRequest {
    /// Instructions above the conversation.
    pub system: Option<String>,
    /// Conversation so far, the oldest message first.
    pub messages: Vec<Message>,
    /// Tools that the model may call.
    pub tools: Vec<ToolDefinition>,
    /// Rule for calls of tools.
    pub tool_choice: ToolChoice,
    /// Randomness, from 0 to 2; Anthropic gets at most 1. Omitted for a model that accepts none; see
    /// [`Response::omitted`](crate::Response).
    pub temperature: Option<f64>,
    /// Maximum number of tokens of the answer, thinking included. If it is `None`, the maximum of the model.
    pub max_tokens: Option<u32>,
    /// Effort of the model's thinking.
    pub thinking: Effort,
    /// Texts that end the answer.
    pub stop: Vec<String>,
    /// Schema that the answer must have.
    pub format: Option<OutputFormat>,
    /// True if the provider should keep the request in its cache for the next one. Only Anthropic needs to
    /// be told; the others do so by themselves, or never.
    pub cache: bool,
}

/// Message of a conversation. A picture has no form in which it is stored: a caller replaces it first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Author of the message.
    pub role: Role,
    /// Parts of the message, in order.
    pub parts: Vec<Part>,
}

/// Author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The user, and the tools that were called.
    User,
    /// The model.
    Assistant,
}

/// Part of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Text of either author.
    Text(String),
    /// Picture from the user.
    #[serde(skip)]
    Image(Image),
    /// Thoughts of the model.
    Thinking(Thought),
    /// Call of a tool by the model.
    ToolCall(ToolCall),
    /// Result of a call, from the user.
    ToolResult(ToolResult),
}

/// Thoughts of a model. They are sent back only to the model that had them, as its provider demands.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Thought {
    /// Text of the thoughts, or a summary of them. May be empty.
    pub text: String,
    /// Signature of the provider, or the sealed thoughts themselves.
    pub signature: Option<String>,
    /// True if `signature` has the thoughts, which only the provider can read.
    pub is_sealed: bool,
    /// Name of the model.
    pub model: String,
}

/// Picture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// Format of the bytes.
    pub format: ImageFormat,
    /// Bytes of the file.
    pub bytes: Bytes,
}

/// Format of a picture. These four are taken by all providers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImageFormat {
    /// Portable Network Graphics.
    Png,
    /// JPEG.
    Jpeg,
    /// GIF, of which models see the first frame.
    Gif,
    /// WebP.
    Webp,
}

impl ImageFormat {
    /// Returns the media type.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Gif => "image/gif",
            Self::Webp => "image/webp",
        }
    }

    /// Returns the format with this media type.
    pub fn of_media_type(media_type: &str) -> Option<Self> {
        [Self::Png, Self::Jpeg, Self::Gif, Self::Webp]
            .into_iter()
            .find(|format| format.media_type() == media_type)
    }
}

/// Tool that a model may call.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolDefinition {
    /// Name, of 1 to 64 letters, digits, `_` and `-`, which all providers accept.
    pub name: String,
    /// Description for the model.
    pub description: String,
    /// JSON Schema of the arguments, an object.
    pub schema: Map<String, Value>,
}

/// Rule for calls of tools.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// The model calls no tool.
    Never,
    /// The model calls some tool.
    Required,
    /// The model calls the tool with this name.
    Named(String),
}

/// Effort of thinking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Effort {
    /// The provider's default.
    #[default]
    Default,
    /// No thinking, or the least that the model can.
    Off,
    /// Little.
    Low,
    /// Some.
    Medium,
    /// Much.
    High,
}

/// Schema of an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct OutputFormat {
    /// Name of the schema, like that of a tool.
    pub name: String,
    /// JSON Schema, an object.
    pub schema: Map<String, Value>,
}

/// Call of a tool, as the model made it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Id, which the result repeats. Unique within the conversation.
    pub id: String,
    /// Name of the tool. May be a tool that does not exist; see [`ToolCall::check`].
    pub name: String,
    /// Arguments, as the model wrote them. Usually JSON; see [`ToolCall::check`].
    pub arguments: String,
    /// Signature of the provider, which goes back with the call.
    pub signature: Option<String>,
    /// Name of the model.
    pub model: String,
}

/// Result of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolResult {
    /// Id of the call.
    pub call_id: String,
    /// Name of the tool.
    pub name: String,
    /// Text of the result.
    pub text: String,
    /// Pictures of the result.
    #[serde(skip)]
    pub images: Vec<Image>,
    /// True if the call failed.
    pub is_error: bool,
}

/// Fault of a call that a model made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallFault {
    /// The request offered no tool with this name.
    #[error("there is no tool `{name}`{}", suggested(.nearest.as_deref()))]
    UnknownTool {
        /// Name that the model wrote.
        name: String,
        /// Offered tool with the most similar name.
        nearest: Option<String>,
    },
    /// The arguments are no JSON.
    #[error("the arguments are not valid JSON: {reason}")]
    NotJson {
        /// Fault and its place.
        reason: String,
    },
    /// The arguments are JSON, but no object.
    #[error("the arguments are not a JSON object")]
    NotAnObject,
}

fn suggested(nearest: Option<&str>) -> String {
    nearest.map(|name| format!("; did you mean `{name}`?")).unwrap_or_default()
}

impl ToolCall {
    /// Returns the arguments of a call that can be made. Whether they fit the schema of the tool is the
    /// caller's to check.
    ///
    /// # Errors
    /// A [`CallFault`], whose text tells the model what to do better.
    pub fn check(&self, offered: &[ToolDefinition]) -> Result<Map<String, Value>, CallFault> {
        if !offered.iter().any(|tool| tool.name == self.name) {
            let names = offered.iter().map(|tool| tool.name.as_str());
            // A name without end is not worth a comparison with every tool.
            let nearest = (self.name.len() <= 200).then(|| tool::nearest(&self.name, names)).flatten();
            let name = crate::error::shorten(&self.name);
            return Err(CallFault::UnknownTool { name, nearest: nearest.map(str::to_owned) });
        }
        self.parsed()
    }

    /// Returns the arguments as an object. No text at all stands for no arguments: some servers send that.
    pub(crate) fn parsed(&self) -> Result<Map<String, Value>, CallFault> {
        if self.arguments.trim().is_empty() {
            return Ok(Map::new());
        }
        match serde_json::from_str(&self.arguments) {
            Ok(Value::Object(arguments)) => Ok(arguments),
            Ok(_) => Err(CallFault::NotAnObject),
            Err(error) => Err(CallFault::NotJson { reason: error.to_string() }),
        }
    }

    /// Returns the arguments for a provider that takes an object only. What is none is shown to the model as
    /// the text that it wrote.
    pub(crate) fn as_object(&self) -> Map<String, Value> {
        self.parsed().unwrap_or_else(|_| {
            let text = Value::String(self.arguments.clone());
            Map::from_iter([("arguments_that_are_no_json".to_owned(), text)])
        })
    }
}

impl Message {
    /// Creates a message of the user that is a text.
    pub fn user(text: impl Into<String>) -> Self {
        Self { role: Role::User, parts: vec![Part::Text(text.into())] }
    }

    /// Creates a message of the model that is a text.
    pub fn assistant(text: impl Into<String>) -> Self {
        Self { role: Role::Assistant, parts: vec![Part::Text(text.into())] }
    }
}

impl ChatRequest {
    /// Checks what no provider could make sense of.
    ///
    /// # Errors
    /// [`ModelError::Invalid`].
    pub(crate) fn check(&self) -> Result<(), ModelError> {
        if self.messages.iter().all(|message| message.parts.is_empty()) {
            return Err(invalid("there is no message"));
        }
        let items = self.messages.len().max(self.tools.len()).max(self.stop.len());
        if items > MOST_ITEMS {
            return Err(invalid(format!("there are more than {MOST_ITEMS} messages, tools or stop texts")));
        }
        if self.max_tokens == Some(0) {
            return Err(invalid("`max_tokens` is 0"));
        }
        if self.temperature.is_some_and(|degree| !(0.0..=2.0).contains(&degree)) {
            return Err(invalid("`temperature` is not between 0 and 2"));
        }
        if let Some(tool) = self.tools.iter().find(|tool| !is_name(&tool.name)) {
            let name = crate::error::shorten(&tool.name);
            return Err(invalid(format!("`{name}` is no name of 1 to 64 letters, digits, `_` and `-`")));
        }
        if let ToolChoice::Named(name) = &self.tool_choice
            && !self.tools.iter().any(|tool| tool.name == *name)
        {
            return Err(invalid(format!("the tool `{name}` that the model should call is not offered")));
        }
        let misplaced = self.messages.iter().any(|message| {
            message.parts.iter().any(|part| match part {
                Part::Text(_) => false,
                Part::Image(_) | Part::ToolResult(_) => message.role != Role::User,
                Part::Thinking(_) | Part::ToolCall(_) => message.role != Role::Assistant,
            })
        });
        if misplaced {
            return Err(invalid("a message has a part that its author cannot send"));
        }
        Ok(())
    }

    /// Returns the number of calls in the conversation.
    pub(crate) fn calls(&self) -> usize {
        let parts = self.messages.iter().flat_map(|message| &message.parts);
        parts.filter(|part| matches!(part, Part::ToolCall(_))).count()
    }
}

fn is_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    (1..=64).contains(&name.len()) && name.bytes().all(fits)
}
