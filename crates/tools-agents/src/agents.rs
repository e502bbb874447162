//! The part of a runtime that the tools for agents know.

use std::sync::Arc;

use serde_json::Value;
use tool::{BoxFuture, Context, ToolError};

/// Id of the main agent in calls: the one that was started first, above all others.
pub const MAIN_AGENT: &str = "0";

/// The agents of a runtime, a service of the tools. Each method acts on behalf of the call's caller, and
/// reaches only the agents of the caller's tree.
#[derive(Clone)]
pub struct Agents(pub Arc<dyn AgentHost>);

/// The agents of a runtime.
pub trait AgentHost: Send + Sync {
    /// Starts an agent below the caller.
    ///
    /// # Errors
    /// `EUNAVAILABLE` if nothing can outlive the call here, `EQUOTA` beyond the limits of depth and number,
    /// `EVALIDATION` for a model, a profile or an ability that is not there.
    fn create<'a>(
        &'a self,
        context: &'a Context,
        wanted: WantedAgent,
    ) -> BoxFuture<'a, Result<CreatedAgent, ToolError>>;

    /// Sends a message to an agent of the tree. Waits for the answer, unless the receiver is the main agent
    /// or the message answers a question of the receiver.
    ///
    /// # Errors
    /// `ENOTFOUND` for an unknown agent, `ECONFLICT` for a cycle of agents that wait for each other or a
    /// receiver that has ended, `EQUOTA` for a full mailbox, `ETIMEOUT` without an answer in time.
    fn ask<'a>(
        &'a self,
        context: &'a Context,
        message: AgentMessage,
    ) -> BoxFuture<'a, Result<AskedAgent, ToolError>>;

    /// Lets the caller's further requests go to another model.
    ///
    /// # Errors
    /// `EUNAVAILABLE` if the caller is no agent of this runtime, `EVALIDATION` for an unknown model.
    fn switch<'a>(
        &'a self,
        context: &'a Context,
        model: &'a str,
    ) -> BoxFuture<'a, Result<SwitchedModel, ToolError>>;

    /// Returns the agents of the caller's tree, and takes the caller's messages. Waits up to `wait` for the
    /// first message, if agents work that could send one.
    ///
    /// # Errors
    /// If the state cannot be read.
    fn list<'a>(
        &'a self,
        context: &'a Context,
        wait: std::time::Duration,
    ) -> BoxFuture<'a, Result<AgentOverview, ToolError>>;
}

/// Agent that a caller wants.
#[derive(Debug, Clone)]
pub struct WantedAgent {
    /// Task.
    pub task: String,
    /// `PROVIDER/MODEL`.
    pub model: Option<String>,
    /// Words for what the model must be able to do.
    pub caps: Vec<String>,
    /// True if the agent shares the caller's memory.
    pub shared_memory: bool,
    /// Rules that narrow the agent further, in the form of a profile.
    pub sandbox_config: Option<Value>,
}

/// Agent that was started.
#[derive(Debug, Clone)]
pub struct CreatedAgent {
    /// Id.
    pub id: String,
    /// Model that is asked first.
    pub model: String,
}

/// Message from the caller to an agent.
#[derive(Debug, Clone)]
pub struct AgentMessage {
    /// Id of the receiver.
    pub to: String,
    /// Text, or an envelope as JSON.
    pub text: String,
    /// True for priority high.
    pub is_urgent: bool,
}

/// Outcome of a message.
#[derive(Debug, Clone)]
pub struct AskedAgent {
    /// `answered`, `delivered`, `approved` or `denied`.
    pub status: &'static str,
    /// Answer of the receiver.
    pub answer: Option<String>,
    /// Messages for the caller that have arrived.
    pub messages: Vec<AgentMail>,
}

/// Message that has arrived.
#[derive(Debug, Clone)]
pub struct AgentMail {
    /// Id of the sender.
    pub from: String,
    /// Text, or an envelope as JSON.
    pub text: String,
}

/// Model of the caller after a switch.
#[derive(Debug, Clone)]
pub struct SwitchedModel {
    /// Model from now on.
    pub model: String,
    /// Model before.
    pub before: String,
    /// Profile that the model's provider is bound to, if it is bound to one.
    pub profile: Option<String>,
}

/// Agents of a tree, and messages for a caller.
#[derive(Debug, Clone)]
pub struct AgentOverview {
    /// Agents, in the order of their creation.
    pub agents: Vec<ListedAgent>,
    /// Messages for the caller that have arrived.
    pub messages: Vec<AgentMail>,
}

/// Agent in a list.
#[derive(Debug, Clone)]
pub struct ListedAgent {
    /// Id.
    pub id: String,
    /// Id of the agent above it; `0` for the main agent.
    pub parent: String,
    /// State: `running`, `idle`, `done`, `failed`, `stopped` or `interrupted`.
    pub state: &'static str,
    /// Task.
    pub task: String,
    /// Model.
    pub model: String,
    /// Outcome of its last turn.
    pub outcome: Option<String>,
}
