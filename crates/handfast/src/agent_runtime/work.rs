//! The work of a main agent of this process: a turn, and further ones while agents below it work.

use std::sync::Arc;

use agents::{Conversation, History, Inbox, Observer, Turn, TurnEnd, TurnReport};
use llm::Message;
use tool::Stop;

use crate::agent_runtime::record::AgentRecord;
use crate::agent_runtime::start::{MainAgent, ReadyAgent};

/// Returns a turn of an agent.
pub(crate) fn turn<'a>(
    ready: &'a ReadyAgent,
    history: &'a dyn History,
    inbox: &'a dyn Inbox,
    observer: Arc<dyn Observer>,
    stop: Stop,
) -> Turn<'a> {
    Turn {
        system: ready.system.clone(),
        temperature: ready.temperature,
        bounds: ready.bounds,
        model: ready.model.as_ref(),
        tools: &ready.tools,
        history,
        inbox,
        observer,
        stop,
    }
}

/// A main agent at work.
pub(crate) struct Work<'a> {
    pub(crate) ready: &'a ReadyAgent,
    pub(crate) record: &'a AgentRecord,
    pub(crate) main: &'a MainAgent,
    pub(crate) observer: Arc<dyn Observer>,
    pub(crate) stop: Stop,
}

impl Work<'_> {
    /// Answers a message. The results of agents below may change the answer, so the agent waits for them.
    /// Holds the lease of the agent meanwhile.
    pub(crate) async fn answer(&self, conversation: &mut Conversation, message: Message) -> TurnReport {
        let kept = self.record.keep(&self.stop);
        let worked = self.turns(conversation, message);
        tokio::pin!(kept, worked);
        tokio::select! {
            report = &mut worked => report,
            // Another process has taken the agent. The stop ends the work.
            () = &mut kept => worked.await,
        }
    }

    async fn turns(&self, conversation: &mut Conversation, message: Message) -> TurnReport {
        let Self { ready, record, main, observer, stop } = self;
        let turn = turn(ready, *record, &main.mailbox, observer.clone(), stop.clone());
        let mut report = turn.run(conversation, Some(message)).await;
        while matches!(report.end, TurnEnd::Answer(_)) && main.awaits_messages(stop).await {
            report = turn.run(conversation, None).await.after(&report);
        }
        report
    }
}
