//! `create_agent`: starts an agent that works beside the caller.

use std::sync::Arc;

use llm::TaskType;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tool::{
    Class, Context, Example, Lane, Level, Place, Plan, Presentation, Spec, TextCap, Timeout, Tool, ToolError,
};

use crate::agents::{Agents, WantedAgent};
use crate::models::Models;
use crate::routing::candidates;

/// The `create_agent` tool.
pub struct CreateAgent(pub(crate) Arc<Models>);

/// Arguments of `create_agent`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Task, with everything that the agent has to know: it does not see your conversation.
    task_description: String,
    /// `PROVIDER/MODEL` to use.
    #[serde(default)]
    model_name: Option<String>,
    /// Abilities that the model must have: vision, tools, thinking, `structured_output`.
    #[serde(default)]
    require_caps: Vec<String>,
    /// True if the model must think before it answers.
    #[serde(default)]
    require_thinking: bool,
    /// True if the agent uses your memory; otherwise it has its own.
    #[serde(default)]
    shared_memory: bool,
    /// Rules that narrow what the agent may do, in the form of a profile.
    #[serde(default)]
    sandbox_config: Option<Map<String, Value>>,
}

/// Result of `create_agent`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Id, for `ask_agent`.
    agent_id: String,
    /// Model that the agent asks first.
    model_name: String,
}

impl Tool for CreateAgent {
    type Args = Args;
    type Output = Output;

    const SPEC: Spec = Spec {
        name: "create_agent",
        title: "Start an agent",
        description: "Start an agent that works on a task beside you, with a model that the user configured, and at most with your rights. When it ends, its result is a message to the main agent.",
        example: Example {
            files: &[],
            arguments: r#"{"task_description": "Find out why tests/date.py fails.", "model_name": "local/small"}"#,
            result: r#"{"agent_id": "a1b2c3d4e5", "model_name": "local/small"}"#,
        },
        level: Level::Safe,
        class: Class { reads_only: false, destructive: false, idempotent: false, open_world: true },
        timeout: Timeout::fixed(60),
        lane: Lane::Read,
        text: TextCap::Default,
        presentation: Presentation::Record,
    };

    fn plan(&self, args: &Args, _place: &Place) -> Result<Plan, ToolError> {
        if args.task_description.trim().is_empty() {
            return Err(ToolError::validation("task_description", "is empty"));
        }
        // The hosts and keys of its requests. Each request is decided on again when it is made.
        let candidates = candidates(&self.0, TaskType::Coding, args.model_name.as_deref())
            .map_err(|error| named(error, "model_name"))?;
        let (effects, login) = Models::effects(&candidates);
        Ok(Plan { login, ..Plan::of(effects) })
    }

    fn preview(&self, _context: &Context, args: &Args) -> Option<String> {
        let rules = args.sandbox_config.as_ref().map(|rules| format!("\n\n{}", Value::Object(rules.clone())));
        Some(format!("{}{}", args.task_description, rules.unwrap_or_default()))
    }

    fn only_waits(&self, _args: &Args) -> bool {
        true
    }

    async fn run(&self, context: &Context, args: Args) -> Result<Output, ToolError> {
        let mut caps = args.require_caps;
        if args.require_thinking {
            caps.push("thinking".to_owned());
        }
        let wanted = WantedAgent {
            task: args.task_description,
            model: args.model_name,
            caps,
            shared_memory: args.shared_memory,
            sandbox_config: args.sandbox_config.map(Value::Object),
        };
        let created = context.service::<Agents>()?.0.create(context, wanted).await;
        let created = created.map_err(|error| named(error, "model_name"))?;
        Ok(Output { agent_id: created.id, model_name: created.model })
    }
}

/// Returns an error about a field under this tool's name of the field.
pub(crate) fn named(mut error: ToolError, field: &'static str) -> ToolError {
    error.message = error.message.replace("`model`", &format!("`{field}`"));
    error
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tool::{Code, ErasedTool};

    use super::*;
    use crate::tests::{local, refused};

    #[test]
    fn refuses_an_empty_task_and_a_model_that_nobody_configured_and_starts_nothing() {
        let tool = ErasedTool::tool(CreateAgent(local("http://127.0.0.1:9", None)));
        let empty = refused(&tool, json!({"task_description": " "}));
        assert_eq!(empty.code, Code::Validation, "{}", empty.message);
        let extra = refused(&tool, json!({"task_description": "a", "depth": 3}));
        assert_eq!(extra.code, Code::Validation, "{}", extra.message);
        let none = ErasedTool::tool(CreateAgent(Arc::default()));
        let unset = refused(&none, json!({"task_description": "a", "model_name": "a/one"}));
        assert_eq!(unset.code, Code::Validation, "{}", unset.message);
    }

    #[test]
    fn a_field_is_named_as_the_caller_knows_it() {
        let error = named(ToolError::validation("model", "is none"), "model_name");
        assert!(error.message.contains("`model_name`"), "{}", error.message);
    }
}
