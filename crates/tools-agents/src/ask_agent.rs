//! `ask_agent`: a message to another agent, and its answer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{
    Class, Context, Example, Lane, Level, Place, Plan, Presentation, Spec, TextCap, Timeout, Tool, ToolError,
};

use crate::agents::{AgentMail, AgentMessage, Agents};

/// Maximum length of a message, in bytes. The store takes 1 MiB with its envelope.
const LONGEST: usize = 512 * 1024;

/// The `ask_agent` tool.
pub struct AskAgent;

/// Arguments of `ask_agent`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Id of the agent; 0 is the main agent.
    agent_id: String,
    /// Text, or an envelope as JSON.
    message: String,
    /// Priority. High messages are delivered first.
    #[serde(default)]
    priority: Urgency,
}

// The variants have no doc comments: without them the schema is a plain list of names, which every
// provider accepts.
/// Priority of a message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
enum Urgency {
    #[default]
    Standard,
    High,
}

/// Result of `ask_agent`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// `answered`, `delivered` if no answer is waited for, `approved` or `denied`.
    status: String,
    /// Answer of the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<String>,
    /// Messages to you that have arrived.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    messages: Vec<Message>,
}

/// Message that has arrived.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Message {
    /// Id of the sender.
    from: String,
    /// Text, or an envelope as JSON.
    message: String,
}

impl From<AgentMail> for Message {
    fn from(mail: AgentMail) -> Self {
        Self { from: mail.from, message: mail.text }
    }
}

impl Tool for AskAgent {
    type Args = Args;
    type Output = Output;

    const SPEC: Spec = Spec {
        name: "ask_agent",
        title: "Send a message to an agent",
        description: "Send a message to an agent and wait for its answer. A message to the main agent (0) is not waited for. Answer an approval_request with {\"type\": \"approval_response\", \"approved\": true}.",
        example: Example {
            files: &[],
            arguments: r#"{"agent_id": "a1b2c3d4e5", "message": "What did you find?"}"#,
            result: r#"{"status": "answered", "answer": "A wrong time zone."}"#,
        },
        level: Level::Safe,
        class: Class { reads_only: false, destructive: false, idempotent: false, open_world: false },
        timeout: Timeout::fixed(1_800),
        lane: Lane::Read,
        text: TextCap::Default,
        presentation: Presentation::Record,
    };

    fn plan(&self, args: &Args, _place: &Place) -> Result<Plan, ToolError> {
        if args.message.trim().is_empty() {
            return Err(ToolError::validation("message", "is empty"));
        }
        if args.message.len() > LONGEST {
            return Err(ToolError::validation(
                "message",
                format!("has {} bytes, more than {LONGEST}", args.message.len()),
            )
            .hint("write it to a file, and send the path"));
        }
        Ok(Plan::of(Vec::new()))
    }

    fn only_waits(&self, _args: &Args) -> bool {
        true
    }

    async fn run(&self, context: &Context, args: Args) -> Result<Output, ToolError> {
        let is_urgent = args.priority == Urgency::High;
        let message = AgentMessage { to: args.agent_id, text: args.message, is_urgent };
        let asked = context.service::<Agents>()?.0.ask(context, message).await?;
        Ok(Output {
            status: asked.status.to_owned(),
            answer: asked.answer,
            messages: asked.messages.into_iter().map(Message::from).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tool::{Code, ErasedTool};

    use super::*;
    use crate::tests::refused;

    #[test]
    fn refuses_a_message_that_is_empty_or_too_long_or_of_an_unknown_priority() {
        let tool = ErasedTool::tool(AskAgent);
        for arguments in [
            json!({"agent_id": "a", "message": " "}),
            json!({"agent_id": "a", "message": "x".repeat(LONGEST + 1)}),
            json!({"agent_id": "a", "message": "x", "priority": "urgent"}),
            json!({"message": "x"}),
        ] {
            let error = refused(&tool, arguments);
            assert_eq!(error.code, Code::Validation, "{}", error.message);
        }
    }
}
