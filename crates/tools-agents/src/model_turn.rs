//! `model_turn`: one request of an agent's loop to its model. Only the loop calls it, so no caller sees it.
//!
//! A request is a call like any other: the policy decides about its host and its key, a stop ends it, and the
//! audit has its model, tokens and cost. The conversation itself is no argument, because the audit would
//! repeat all of it with every turn.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use llm::{Capability, ChatRequest, Route, RouteError, Routed, Scope, Sink, TaskType};
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{
    Class, Code, Context, Example, Lane, Level, Place, Plan, Presentation, Spec, TextCap, Timeout, Tool,
    ToolError,
};

use crate::models::{CallBudget, Candidate, Models};
use crate::routing::{candidates, failed, router};

/// The `model_turn` tool.
pub struct ModelTurn(pub(crate) Arc<Models>);

/// Arguments of `model_turn`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Id of the request that waits.
    turn: String,
    /// Type of the task, by which the model is chosen.
    task_type: String,
    /// `PROVIDER/MODEL` to ask instead, without a fallback.
    #[serde(default)]
    model: Option<String>,
}

/// Result of `model_turn`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Model that answered.
    model_used: String,
    /// Tokens of the request and of the answer.
    tokens_used: Tokens,
    /// Cost in US dollars; absent if the price is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    cost_estimate: Option<f64>,
}

/// Tokens of an answer.
#[derive(Debug, Serialize, JsonSchema)]
struct Tokens {
    /// Tokens of the request.
    input: u64,
    /// Tokens of the answer.
    output: u64,
}

/// Request that waits for its call.
pub struct PendingTurn {
    /// Request.
    pub request: ChatRequest,
    /// Abilities that the model must have.
    pub needs: Vec<Capability>,
    /// Session of the agent, which alone can carry the request out.
    pub agent: String,
    /// Session whose budget pays, which is that of the agent that was started first.
    pub session: String,
    /// Agents whose budgets pay: the agent itself and those above it, as far as they have one.
    pub agents: Vec<String>,
    /// Receiver of the pieces of the answer.
    pub sink: Box<dyn Sink>,
}

enum Slot {
    Pending(Box<PendingTurn>),
    Ended(Box<Result<Routed, RouteError>>),
}

/// Requests of loops to their models, a service of the tools.
#[derive(Default)]
pub struct ModelTurns(Mutex<BTreeMap<String, Slot>>);

impl ModelTurns {
    /// Adds a request that a call is about to carry out.
    pub fn add(&self, turn: String, pending: PendingTurn) {
        self.0.lock().insert(turn, Slot::Pending(Box::new(pending)));
    }

    /// Removes a request and returns its end, if its call has come that far.
    pub fn remove(&self, turn: &str) -> Option<Result<Routed, RouteError>> {
        match self.0.lock().remove(turn)? {
            Slot::Pending(_) => None,
            Slot::Ended(end) => Some(*end),
        }
    }

    /// Takes a request for the call of its agent.
    fn take(&self, turn: &str, agent: &str) -> Option<PendingTurn> {
        let mut slots = self.0.lock();
        match slots.remove(turn)? {
            Slot::Pending(pending) if pending.agent == agent => Some(*pending),
            other => {
                slots.insert(turn.to_owned(), other);
                None
            }
        }
    }

    fn end(&self, turn: String, end: Result<Routed, RouteError>) {
        self.0.lock().insert(turn, Slot::Ended(Box::new(end)));
    }
}

impl Tool for ModelTurn {
    type Args = Args;
    type Output = Output;

    const SPEC: Spec = Spec {
        name: "model_turn",
        title: "Turn of an agent",
        description: "One request of an agent to its model.",
        example: Example {
            files: &[],
            arguments: r#"{"turn": "t1", "task_type": "coding"}"#,
            result: r#"{"model_used": "local/small", "tokens_used": {"input": 12, "output": 3}}"#,
        },
        level: Level::Safe,
        class: Class { reads_only: false, destructive: false, idempotent: false, open_world: true },
        timeout: Timeout::fixed(1_800),
        lane: Lane::Read,
        text: TextCap::Default,
        presentation: Presentation::Record,
    };
    const IS_LISTED: bool = false;

    fn plan(&self, args: &Args, _place: &Place) -> Result<Plan, ToolError> {
        let candidates = self.candidates(args)?;
        let (effects, login) = Models::effects(&candidates);
        Ok(Plan { login, ..Plan::of(effects) })
    }

    async fn run(&self, context: &Context, args: Args) -> Result<Output, ToolError> {
        let turns = context.service::<ModelTurns>()?;
        let candidates = self.candidates(&args)?;
        let unknown = || {
            ToolError::new(Code::NotFound, "no request waits under this id")
                .hint("only the loop of an agent makes such a call")
        };
        let pending = turns.take(&args.turn, &context.session.0).ok_or_else(unknown)?;
        let PendingTurn { request, mut needs, session, agents, mut sink, .. } = pending;
        if !request.tools.is_empty() && !needs.contains(&Capability::Tools) {
            needs.push(Capability::Tools);
        }
        let deadline = Instant::now() + context.timeout;
        let CallBudget { ledger, mut account, shared } = self.0.budget(context, &session)?;
        account.scopes.extend(agents.into_iter().map(Scope::Agent));
        let mut router = router(context, &candidates, deadline)?;
        (router.ledger, router.reserve) = (Some(ledger), shared);
        let task = task_of(&args)?;
        let route = Route { deadline: Some(deadline), account, needs, ..Route::of(task) };
        let end = router.chat(&route, &request, &mut *sink, &context.stop).await;
        let output = match &end {
            Ok(routed) => Ok(Output {
                model_used: routed.model.clone(),
                tokens_used: Tokens {
                    input: routed.response.usage.input,
                    output: routed.response.usage.output,
                },
                cost_estimate: routed.cost.map(llm::Usd::dollars),
            }),
            Err(error) => Err(failed(error)),
        };
        turns.end(args.turn, end);
        output
    }
}

fn task_of(args: &Args) -> Result<TaskType, ToolError> {
    TaskType::of_word(&args.task_type).ok_or_else(|| ToolError::validation("task_type", "is no type of task"))
}

impl ModelTurn {
    fn candidates(&self, args: &Args) -> Result<Vec<Candidate<'_>>, ToolError> {
        candidates(&self.0, task_of(args)?, args.model.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tool::ErasedTool;

    use super::*;
    use crate::tests::{local, refused};

    #[test]
    fn a_turn_is_taken_by_its_own_agent_once() {
        let turns = crate::tests::one_turn("a1");
        assert!(turns.take("t1", "a2").is_none(), "another agent gets nothing");
        assert!(turns.take("t1", "a1").is_some());
        assert!(turns.take("t1", "a1").is_none());
    }

    #[test]
    fn refuses_a_turn_that_no_loop_has_added_and_is_in_no_list() {
        let tool = ErasedTool::tool(ModelTurn(local("http://127.0.0.1:9", None)));
        let unknown = refused(&tool, json!({"turn": "no-such", "task_type": "coding"}));
        assert_eq!(unknown.code, Code::NotFound, "{}", unknown.message);
        let task = refused(&tool, json!({"turn": "t1", "task_type": "poetry"}));
        assert_eq!(task.code, Code::Validation, "{}", task.message);
        assert!(!tool.is_listed());
    }
}
