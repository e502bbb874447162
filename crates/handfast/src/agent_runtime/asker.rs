//! Questions of an agent: to the agent above it where the profile permits that, and else to a human.

use std::sync::Arc;
use std::time::Duration;

use engine::{Answer, Approval, Asker, Ceiling, Engine, Principal};
use policy::Verdict;
use serde_json::{Value, json};
use store_api::Priority;
use tool::{BoxFuture, ToolError};

use crate::agent_runtime::mailbox::{Letter, Post};
use crate::agent_runtime::tree::{AgentTree, ParentAnswer};

/// Time that an agent above has for its answer, before a human is asked.
const FOR_PARENT: Duration = Duration::from_mins(5);

/// Way of an agent's questions to the agent above it.
#[derive(Clone)]
pub(crate) struct ParentQuestions {
    pub(crate) tree: Arc<AgentTree>,
    pub(crate) engine: Arc<Engine>,
    /// Id of the agent.
    pub(crate) agent: String,
    /// Limits of the agent above it.
    pub(crate) above: Ceiling,
    /// Receiver of questions that the agent above does not answer.
    pub(crate) human: Arc<dyn Asker>,
    /// Lock of the one question that is open: an answer names no question, so there is only one to answer.
    pub(crate) one: Arc<tokio::sync::Mutex<()>>,
}

impl ParentQuestions {
    /// Returns the asker of one call.
    pub(crate) fn about(&self, principal: &Principal, tool: &str, arguments: &Value) -> Arc<dyn Asker> {
        Arc::new(CallAsker {
            questions: self.clone(),
            own: principal.ceiling().clone(),
            tool: tool.to_owned(),
            arguments: arguments.clone(),
        })
    }
}

impl ParentQuestions {
    /// Asks the agent above an agent for a permission. Returns `None` if that agent cannot be asked: it waits
    /// for the one that asks, or its mailbox is full.
    async fn ask_parent(&self, envelope: &Value) -> Result<Option<ParentAnswer>, ToolError> {
        let (tree, agent) = (&self.tree, &self.agent);
        let Some(live) = tree.agent(agent) else { return Ok(None) };
        if tree.waits_for(&live.parent, agent) {
            return Ok(None);
        }
        let parts = tree.runtime()?;
        let answer = tree.open_question(agent);
        let letter = Letter {
            from: agent.clone(),
            to: live.parent.clone(),
            text: envelope.to_string(),
            priority: Priority::High,
            valid: Some(FOR_PARENT),
        };
        Post::of(&parts, tree).send(letter).await?;
        Ok(answer.await.ok())
    }
}

struct CallAsker {
    questions: ParentQuestions,
    own: Ceiling,
    tool: String,
    arguments: Value,
}

impl CallAsker {
    /// Returns true if the agent above may answer: the rules of both permit it, and that agent could make the
    /// call itself without a question.
    fn may_parent_answer(&self, approval: &Approval) -> bool {
        if approval.terminal_only {
            return false;
        }
        let engine = &self.questions.engine;
        let check = |ceiling| engine.check_within(ceiling, &self.tool, self.arguments.clone());
        let permits = check(&self.own).is_ok_and(|(_, answers)| answers.cover(approval.level));
        permits && check(&self.questions.above).is_ok_and(|(checked, _)| checked.decision == Verdict::Pass)
    }
}

impl Asker for CallAsker {
    fn ask<'a>(&'a self, approval: &'a Approval) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            let ParentQuestions { tree, agent, human, one, .. } = &self.questions;
            if self.may_parent_answer(approval) {
                let _only = one.lock().await;
                let envelope = json!({
                    "type": "approval_request",
                    "action": self.tool,
                    "params": self.arguments,
                    "reason": approval.reason,
                });
                let answer = self.questions.ask_parent(&envelope);
                if let Ok(Ok(Some(answer))) = tokio::time::timeout(FOR_PARENT, answer).await {
                    return if answer.is_approved {
                        Answer::Once { by: answer.by }
                    } else {
                        Answer::Denied { by: answer.by, message: answer.reason }
                    };
                }
                tree.forget_question(agent);
            }
            human.ask(approval).await
        })
    }
}
