//! The durable part of an agent: its row, its lease, and its conversation.

use std::sync::Arc;
use std::time::Duration;

use agents::{Conversation, History, HistoryError, StoredMessage, TurnEnd, TurnReport};
use jiff::{SignedDuration, Timestamp};
use store_api::{AgentAddOutcome, AgentRow, AgentState, ConversationEntry, Store, StoreError};
use tool::{BoxFuture, Clock as _, Stop, StopReason};

use crate::clock::SystemClock;
use crate::failure::Failure;
use crate::report::covered;

/// Time after which another process may continue an agent whose process tells nothing more.
const LEASE: SignedDuration = SignedDuration::from_secs(60);
/// Time between two extensions of the lease.
const RENEW_EVERY: Duration = Duration::from_secs(20);
/// Maximum number of open agents of a workspace.
pub(crate) const MOST_OPEN: u32 = 256;
/// Maximum number of characters of an outcome and a task in a row.
const LONGEST_TEXT: usize = 4_000;
/// Number of ended agents whose conversations are kept in any case, and the age from which others go.
const KEPT: (u32, SignedDuration) = (100, SignedDuration::from_hours(30 * 24));

/// The durable part of an agent that this process runs.
pub(crate) struct AgentRecord {
    store: Arc<dyn Store>,
    pub(crate) id: String,
    epoch: u32,
}

/// Runs blocking work of the store.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, String> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(|error| error.to_string()),
        Err(_) => Err("the program ends".to_owned()),
    }
}

/// Returns the id of a new agent.
pub(crate) fn new_id() -> String {
    let mut random = [0_u8; 5];
    // Without the system's random source, the time distinguishes agents well enough.
    if getrandom::fill(&mut random).is_err() {
        let now = SystemClock.now().as_millisecond().to_be_bytes();
        random.copy_from_slice(now.get(3..).unwrap_or(&[0; 5]));
    }
    random.iter().fold("a".to_owned(), |id, byte| format!("{id}{byte:02x}"))
}

/// Returns a row for a new agent of this process.
pub(crate) fn new_row(id: &str, workspace: &std::path::Path, owner: &str) -> AgentRow {
    let now = SystemClock.now();
    AgentRow {
        id: id.to_owned(),
        workspace: workspace.to_owned(),
        parent: None,
        name: String::new(),
        task: String::new(),
        model: String::new(),
        state: AgentState::Running,
        settings: "{}".to_owned(),
        created_by: String::new(),
        owner: owner.to_owned(),
        epoch: 1,
        held_until: until(now),
        created_at: now,
        ended_at: None,
        outcome: None,
        spent_micro_usd: 0,
        spent_tokens: 0,
    }
}

fn until(now: Timestamp) -> Timestamp {
    now.checked_add(LEASE).unwrap_or(now)
}

/// Returns the beginning of a text, without secrets, for a row.
pub(crate) fn stored_text(text: &str) -> String {
    covered(text).chars().take(LONGEST_TEXT).collect()
}

impl AgentRecord {
    /// Stores a new agent.
    ///
    /// # Errors
    /// If the workspace has its maximum of agents, or the state cannot be written.
    pub(crate) async fn create(store: Arc<dyn Store>, row: AgentRow) -> Result<Self, Failure> {
        let (id, used) = (row.id.clone(), store.clone());
        let added = blocking(move || {
            let now = SystemClock.now();
            let agents = used.agents();
            agents.expire(now)?;
            agents.prune(now.checked_sub(KEPT.1).unwrap_or(now), KEPT.0)?;
            agents.add(&row, MOST_OPEN)
        });
        match added.await.map_err(Failure::from)? {
            AgentAddOutcome::Added => Ok(Self { store, id, epoch: 1 }),
            AgentAddOutcome::Taken => Err(Failure::from(format!("there is an agent {id} already"))),
            AgentAddOutcome::Full => Err(Failure::from(format!(
                "the workspace has {MOST_OPEN} open agents; `handfast agents` lists them"
            ))),
        }
    }

    /// Continues an agent, and returns its conversation.
    ///
    /// # Errors
    /// If another process runs it, or the state cannot be read.
    pub(crate) async fn resume(
        store: Arc<dyn Store>,
        row: &AgentRow,
        owner: &str,
    ) -> Result<(Self, Conversation), Failure> {
        let (id, owner, used) = (row.id.clone(), owner.to_owned(), store.clone());
        let taken = blocking(move || {
            let Some(epoch) = used.agents().take(&id, &owner, SystemClock.now(), LEASE)? else {
                return Ok(None);
            };
            Ok(Some((epoch, used.agents().conversation(&id, 0)?)))
        });
        let Some((epoch, entries)) = taken.await.map_err(Failure::from)? else {
            return Err(Failure::from(format!(
                "{} runs the agent {} now; end it first, or wait a minute if it was killed",
                row.owner, row.id
            )));
        };
        let messages = entries.into_iter().map(|entry| serde_json::from_str::<StoredMessage>(&entry.json));
        let messages = messages.collect::<Result<Vec<_>, _>>().map_err(|error| {
            Failure::from(format!("the conversation of the agent {} cannot be read: {error}", row.id))
        })?;
        let record = Self { store, id: row.id.clone(), epoch };
        let (conversation, added) = Conversation::restored(messages);
        record.append(&added).await.map_err(|error| Failure::from(error.to_string()))?;
        Ok((record, conversation))
    }

    /// Extends the lease until it is dropped, and stops the agent if another process has taken it.
    pub(crate) async fn keep(&self, stop: &Stop) {
        let mut ticks = tokio::time::interval(RENEW_EVERY);
        loop {
            ticks.tick().await;
            let (store, id, epoch) = (self.store.clone(), self.id.clone(), self.epoch);
            let renewed = blocking(move || store.agents().renew(&id, epoch, until(SystemClock.now())));
            // The lease lasts longer than some renewals that fail.
            if renewed.await == Ok(false) {
                stop.request(StopReason::Cancelled);
                return;
            }
        }
    }

    /// Records that a turn begins. The record only tells others what the agent does.
    pub(crate) async fn working(&self) {
        let (store, id, epoch) = (self.store.clone(), self.id.clone(), self.epoch);
        let told = blocking(move || store.agents().set_state(&id, epoch, AgentState::Running, None, None));
        let _only_told = told.await;
    }

    /// Records the end of a turn: what it has cost, and the state of the agent.
    pub(crate) async fn ended(&self, report: &TurnReport, state: AgentState) -> Result<(), Failure> {
        let outcome = match &report.end {
            TurnEnd::Answer(text) | TurnEnd::Limit(text) | TurnEnd::Failed(text) => stored_text(text),
            TurnEnd::Stopped(_) => "stopped".to_owned(),
        };
        let (micro, tokens) = (report.cost.trillionths().div_ceil(1_000_000), report.usage.tokens());
        let (store, id, epoch) = (self.store.clone(), self.id.clone(), self.epoch);
        let recorded = blocking(move || {
            let agents = store.agents();
            agents.add_spending(&id, micro, tokens)?;
            let ended_at = (!state.is_open()).then(|| SystemClock.now());
            agents.set_state(&id, epoch, state, Some(&outcome), ended_at)
        });
        recorded.await.map(drop).map_err(Failure::from)
    }
}

/// Returns the state of an agent that ends with its turn.
pub(crate) fn state_after(end: &TurnEnd) -> AgentState {
    match end {
        TurnEnd::Answer(_) => AgentState::Done,
        TurnEnd::Stopped(_) => AgentState::Stopped,
        TurnEnd::Limit(_) | TurnEnd::Failed(_) => AgentState::Failed,
    }
}

/// Returns an entry of the store. Its tokens are an estimate.
fn entry(stored: &StoredMessage) -> Result<ConversationEntry, HistoryError> {
    let json = serde_json::to_string(stored).map_err(|error| HistoryError(error.to_string()))?;
    let tokens = u64::try_from(json.len() / 3).unwrap_or(u64::MAX);
    // Results have passed the redaction, and what people and models wrote has not.
    Ok(ConversationEntry { seq: stored.number, json: covered(&json).into_owned(), tokens })
}

const TAKEN: &str = "another process continues this agent";

impl History for AgentRecord {
    fn append<'a>(&'a self, messages: &'a [StoredMessage]) -> BoxFuture<'a, Result<(), HistoryError>> {
        Box::pin(async move {
            if messages.is_empty() {
                return Ok(());
            }
            let entries = messages.iter().map(entry).collect::<Result<Vec<_>, _>>()?;
            let (store, id, epoch) = (self.store.clone(), self.id.clone(), self.epoch);
            let appended = blocking(move || store.agents().append(&id, epoch, &entries));
            if appended.await.map_err(HistoryError)? { Ok(()) } else { Err(HistoryError(TAKEN.to_owned())) }
        })
    }

    fn summarise<'a>(
        &'a self,
        up_to: u64,
        summary: &'a StoredMessage,
    ) -> BoxFuture<'a, Result<(), HistoryError>> {
        Box::pin(async move {
            let entry = entry(summary)?;
            let (store, id, epoch) = (self.store.clone(), self.id.clone(), self.epoch);
            let replaced = blocking(move || store.agents().summarise(&id, epoch, up_to, &entry));
            if replaced.await.map_err(HistoryError)? { Ok(()) } else { Err(HistoryError(TAKEN.to_owned())) }
        })
    }
}
