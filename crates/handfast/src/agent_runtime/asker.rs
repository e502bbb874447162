//! Questions of an agent: to the agent above it where the profile permits that, and else to a human.

use std::sync::Arc;
use std::time::Duration;

use engine::{Answer, Approval, Asker, Ceiling, Engine, Principal};
use policy::Verdict;
use serde_json::{Value, json};
use tool::BoxFuture;

use crate::agent_runtime::tree::AgentTree;
use crate::report::note;

/// Time that an agent above has for its answer, before a human is asked.
const FOR_PARENT: Duration = Duration::from_mins(5);
/// Time that a question waits for a human who answers it elsewhere.
const FOR_HUMAN: Duration = Duration::from_hours(1);

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
            let ParentQuestions { tree, agent, human, .. } = &self.questions;
            if self.may_parent_answer(approval) {
                let envelope = json!({
                    "type": "approval_request",
                    "action": self.tool,
                    "params": self.arguments,
                    "reason": approval.reason,
                });
                let answer = tree.ask_parent(agent, &envelope);
                if let Ok(Ok(Some(answer))) = tokio::time::timeout(FOR_PARENT, answer).await {
                    return match answer.is_approved {
                        true => Answer::Once { by: answer.by },
                        false => Answer::Denied { by: answer.by, message: answer.reason },
                    };
                }
                tree.forget_question(agent);
            }
            human.ask(approval).await
        })
    }
}

/// Asker of agents below a caller whom nobody can ask any more when the agent asks: the client's request has
/// ended by then. The question waits for whoever answers it elsewhere.
pub(crate) struct WaitingAsker;

impl Asker for WaitingAsker {
    fn ask<'a>(&'a self, approval: &'a Approval) -> BoxFuture<'a, Answer> {
        note(&format!("an agent waits for an answer: {}; `handfast approvals`", approval.id));
        Box::pin(async {
            tokio::time::sleep(FOR_HUMAN).await;
            Answer::Nobody {
                hint: "answer it with `handfast approvals`; then the agent can try again".to_owned(),
            }
        })
    }
}
