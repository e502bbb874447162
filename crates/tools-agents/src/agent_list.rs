//! `agent_list`: the agents of the caller's tree, and the messages to the caller.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{
    Class, Context, Example, Lane, Level, Place, Plan, Presentation, Spec, TextCap, Timeout, Tool, ToolError,
};

use crate::agents::{AgentOverview, Agents};
use crate::ask_agent::Message;

/// The `agent_list` tool.
pub struct AgentList;

/// Arguments of `agent_list`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Seconds to wait for a message, while agents work.
    #[serde(default)]
    #[schemars(range(min = 0, max = 600))]
    wait_seconds: u32,
}

/// Result of `agent_list`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Agents, in the order of their creation.
    agents: Vec<Entry>,
    /// Messages to you that have arrived. Each is given once.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    messages: Vec<Message>,
}

/// Agent in the list.
#[derive(Debug, Serialize, JsonSchema)]
struct Entry {
    /// Id.
    agent_id: String,
    /// Id of the agent above it; 0 is the main agent.
    parent: String,
    /// State: running, idle, done, failed, stopped or interrupted.
    state: String,
    /// Task.
    task: String,
    /// Model.
    model_name: String,
    /// Outcome of its last turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<String>,
}

impl Tool for AgentList {
    type Args = Args;
    type Output = Output;

    const SPEC: Spec = Spec {
        name: "agent_list",
        title: "List agents",
        description: "List the agents that you have started, with those below them, and take the messages that have arrived for you.",
        example: Example {
            files: &[],
            arguments: r#"{"wait_seconds": 60}"#,
            result: r#"{"agents": [{"agent_id": "a1b2c3d4e5", "parent": "0", "state": "idle", "task": "Find out why tests/date.py fails.", "model_name": "local/small", "outcome": "A wrong time zone."}]}"#,
        },
        level: Level::Safe,
        class: Class { reads_only: false, destructive: false, idempotent: false, open_world: false },
        timeout: Timeout::fixed(660),
        lane: Lane::Read,
        text: TextCap::Default,
        presentation: Presentation::Record,
    };

    fn plan(&self, _args: &Args, _place: &Place) -> Result<Plan, ToolError> {
        Ok(Plan::of(Vec::new()))
    }

    fn only_waits(&self, _args: &Args) -> bool {
        true
    }

    async fn run(&self, context: &Context, args: Args) -> Result<Output, ToolError> {
        let wait = Duration::from_secs(args.wait_seconds.into());
        let AgentOverview { agents, messages } = context.service::<Agents>()?.0.list(context, wait).await?;
        let agents = agents.into_iter().map(|agent| Entry {
            agent_id: agent.id,
            parent: agent.parent,
            state: agent.state.to_owned(),
            task: agent.task,
            model_name: agent.model,
            outcome: agent.outcome,
        });
        Ok(Output { agents: agents.collect(), messages: messages.into_iter().map(Message::from).collect() })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tool::{Code, ErasedTool};

    use super::*;
    use crate::tests::refused;

    #[test]
    fn refuses_a_wait_that_is_no_number_of_seconds() {
        let tool = ErasedTool::tool(AgentList);
        let error = refused(&tool, json!({"wait_seconds": "long"}));
        assert_eq!(error.code, Code::Validation, "{}", error.message);
    }
}
