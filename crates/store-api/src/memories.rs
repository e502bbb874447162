//! Memories of agents: texts by key, with all their versions.

use std::path::PathBuf;

use jiff::Timestamp;

use crate::error::StoreError;

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

/// Memories that contain the terms of a question.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WordMatches {
    /// Number of memories that the agent sees.
    pub seen: u64,
    /// Row numbers of the memories that contain each term, in the order of the terms. Each has the
    /// factor of BM25 for the term's frequency and the length of the text.
    pub of_terms: Vec<Vec<(i64, f64)>>,
}

/// The memories of a store.
///
/// An agent sees its own memories and those shared in the workspace. A deleted memory disappears
/// from every list, but its history stays. The store keeps rows and an index of words; it ranks
/// nothing, and knows no model.
///
/// Every method blocks, and returns an error if the state cannot be read or written.
pub trait Memories: Send + Sync {
    /// Gives an agent the memories under the name that an earlier version used for it. On a key
    /// conflict, the agent keeps its own memory.
    fn adopt(&self, earlier: &str, agent: &str) -> Result<(), StoreError>;

    /// Creates a memory under a key that is new to every agent that would see it.
    fn create(
        &self,
        who: &MemoryCaller,
        id: &str,
        key_and_content: (&str, &str),
        shared: bool,
    ) -> Result<ChangeOutcome, StoreError>;

    /// Returns the memory with this key or id.
    fn read(&self, who: &MemoryCaller, key: &str) -> Result<Option<Memory>, StoreError>;

    /// Replaces the text of a memory, if it still has the expected version.
    fn update(
        &self,
        who: &MemoryCaller,
        key: &str,
        content: &str,
        expected: Option<u64>,
    ) -> Result<ChangeOutcome, StoreError>;

    /// Deletes a memory from every list; its history stays.
    fn delete(
        &self,
        who: &MemoryCaller,
        key: &str,
        expected: Option<u64>,
    ) -> Result<ChangeOutcome, StoreError>;

    /// Lists the memories whose key begins with `prefix`, by key: as many as `limit` after the first
    /// `skip`, and whether more follow.
    fn list(
        &self,
        who: &MemoryCaller,
        prefix: &str,
        skip_and_limit: (u64, u32),
    ) -> Result<(Vec<Memory>, bool), StoreError>;

    /// Lists all versions of the memory with this id or key, oldest first, even if the memory is
    /// deleted.
    fn history(&self, who: &MemoryCaller, key: &str) -> Result<Vec<MemoryVersion>, StoreError>;

    /// Finds the memories that contain each term, at most `most` for one term. A term is a word or
    /// several words in a row, separated by spaces; none of its characters is an operator.
    fn with_words(&self, who: &MemoryCaller, terms: &[String], most: u32) -> Result<WordMatches, StoreError>;

    /// Calls `visit` with the row number and each encoded vector of every memory that has vectors of
    /// this model for its current version.
    fn vectors(
        &self,
        who: &MemoryCaller,
        model: &[u8; 32],
        visit: &mut dyn FnMut(i64, &[u8]),
    ) -> Result<(), StoreError>;

    /// Returns the memories with these row numbers, in the order of the numbers. Leaves out those
    /// that are deleted, and those that the agent does not see.
    fn numbered(&self, who: &MemoryCaller, numbers: &[i64]) -> Result<Vec<(i64, Memory)>, StoreError>;

    /// Counts the memories without a vector of this model. Returns the newest of them, at most
    /// `most`.
    fn unembedded(
        &self,
        who: &MemoryCaller,
        model: &[u8; 32],
        most: u32,
    ) -> Result<(u64, Vec<Unembedded>), StoreError>;

    /// Replaces the vectors of memories, one encoded vector for each piece of text, if the memories
    /// still have that version.
    fn keep_vectors(&self, model: &[u8; 32], of: &[(&Unembedded, Vec<Vec<u8>>)]) -> Result<(), StoreError>;
}
