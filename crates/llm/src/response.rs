//! Answers of a model, whole and in pieces.

use crate::message::{Message, Part, Role, ToolCall};
use crate::usage::Usage;

/// Answer of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Response {
    /// Name of the model, as the server gives it; the requested name if it gives none.
    pub model: String,
    /// Parts of the answer, in order: text, thoughts and calls.
    pub parts: Vec<Part>,
    /// Reason why the answer ended.
    pub finish: Finish,
    /// Tokens that the answer took.
    pub usage: Usage,
    /// Fields of the request that the model does not take, and that were left out: `temperature`,
    /// `thinking`, `format`, `tool_choice`.
    pub omitted: Vec<&'static str>,
}

/// Reason why an answer ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finish {
    /// The model has said everything.
    Complete,
    /// The model waits for the results of its calls.
    ToolCalls,
    /// The answer reached `max_tokens`, so its last part may be cut.
    MaxTokens,
    /// The answer and the request fill the model's context, so the last part may be cut.
    ContextFull,
    /// The model wrote one of the stop texts.
    StopText,
    /// Another reason, in the provider's word.
    Other(String),
}

impl Response {
    /// Returns the text of the answer, without thoughts and calls.
    pub fn text(&self) -> String {
        self.parts
            .iter()
            .filter_map(|part| if let Part::Text(text) = part { Some(&**text) } else { None })
            .collect()
    }

    /// Returns the calls of tools, in order.
    pub fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.parts.iter().filter_map(|part| if let Part::ToolCall(call) = part { Some(call) } else { None })
    }

    /// Returns the answer as a message, for the next request of the conversation.
    pub fn into_message(self) -> Message {
        Message { role: Role::Assistant, parts: self.parts }
    }
}

/// Piece of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delta<'a> {
    /// More text.
    Text(&'a str),
    /// More thoughts.
    Thinking(&'a str),
    /// Begin of a call.
    CallStarted {
        /// Index among the calls of the answer, from 0.
        index: usize,
        /// Name of the tool.
        name: &'a str,
    },
    /// More of a call's arguments.
    CallArguments {
        /// Index among the calls of the answer, from 0.
        index: usize,
        /// Piece of the text of the arguments.
        text: &'a str,
    },
    /// All pieces so far are void, because the request is made again, possibly to another model.
    Discarded,
}

/// Receiver of the pieces of an answer. It must not block.
pub trait Sink: Send {
    /// Takes one piece.
    fn take(&mut self, delta: Delta<'_>);
}

impl<F: FnMut(Delta<'_>) + Send> Sink for F {
    fn take(&mut self, delta: Delta<'_>) {
        self(delta);
    }
}
