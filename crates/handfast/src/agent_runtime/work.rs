//! The work of a main agent of this process: a turn, and further ones while agents below it work.

use std::sync::Arc;

use agents::{AgentEvent, Conversation, History, Inbox, Observer, Turn, TurnEnd, TurnReport};
use engine::{Door, Internal, Principal};
use llm::Message;
use store_api::AgentRow;
use tool::{SessionId, Stop};

use crate::agent_runtime::record::{AgentRecord, new_id, new_row, state_after, stored_text};
use crate::agent_runtime::runtime::AgentRuntime;
use crate::agent_runtime::start::{AgentPlan, MainAgent, ReadyAgent};
use crate::agent_runtime::tree::AgentTree;
use crate::failure::Failure;

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

impl AgentRuntime {
    /// Lets a new agent carry out a task on its own, such as that of a schedule.
    ///
    /// # Errors
    /// If the agent cannot begin, or the state cannot be written.
    pub(crate) async fn carry_out(
        &self,
        name: &str,
        parent: &str,
        task: &str,
        mut principal: Principal,
        tree: &Arc<AgentTree>,
        stop: &Stop,
    ) -> Result<TurnReport, Failure> {
        let id = new_id();
        principal.session = SessionId(id.clone());
        principal.door = Door::Internal(Internal::Agent);
        let created_by = principal.parent.clone();
        let plan = AgentPlan { id: id.clone(), session: id.clone(), ..AgentPlan::default() };
        let ready = self.ready(plan, principal).await?;
        let row = AgentRow {
            name: name.to_owned(),
            parent: Some(parent.to_owned()),
            task: stored_text(task),
            model: ready.model_name.clone(),
            created_by: created_by.map(|call| call.0).unwrap_or_default(),
            ..new_row(&id, &self.workspace, &format!("process {}", std::process::id()))
        };
        let record = AgentRecord::create(self.store.clone(), row).await?;
        let main = self.as_main(tree, &ready, &id, task, stop)?;
        let observer = Arc::new(|_: AgentEvent<'_>| {});
        let work = Work { ready: &ready, record: &record, main: &main, observer, stop: stop.clone() };
        let report = work.answer(&mut Conversation::default(), Message::user(task)).await;
        main.end().await;
        self.engine.end_session(&SessionId(id)).await;
        record.ended(&report, state_after(&report.end)).await?;
        Ok(report)
    }
}
