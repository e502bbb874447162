//! Interfaces of the loop to its model, its tools, its storage and its observer.

use llm::{ChatRequest, Delta, Image, Message, Sink, ToolDefinition, Usage, Usd};
use serde_json::{Map, Value};
use tool::{BoxFuture, Meta, Stop, StopReason};

use crate::conversation::StoredMessage;

/// Model of an agent.
pub trait AgentModel: Send + Sync {
    /// Returns the number of tokens that a request and its answer may have together; `None` if it is
    /// unknown.
    fn context(&self) -> Option<u32>;

    /// Asks the model.
    ///
    /// # Errors
    /// [`ModelFailure`]. Nothing of the answer counts then.
    fn chat<'a>(
        &'a self,
        request: ChatRequest,
        sink: Box<dyn Sink>,
        stop: &'a Stop,
    ) -> BoxFuture<'a, Result<ModelAnswer, ModelFailure>>;
}

/// Answer of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelAnswer {
    /// Answer.
    pub response: llm::Response,
    /// Name of the model that answered.
    pub model: String,
    /// Cost; `None` if the price is unknown.
    pub cost: Option<Usd>,
    /// Models that failed before, each with the reason.
    pub tried: Vec<String>,
}

/// Failure of a request to the model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ModelFailure {
    /// Kind, by which the caller decides what to do.
    pub kind: ModelFailureKind,
    /// Reason, with what to do.
    pub message: String,
}

/// Kind of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelFailureKind {
    /// The request is too long for the model.
    TooLong,
    /// A stop ended the request.
    Stopped(StopReason),
    /// Anything else: a denied host, an exhausted budget, a server that does not answer.
    Other,
}

/// Tools of an agent.
pub trait AgentTools: Send + Sync {
    /// Returns the tools that the model is offered.
    fn definitions(&self) -> Vec<ToolDefinition>;

    /// Returns true if a tool only reads, so that several of its calls can run at once.
    fn reads_only(&self, name: &str) -> bool;

    /// Makes a call. A failure is a result too.
    fn call<'a>(
        &'a self,
        name: &'a str,
        arguments: Map<String, Value>,
        stop: &'a Stop,
    ) -> BoxFuture<'a, ToolOutput>;
}

/// Result of a call, as the model sees it.
#[derive(Debug, Clone, Default)]
pub struct ToolOutput {
    /// Text.
    pub text: String,
    /// Pictures.
    pub images: Vec<Image>,
    /// True if the call failed.
    pub is_error: bool,
    /// Facts about the call for people; `None` if no call was made.
    pub meta: Option<Box<Meta>>,
}

impl ToolOutput {
    /// Creates the result of a call that was not made.
    pub fn not_made(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_error: true, ..Self::default() }
    }
}

/// Durable storage of a conversation.
pub trait History: Send + Sync {
    /// Appends messages.
    ///
    /// # Errors
    /// If they cannot be stored, or another process continues this conversation.
    fn append<'a>(&'a self, messages: &'a [StoredMessage]) -> BoxFuture<'a, Result<(), HistoryError>>;

    /// Replaces all messages up to a number by a summary, which gets that number.
    ///
    /// # Errors
    /// If it cannot be stored, or another process continues this conversation.
    fn summarise<'a>(
        &'a self,
        up_to: u64,
        summary: &'a StoredMessage,
    ) -> BoxFuture<'a, Result<(), HistoryError>>;
}

/// Failure of a storage, in words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the conversation cannot be stored: {0}")]
pub struct HistoryError(pub String);

/// Storage that stores nothing.
pub struct NoHistory;

impl History for NoHistory {
    fn append<'a>(&'a self, _messages: &'a [StoredMessage]) -> BoxFuture<'a, Result<(), HistoryError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn summarise<'a>(
        &'a self,
        _up_to: u64,
        _summary: &'a StoredMessage,
    ) -> BoxFuture<'a, Result<(), HistoryError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// Messages that arrive for an agent while it works.
pub trait Inbox: Send + Sync {
    /// Takes the messages that have arrived, each as a text for the model. Called when the last one's
    /// messages are part of the conversation.
    fn take(&self) -> BoxFuture<'_, Vec<String>>;
}

/// Inbox that stays empty.
pub struct NoInbox;

impl Inbox for NoInbox {
    fn take(&self) -> BoxFuture<'_, Vec<String>> {
        Box::pin(std::future::ready(Vec::new()))
    }
}

/// Event of a turn.
#[derive(Debug)]
pub enum AgentEvent<'a> {
    /// A piece of the model's answer.
    Delta(Delta<'a>),
    /// The model has answered.
    Answered {
        /// Name of the model.
        model: &'a str,
        /// Message of the model.
        message: &'a Message,
        /// Tokens of the request and the answer.
        usage: Usage,
        /// Cost; `None` if the price is unknown.
        cost: Option<Usd>,
        /// Models that failed before, each with the reason.
        tried: &'a [String],
    },
    /// A call begins.
    CallBegins {
        /// Id of the call in the conversation.
        id: &'a str,
        /// Name of the tool.
        name: &'a str,
        /// Arguments.
        arguments: &'a Map<String, Value>,
    },
    /// A call has ended, or could not be made.
    CallEnds {
        /// Id of the call in the conversation.
        id: &'a str,
        /// Name of the tool, as the model wrote it.
        name: &'a str,
        /// Result.
        output: &'a ToolOutput,
    },
    /// A message of another agent has become part of the conversation.
    Received(&'a str),
    /// The oldest messages were replaced by a summary.
    Summarised {
        /// Number of the messages.
        messages: usize,
    },
}

/// Observer of a turn. It must not block.
pub trait Observer: Send + Sync {
    /// Takes one event.
    fn take(&self, event: AgentEvent<'_>);
}

impl<F: Fn(AgentEvent<'_>) + Send + Sync> Observer for F {
    fn take(&self, event: AgentEvent<'_>) {
        self(event);
    }
}
