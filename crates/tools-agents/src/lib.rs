//! Tools for models, and for work that goes on without the caller. Each tool is one file; this file is only the list.

mod agent_list;
mod agents;
mod answers;
mod ask_agent;
mod create_agent;
mod embedding;
mod llm_call;
mod model_switch;
mod model_transport;
mod model_turn;
mod models;
mod routing;
mod runtime;
mod schedule_history;
mod schedule_list;
mod schedule_task;
mod schedule_update;

use std::sync::Arc;

use tool::{AnyTool, ErasedTool};

pub use agent_list::AgentList;
pub use agents::{
    AgentHost, AgentMail, AgentMessage, AgentOverview, Agents, AskedAgent, CreatedAgent, ListedAgent,
    MAIN_AGENT, SwitchedModel, WantedAgent,
};
pub use ask_agent::AskAgent;
pub use create_agent::CreateAgent;
pub use llm_call::LlmCall;
pub use model_switch::ModelSwitch;
pub use model_turn::{ModelTurn, ModelTurns, PendingTurn};
pub use models::{Embeddings, ModelLimits, ModelProvider, ModelSource, Models};
pub use runtime::JobRuntime;
pub use schedule_history::ScheduleHistory;
pub use schedule_list::ScheduleList;
pub use schedule_task::ScheduleTask;
pub use schedule_update::ScheduleUpdate;

/// Returns the tools of this family, in listing order.
pub fn tools(models: &Arc<Models>) -> Vec<Arc<dyn AnyTool>> {
    vec![
        ErasedTool::tool(LlmCall(models.clone())),
        ErasedTool::tool(ScheduleTask),
        ErasedTool::tool(ScheduleList),
        ErasedTool::tool(ScheduleUpdate),
        ErasedTool::tool(ScheduleHistory),
        ErasedTool::tool(CreateAgent(models.clone())),
        ErasedTool::tool(AskAgent),
        ErasedTool::tool(AgentList),
        ErasedTool::tool(ModelSwitch(models.clone())),
        ErasedTool::tool(ModelTurn(models.clone())),
    ]
}

#[cfg(test)]
mod tests;
