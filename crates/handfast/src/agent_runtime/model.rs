//! The model of an agent: each request is a call of the tool `model_turn`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use agents::{AgentModel, ModelAnswer, ModelFailure, ModelFailureKind};
use engine::CallRequest;
use llm::{AttemptError, Capability, ChatRequest, ModelError, ModelInfo, RouteError, Sink, TaskType};
use parking_lot::Mutex;
use serde_json::json;
use tool::{BoxFuture, CallResult, Code, Stop, StopReason, ToolError};
use tools_agents::{ModelTurns, PendingTurn};

use crate::agent_runtime::identity::AgentIdentity;
use crate::agent_runtime::runtime::AgentRuntime;
use crate::failure::Failure;

/// The model of an agent.
pub(crate) struct EngineModel {
    pub(crate) identity: Arc<AgentIdentity>,
    pub(crate) parts: AgentRuntime,
    /// Name of the agent, within the ids of its requests.
    pub(crate) agent: String,
    pub(crate) task: TaskType,
    /// Model that was chosen by name. An agent can switch it.
    pub(crate) named: Mutex<Option<String>>,
    pub(crate) needs: Vec<Capability>,
    /// Session whose budget pays.
    pub(crate) session: String,
    /// Agents whose budgets pay.
    pub(crate) accounts: Vec<String>,
    pub(crate) next: AtomicU64,
}

impl EngineModel {
    /// Returns the name and the facts of the model that is asked first, or of the one that is named.
    ///
    /// # Errors
    /// If there is no such model with the abilities that the agent needs.
    pub(crate) fn preferred(&self, named: Option<&str>) -> Result<(String, ModelInfo), ToolError> {
        let offered = self.identity.principal().model;
        self.parts.models.preferred(self.task, named, offered.as_deref(), &self.needs)
    }
}

/// Request that is removed with its call, however the call ends.
struct Added<'a> {
    turns: &'a ModelTurns,
    id: String,
}

impl Drop for Added<'_> {
    fn drop(&mut self) {
        drop(self.turns.remove(&self.id));
    }
}

impl AgentModel for EngineModel {
    fn context(&self) -> Option<u32> {
        let named = self.named.lock().clone();
        self.preferred(named.as_deref()).ok()?.1.context
    }

    fn chat<'a>(
        &'a self,
        request: ChatRequest,
        sink: Box<dyn Sink>,
        stop: &'a Stop,
    ) -> BoxFuture<'a, Result<ModelAnswer, ModelFailure>> {
        Box::pin(async move {
            let id = format!("{}-{}", self.agent, self.next.fetch_add(1, Ordering::Relaxed));
            let mut arguments = json!({"turn": id, "task_type": self.task.word()});
            if let Some(named) = &*self.named.lock() {
                arguments["model"] = json!(named);
            }
            let principal = self.identity.principal();
            let pending = PendingTurn {
                request,
                agent: principal.session.0.clone(),
                needs: self.needs.clone(),
                session: self.session.clone(),
                agents: self.accounts.clone(),
                sink,
            };
            let turns = &self.parts.turns;
            turns.add(id.clone(), pending);
            let added = Added { turns, id };
            let mut call = CallRequest::new(principal, "model_turn", arguments);
            call.stop = stop.clone();
            let result = self.parts.engine.call(call).await;
            let answered = answer(added.turns.remove(&added.id), &result)?;
            // A fallback may have led to another provider, whose profile holds for the calls of this answer.
            let bound = self.identity.bind(&self.parts, &answered.model).await;
            let failed = |failure: Failure| ModelFailure {
                kind: ModelFailureKind::Other,
                message: format!("the profile of the provider cannot be used: {}", failure.error),
            };
            bound.map_err(failed)?;
            Ok(answered)
        })
    }
}

/// Returns the answer of the model, or the reason why there is none.
fn answer(
    end: Option<Result<llm::Routed, RouteError>>,
    result: &CallResult,
) -> Result<ModelAnswer, ModelFailure> {
    let told = |error: &ToolError| {
        let hint = error.hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
        format!("{}: {}{hint}", error.code, error.message)
    };
    let message = result.error().map_or_else(|| "the model gave no answer".to_owned(), told);
    let kind = match result.error().map(|error| error.code) {
        Some(Code::Cancelled) => ModelFailureKind::Stopped(StopReason::Cancelled),
        _ => ModelFailureKind::Other,
    };
    match end {
        // An answer that the audit could not record does not count.
        Some(Ok(routed)) if result.ok() => Ok(ModelAnswer {
            tried: routed
                .tried
                .iter()
                .map(|attempt| format!("{}: {}", attempt.model, attempt.error))
                .collect(),
            model: routed.model,
            cost: routed.cost,
            response: routed.response,
        }),
        Some(Err(error)) if is_too_long(&error) => {
            Err(ModelFailure { kind: ModelFailureKind::TooLong, message })
        }
        _ => Err(ModelFailure { kind, message }),
    }
}

fn is_too_long(error: &RouteError) -> bool {
    let last = error.tried.last().map(|attempt| &attempt.error);
    matches!(last, Some(AttemptError::Model(ModelError::ContextTooLong { .. })))
}
