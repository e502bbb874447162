//! An agent that works in this process.

use std::sync::Arc;

use engine::AgentOwner;
use jiff::Timestamp;
use llm::Limit;
use parking_lot::Mutex;
use store_api::AgentState;
use tool::Stop;
use tools_agents::MAIN_AGENT;

use crate::agent_runtime::identity::AgentIdentity;
use crate::agent_runtime::model::EngineModel;

/// An agent of this process.
pub(crate) struct LiveAgent {
    pub(crate) id: String,
    /// Address of the agent above it: its id, or the session of a main agent outside.
    pub(crate) parent: String,
    /// Session of the main agent, whose name is its address.
    pub(crate) owner: AgentOwner,
    pub(crate) depth: usize,
    pub(crate) task: String,
    pub(crate) since: Timestamp,
    pub(crate) identity: Arc<AgentIdentity>,
    pub(crate) model: Arc<EngineModel>,
    /// Limit on its cost.
    pub(crate) limit: Limit,
    pub(crate) stop: Stop,
    pub(crate) status: Mutex<AgentStatus>,
}

impl LiveAgent {
    /// Returns the address of its main agent.
    pub(crate) fn root(&self) -> &str {
        &self.owner.root.0
    }

    /// Returns true if the agent has not finished its turn.
    pub(crate) fn is_working(&self) -> bool {
        self.status.lock().state == AgentState::Running
    }

    /// Returns the name of the model that its next request goes to.
    pub(crate) fn model_name(&self) -> String {
        let named = self.model.named.lock().clone();
        named.or_else(|| self.model.preferred(None).ok().map(|found| found.0)).unwrap_or_default()
    }
}

/// State of an agent, as lists show it.
#[derive(Debug, Clone)]
pub(crate) struct AgentStatus {
    pub(crate) state: AgentState,
    pub(crate) outcome: Option<String>,
    /// True if the agent has sent its result itself.
    pub(crate) has_reported: bool,
    /// Tokens of its requests to models.
    pub(crate) tokens: u64,
    /// Cost of its requests, in millionths of a dollar.
    pub(crate) micro_usd: u64,
}

/// Returns the status of an agent that begins.
pub(crate) fn begun() -> Mutex<AgentStatus> {
    Mutex::new(AgentStatus {
        state: AgentState::Running,
        outcome: None,
        has_reported: false,
        tokens: 0,
        micro_usd: 0,
    })
}

/// Returns the id of an address in calls.
pub(crate) fn shown_address<'a>(address: &'a str, root: &str) -> &'a str {
    if address == root { MAIN_AGENT } else { address }
}
