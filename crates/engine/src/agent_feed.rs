//! View of the agents of a runtime, for doors that show them.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};
use tokio::sync::broadcast;
use tool::SessionId;

/// Source of facts about the agents of a runtime.
pub trait AgentFeed: Send + Sync {
    /// Returns the agents of this process that have not left it, in the order of their creation.
    fn agents(&self) -> Vec<AgentView>;

    /// Follows the events from now on. A receiver that is too slow misses the oldest ones.
    fn follow(&self) -> broadcast::Receiver<AgentEvent>;
}

/// Listener of a caller's program, told about the agents of its session.
pub trait AgentListener: Send + Sync {
    /// Takes one event. Must not block.
    fn take(&self, event: &AgentEvent);
}

/// Session that agents belong to, with its holder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentOwner {
    /// Session of the main agent.
    pub root: SessionId,
    /// Holder of that session.
    pub holder: Option<SessionId>,
}

impl AgentOwner {
    /// Returns true if the session or holder is this one.
    pub fn is(&self, session: &SessionId) -> bool {
        self.root == *session || self.holder.as_ref() == Some(session)
    }
}

/// One agent. Texts have no secrets that Handfast knows.
#[derive(Debug, Clone, Serialize)]
pub struct AgentView {
    /// Id.
    pub id: String,
    /// Id of the agent above it; `0` for the main agent, empty for a main agent itself.
    pub parent: String,
    /// State: `running`, `idle`, `done`, `failed`, `stopped` or `interrupted`.
    pub state: &'static str,
    /// Beginning of its task.
    pub task: String,
    /// Model that is asked next.
    pub model: String,
    /// Time of its creation.
    pub since: Timestamp,
    /// Tokens of its requests to models so far.
    pub tokens: u64,
    /// Cost of its requests so far, in US dollars, as far as prices are known.
    pub usd: f64,
    /// Limit on that cost; `None` if it has no limit of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_usd: Option<f64>,
    /// Limit on its tokens; `None` if it has no limit of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_tokens: Option<u64>,
    /// Result or failure of its last turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// Session that it belongs to.
    #[serde(skip)]
    pub owner: AgentOwner,
}

/// Event of an agent. Its fields name a tool, a code or a number, and never arguments or answers.
#[derive(Debug, Clone, Serialize)]
pub struct AgentEvent {
    /// Id of the agent.
    pub agent: String,
    /// Kind: `started`, `answered`, `call`, `result`, `message`, `summarised` or `state`.
    pub event: &'static str,
    /// Facts about the event.
    #[serde(flatten)]
    pub facts: Map<String, Value>,
    /// The event as a line for people.
    #[serde(skip)]
    pub line: String,
    /// Session that the agent belongs to.
    #[serde(skip)]
    pub owner: AgentOwner,
}
