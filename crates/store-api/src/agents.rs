//! Agents and their conversations, shared by all processes of a state.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use crate::error::StoreError;
use crate::schedules::as_text;

/// Maximum number of bytes of one entry's JSON: a long answer with a picture in it.
pub const ENTRY_BYTES_MAX: usize = 4 * 1024 * 1024;

/// An agent, which one process at a time runs.
///
/// All times are kept in whole microseconds. The name, the task and the outcome must have passed the
/// redaction. The store keeps `settings` as they are and does not read them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AgentRow {
    /// Id of the agent.
    pub id: String,
    /// Workspace in which the agent works.
    #[serde(serialize_with = "as_text")]
    pub workspace: PathBuf,
    /// Id of the agent that has started it; `None` if a person has.
    pub parent: Option<String>,
    /// Name for people and for other agents.
    pub name: String,
    /// Task, as the agent was given it.
    pub task: String,
    /// Name of the model.
    pub model: String,
    /// State of the agent.
    pub state: AgentState,
    /// JSON of all that bounds the agent: its ceiling, its caps, its budget.
    pub settings: String,
    /// Id of the call that has created it.
    pub created_by: String,
    /// Process that runs it, or has run it last.
    pub owner: String,
    /// Fence: each take has a higher one, and voids those before it. 1 for a new agent.
    pub epoch: u32,
    /// End of the owner's lease. Means nothing for an agent that has ended.
    pub held_until: Timestamp,
    /// Time of the creation.
    pub created_at: Timestamp,
    /// Time of the end.
    pub ended_at: Option<Timestamp>,
    /// Outcome, for people.
    pub outcome: Option<String>,
    /// Money that its models have cost, in millionths of a US dollar.
    pub spent_micro_usd: u64,
    /// Number of tokens that its models have used.
    pub spent_tokens: u64,
}

/// State of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AgentState {
    /// Running: its model works, or a tool does.
    Running,
    /// Idle: it waits for mail or for a person.
    Idle,
    /// Ended with success.
    Done,
    /// Ended without success.
    Failed,
    /// Ended because somebody has stopped it.
    Stopped,
    /// Ended because the lease of its owner has: the process has died.
    Interrupted,
}

/// Choice of agents for a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentFilter {
    /// Running and idle ones.
    Open,
    /// All, with those that have ended.
    All,
}

/// Outcome of adding an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentAddOutcome {
    /// The agent is stored.
    Added,
    /// The id is taken; nothing was changed.
    Taken,
    /// The workspace has its maximum of open agents; nothing was changed.
    Full,
}

/// One entry of a conversation: a message, a call or a result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ConversationEntry {
    /// Number within the conversation, which the caller chooses. Numbers rise, and may leave gaps.
    pub seq: u64,
    /// JSON of the entry, which the store does not read.
    pub json: String,
    /// Number of tokens that the entry takes of a model's window.
    pub tokens: u64,
}

impl AgentState {
    const ALL: [Self; 6] =
        [Self::Running, Self::Idle, Self::Done, Self::Failed, Self::Stopped, Self::Interrupted];

    /// Returns the word stored in the table.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Idle => "idle",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
            Self::Interrupted => "interrupted",
        }
    }

    /// Returns true if the agent has not ended.
    pub fn is_open(self) -> bool {
        matches!(self, Self::Running | Self::Idle)
    }
}

impl FromStr for AgentState {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|state| state.as_str() == text).ok_or(())
    }
}

/// The agents of a store.
///
/// An open agent has one owner, with a lease and an epoch. What an owner reports with an epoch that is no
/// longer the agent's, or about an agent that has ended, is refused: nothing is changed then, and the answer
/// is false. A lease that has ended is no obstacle while the agent is open and nobody else has taken it.
///
/// Every method blocks, and returns an error if the state cannot be read or written.
pub trait AgentStore: Send + Sync {
    /// Adds an agent, unless its workspace has `most_open` open ones.
    fn add(&self, row: &AgentRow, most_open: u32) -> Result<AgentAddOutcome, StoreError>;

    /// Returns one agent.
    fn find(&self, id: &str) -> Result<Option<AgentRow>, StoreError>;

    /// Lists the agents of a workspace, the newest first.
    fn list(&self, workspace: &Path, filter: AgentFilter, limit: u32) -> Result<Vec<AgentRow>, StoreError>;

    /// Lists the agents that an agent has started, in the order of their creation.
    fn children(&self, id: &str) -> Result<Vec<AgentRow>, StoreError>;

    /// Returns the newest agent of a workspace that a person has started: the one of this name, or any.
    fn latest(&self, workspace: &Path, name: Option<&str>) -> Result<Option<AgentRow>, StoreError>;

    /// Gives an agent to an owner until the end of the lease, and returns the epoch of the take. Returns
    /// `None` if the agent does not exist, or is open and another owner's lease has not ended. An agent that
    /// has ended is running again, without its end and its outcome; an open one keeps its state.
    fn take(
        &self,
        id: &str,
        owner: &str,
        now: Timestamp,
        lease: SignedDuration,
    ) -> Result<Option<u32>, StoreError>;

    /// Extends the lease. Returns false if the epoch is void, so that its owner must stop.
    fn renew(&self, id: &str, epoch: u32, held_until: Timestamp) -> Result<bool, StoreError>;

    /// Sets the state, with the outcome and the time of the end. Both are stored as they are given.
    /// Returns false if the epoch is void.
    fn set_state(
        &self,
        id: &str,
        epoch: u32,
        state: AgentState,
        outcome: Option<&str>,
        ended_at: Option<Timestamp>,
    ) -> Result<bool, StoreError>;

    /// Adds to what an agent has spent, whoever owns it. Sums end at [`i64::MAX`]. Returns false if the
    /// agent does not exist.
    fn add_spending(&self, id: &str, micro_usd: u64, tokens: u64) -> Result<bool, StoreError>;

    /// Appends entries to the conversation, all or none. Returns false if the epoch is void.
    ///
    /// # Errors
    /// [`StoreError::TooLong`] if an entry has more than [`ENTRY_BYTES_MAX`] bytes, and
    /// [`StoreError::EntryOutOfOrder`] if a number is not above that of the entry before it.
    fn append(&self, id: &str, epoch: u32, entries: &[ConversationEntry]) -> Result<bool, StoreError> {
        self.append_mail(id, epoch, entries, &[])
    }

    /// Appends entries like [`AgentStore::append`], and acknowledges the mails that are part of the entries, each
    /// by its id and the epoch of its claim: all or nothing, so that no crash delivers a mail twice or never. A
    /// claim that is void is left alone.
    ///
    /// # Errors
    /// Fails like [`AgentStore::append`].
    fn append_mail(
        &self,
        id: &str,
        epoch: u32,
        entries: &[ConversationEntry],
        mails: &[(i64, u32)],
    ) -> Result<bool, StoreError>;

    /// Returns the entries of a conversation from a number on, in their order.
    fn conversation(&self, id: &str, from_seq: u64) -> Result<Vec<ConversationEntry>, StoreError>;

    /// Replaces all entries up to and with `upto_seq` by one entry, which gets the number `upto_seq`.
    /// Returns false if the epoch is void.
    ///
    /// # Errors
    /// [`StoreError::TooLong`] as for [`append`](Self::append), and [`StoreError::EntryOutOfOrder`] if the
    /// conversation does not reach `upto_seq`.
    fn summarise(
        &self,
        id: &str,
        epoch: u32,
        upto_seq: u64,
        entry: &ConversationEntry,
    ) -> Result<bool, StoreError>;

    /// Deletes the agents that ended before a time, with their conversations, except the `newest` that ended
    /// last and those with an open child. Returns their number.
    fn prune(&self, before: Timestamp, newest: u32) -> Result<u64, StoreError>;
}
