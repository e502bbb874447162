//! The life of an agent that another one has started: its task, then whatever it is asked.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use agents::{AgentEvent, Conversation, Observer, TurnEnd, TurnReport};
use llm::{Message, Usage, Usd};
use parking_lot::Mutex;
use serde_json::{Value, json};
use store_api::{AgentState, Priority};
use tool::SessionId;

use crate::agent_runtime::mailbox::{Letter, Mailbox};
use crate::agent_runtime::record::{AgentRecord, state_after, stored_text};
use crate::agent_runtime::start::ReadyAgent;
use crate::agent_runtime::tree::{LiveAgent, RunningLoop, shown_address};
use crate::agent_runtime::work::turn;
use crate::report::warn;

/// Time after which an idle agent ends.
const IDLE: Duration = Duration::from_hours(1);
/// Maximum number of files that a result names.
const MOST_FILES: usize = 200;

/// An agent that is about to begin.
pub(crate) struct Child {
    pub(crate) live: Arc<LiveAgent>,
    pub(crate) ready: ReadyAgent,
    pub(crate) record: AgentRecord,
    pub(crate) mailbox: Mailbox,
    /// Mark that its loop runs.
    pub(crate) running: RunningLoop,
}

/// Files that an agent has written, by its calls.
#[derive(Default)]
struct Files {
    begun: Mutex<Vec<(String, String)>>,
    written: Mutex<BTreeSet<String>>,
}

impl Observer for Files {
    fn take(&self, event: AgentEvent<'_>) {
        match event {
            AgentEvent::CallBegins { id, arguments, .. } => {
                let path = ["path", "save_path"].iter().find_map(|name| arguments.get(*name)?.as_str());
                if let Some(path) = path {
                    self.begun.lock().push((id.to_owned(), path.to_owned()));
                }
            }
            AgentEvent::CallEnds { id, output, .. } => {
                let mut begun = self.begun.lock();
                let Some(place) = begun.iter().position(|(begun, _)| begun == id) else { return };
                let (_, path) = begun.swap_remove(place);
                let has_changed = output.meta.as_ref().is_some_and(|meta| meta.checkpoint.is_some());
                let mut written = self.written.lock();
                if has_changed && !output.is_error && written.len() < MOST_FILES {
                    written.insert(path);
                }
            }
            _ => {}
        }
    }
}

impl Child {
    /// Lives until the agent is stopped, or nobody has asked it anything for an hour.
    pub(crate) async fn live(self) {
        let id = self.live.id.clone();
        let (tree, post) = (self.mailbox.post.tree.clone(), self.mailbox.post.clone());
        {
            let kept = self.record.keep(&self.live.stop);
            let worked = self.work();
            tokio::pin!(kept, worked);
            tokio::select! {
                () = &mut worked => {}
                // The lease is lost, and with it the right to record anything. The stop ends the work.
                () = &mut kept => worked.await,
            }
        }
        tree.stop_below(&id);
        post.bury(&id).await;
        // Background commands, the network and the browser of the agent end with it.
        self.ready.model.parts.engine.end_session(&SessionId(id)).await;
        drop(self.running);
    }

    async fn work(&self) {
        let mut conversation = Conversation::default();
        let files = Arc::new(Files::default());
        let turn = turn(&self.ready, &self.record, &self.mailbox, files.clone(), self.live.stop.clone());
        let mut message = Some(Message::user(self.live.task.clone()));
        loop {
            self.live.status.lock().state = AgentState::Running;
            let report = turn.run(&mut conversation, message.take()).await;
            let is_stopped = self.live.stop.requested().is_some();
            let ends = is_stopped || !matches!(report.end, TurnEnd::Answer(_));
            let state = if ends { state_after(&report.end) } else { AgentState::Idle };
            self.ended(&report, state, &files).await;
            if ends || !self.asked().await {
                if !ends {
                    // The turn has been paid for already.
                    let (usage, cost) = (Usage::default(), Usd::ZERO);
                    self.record_state(&TurnReport { usage, cost, ..report }, AgentState::Done).await;
                    self.live.status.lock().state = AgentState::Done;
                }
                return;
            }
        }
    }

    /// Records the end of a turn, answers those who have asked, and sends the result of the task.
    async fn ended(&self, report: &TurnReport, state: AgentState, files: &Files) {
        let (status, summary) = match &report.end {
            TurnEnd::Answer(text) => ("success", text.clone()),
            TurnEnd::Stopped(_) => ("stopped", "the agent was stopped".to_owned()),
            TurnEnd::Limit(why) | TurnEnd::Failed(why) => ("failure", why.clone()),
        };
        let is_first = {
            let mut now = self.live.status.lock();
            now.outcome = Some(stored_text(&summary));
            !std::mem::replace(&mut now.has_reported, true)
        };
        self.record_state(report, state).await;
        let told = match &report.end {
            TurnEnd::Answer(_) => summary.clone(),
            _ => format!("[the agent did not finish: {summary}]"),
        };
        if let Err(error) = self.mailbox.answer_all(&told).await {
            warn(&format!("the agent {} cannot answer: {}", self.live.id, error.message));
        }
        if is_first {
            self.report(status, &summary, files).await;
        }
        // Whoever sees that the agent no longer works finds its messages.
        self.live.status.lock().state = state;
    }

    async fn record_state(&self, report: &TurnReport, state: AgentState) {
        if let Err(failure) = self.record.ended(report, state).await {
            warn(&format!("the end of the agent {} is not recorded: {}", self.live.id, failure.error));
        }
    }

    /// Sends the result of the task to the main agent.
    async fn report(&self, status: &str, summary: &str, files: &Files) {
        let written: Vec<Value> = files.written.lock().iter().map(|path| json!(path)).collect();
        let result = json!({
            "type": "task_result",
            "status": status,
            "data": {"summary": stored_text(summary), "files_generated": written},
        });
        let letter = Letter {
            from: self.live.id.clone(),
            to: self.live.root.clone(),
            text: result.to_string(),
            priority: Priority::Standard,
            valid: None,
        };
        if let Err(error) = self.mailbox.post.send(letter).await {
            let root = shown_address(&self.live.root, &self.live.root);
            warn(&format!(
                "the result of the agent {} does not reach agent {root}: {}",
                self.live.id, error.message
            ));
        }
    }

    /// Waits for a message. Returns false if the agent ends first.
    async fn asked(&self) -> bool {
        let wake = self.mailbox.post.tree.wake_of(&self.live.id);
        let idle = tokio::time::sleep(IDLE);
        tokio::pin!(idle);
        loop {
            if self.live.stop.requested().is_some() {
                return false;
            }
            if self.mailbox.has_messages().await {
                return true;
            }
            tokio::select! {
                () = wake.notified() => {}
                () = &mut idle => return false,
            }
        }
    }
}
