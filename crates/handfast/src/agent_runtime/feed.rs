//! Feed of what the agents of this process do, for doors and for callers that wait for agents.

use std::sync::Arc;

use agents::{AgentEvent as TurnEvent, Observer};
use engine::{AgentEvent, AgentView};
use serde_json::{Map, Value, json};
use store_api::AgentState;
use tokio::sync::broadcast;
use tokio::task::AbortHandle;
use tool::Progress;

use crate::agent_runtime::live::{LiveAgent, shown_address};
use crate::agent_runtime::record::stored_text;

/// Maximum number of events that wait for a slow receiver.
const WAITING_EVENTS: usize = 1_024;

/// Millionths of a dollar in a dollar.
const MICRO: f64 = 1e6;

/// Sender of the events of all agents.
pub(crate) struct Feed(broadcast::Sender<AgentEvent>);

impl Default for Feed {
    fn default() -> Self {
        Self(broadcast::Sender::new(WAITING_EVENTS))
    }
}

impl Feed {
    /// Tells everybody who follows it about an event of an agent.
    pub(crate) fn tell(&self, agent: &LiveAgent, event: &'static str, facts: Value, line: &str) {
        let facts = match facts {
            Value::Object(facts) => facts,
            _ => Map::new(),
        };
        let line = format!("agent {}: {line}", agent.id);
        let event = AgentEvent { agent: agent.id.clone(), event, facts, line, owner: agent.owner.clone() };
        if let Some(listener) = agent.identity.principal().listener {
            listener.take(&event);
        }
        // Without a receiver, nobody follows.
        let _ = self.0.send(event);
    }

    /// Changes the state of an agent, and tells it.
    pub(crate) fn set_state(&self, agent: &LiveAgent, state: AgentState) {
        let before = std::mem::replace(&mut agent.status.lock().state, state);
        if before != state {
            self.tell(agent, "state", json!({"state": state.as_str()}), state.as_str());
        }
    }

    /// Returns an observer that tells what an agent does, and hands each event on.
    pub(crate) fn observed(
        self: &Arc<Self>,
        agent: &Arc<LiveAgent>,
        next: Arc<dyn Observer>,
    ) -> Arc<dyn Observer> {
        Arc::new(Observed { feed: self.clone(), agent: agent.clone(), next })
    }

    /// Follows the events from now on.
    pub(crate) fn follow(&self) -> broadcast::Receiver<AgentEvent> {
        self.0.subscribe()
    }

    /// Reports what agents do as the progress of a call, until the result is dropped.
    pub(crate) fn report_to(
        &self,
        progress: Arc<dyn Progress>,
        of: impl Fn(&AgentEvent) -> bool + Send + 'static,
    ) -> Reported {
        let mut events = self.follow();
        let task = tokio::spawn(async move {
            let mut count = 0_u64;
            loop {
                match events.recv().await {
                    Ok(event) if of(&event) => {
                        count = count.saturating_add(1);
                        progress.report(count, None, &event.line);
                    }
                    Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => {}
                    Err(broadcast::error::RecvError::Closed) => return,
                }
            }
        });
        Reported(task.abort_handle())
    }
}

/// Reports of progress, which end when this value is dropped.
pub(crate) struct Reported(AbortHandle);

impl Drop for Reported {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Returns an agent as doors show it.
#[expect(clippy::cast_precision_loss, reason = "amounts in dollars are shown, and not counted with")]
pub(crate) fn view(agent: &LiveAgent) -> AgentView {
    let status = agent.status.lock().clone();
    let root = &agent.owner.root.0;
    AgentView {
        id: agent.id.clone(),
        parent: shown_address(&agent.parent, root).to_owned(),
        state: status.state.as_str(),
        task: stored_text(&agent.task),
        model: agent.model_name(),
        since: agent.since,
        tokens: status.tokens,
        usd: status.micro_usd as f64 / MICRO,
        limit_usd: agent.limit.money.map(llm::Usd::dollars),
        limit_tokens: agent.limit.tokens,
        outcome: status.outcome,
        owner: agent.owner.clone(),
    }
}

struct Observed {
    feed: Arc<Feed>,
    agent: Arc<LiveAgent>,
    next: Arc<dyn Observer>,
}

impl Observer for Observed {
    fn take(&self, event: TurnEvent<'_>) {
        let tell = |kind, facts, line: &str| self.feed.tell(&self.agent, kind, facts, line);
        match &event {
            TurnEvent::Delta(_) => {}
            TurnEvent::Answered { model, usage, cost, .. } => {
                {
                    let mut status = self.agent.status.lock();
                    status.tokens = status.tokens.saturating_add(usage.tokens());
                    let micro = cost.map_or(0, |cost| cost.trillionths().div_ceil(1_000_000));
                    status.micro_usd = status.micro_usd.saturating_add(micro);
                }
                let usd = cost.map(llm::Usd::dollars);
                let facts = json!({"model": model, "tokens": usage.tokens(), "usd": usd});
                tell("answered", facts, &format!("{model} answered"));
            }
            TurnEvent::CallBegins { name, .. } => {
                tell("call", json!({"tool": name}), &format!("calls {name}"));
            }
            TurnEvent::CallEnds { name, output, .. } => {
                let id = output.meta.as_ref().map(|meta| meta.call_id.0.clone());
                let facts = json!({"tool": name, "call_id": id, "ok": !output.is_error});
                let line = format!("{name} {}", if output.is_error { "failed" } else { "has ended" });
                tell("result", facts, &line);
            }
            TurnEvent::Received(_) => tell("message", json!({}), "got a message"),
            TurnEvent::Summarised { messages } => {
                tell("summarised", json!({"messages": messages}), "summarised its conversation");
            }
        }
        self.next.take(event);
    }
}
