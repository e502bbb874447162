//! Memories of agents: texts by key, with all their versions.

use std::path::PathBuf;

use jiff::Timestamp;

/// A memory, in its current version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Id of the memory, which never changes.
    pub id: String,
    /// Key of the memory.
    pub key: String,
    /// Text of the memory.
    pub content: String,
    /// Version, from 1, incremented with each change.
    pub version: u64,
    /// True if every agent of the workspace sees it.
    pub shared: bool,
    /// Agent that created it.
    pub agent: String,
    /// Time of creation, in whole microseconds.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub changed_at: Timestamp,
}

/// One version of a memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryVersion {
    /// Number of the version, from 1.
    pub version: u64,
    /// `created`, `updated` or `deleted`.
    pub what: String,
    /// Text of this version; for a deletion, the last text.
    pub content: String,
    /// Time of the change.
    pub at: Timestamp,
    /// Agent that made the change.
    pub agent: String,
    /// Session of the change.
    pub session: String,
    /// Call of the change.
    pub call: String,
}

/// Identity of the agent and its call.
#[derive(Clone, Debug)]
pub struct MemoryCaller {
    /// Folder that the memories belong to.
    pub workspace: PathBuf,
    /// Name of the agent.
    pub agent: String,
    /// Session of the agent.
    pub session: String,
    /// Id of the call.
    pub call: String,
    /// Time of the call.
    pub now: Timestamp,
    /// True for a dry run: a change is computed and returned, but not made.
    pub only_tries: bool,
}

/// Outcome of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeOutcome {
    /// The change was made.
    Done(Memory),
    /// The key or id is unknown.
    Unknown,
    /// The memory already exists, or has another version than expected.
    Conflict(Memory),
    /// The agent has reached its maximum number of memories.
    Full,
}

/// A memory without a vector of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unembedded {
    /// Row number of the memory.
    pub number: i64,
    /// Version that the vectors must belong to.
    pub version: i64,
    /// Key of the memory; `None` if the key equals the id.
    pub key: Option<String>,
    /// Text of the memory.
    pub content: String,
}
