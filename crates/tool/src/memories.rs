//! Interface of the runtime for the tool about memory.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::ToolError;

/// Memory entry.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct MemoryEntry {
    /// Stable id.
    pub id: String,
    /// Key of the entry.
    pub key: String,
    /// Text; in a list only its beginning.
    pub content: String,
    /// Version number, increased by 1 with each change.
    pub version: u64,
    /// True if all agents of the workspace share the entry.
    pub shared: bool,
    /// Agent that created the entry.
    pub agent: String,
    /// Time of creation.
    #[schemars(with = "String")]
    pub created_at: Timestamp,
    /// Time of the last change.
    #[schemars(with = "String")]
    pub changed_at: Timestamp,
    /// Score of a search result, from 0 to 1; higher is better. Results are sorted by it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub similarity_score: Option<f64>,
}

/// One version of a memory entry.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct MemoryChange {
    /// Version number, starting at 1.
    pub version: u64,
    /// created, updated or deleted.
    pub what: String,
    /// Text of this version.
    pub content: String,
    /// Time of the change.
    #[schemars(with = "String")]
    pub at: Timestamp,
    /// Agent that made the change.
    pub agent: String,
    /// Session of the change.
    pub session: String,
    /// Call that made the change.
    pub call: String,
}

/// Part of a list of memory entries.
#[derive(Debug, Clone)]
pub struct MemoryPage {
    /// Entries in the order of the list.
    pub entries: Vec<MemoryEntry>,
    /// True if the list has more entries.
    pub has_more: bool,
}

/// Result of a search.
#[derive(Debug, Clone)]
pub struct MemoryFound {
    /// Matching entries, best match first.
    pub page: MemoryPage,
    /// Confidence that any entry answers the question, from 0 to 1.
    pub confidence: f64,
    /// True if the search used meaning in addition to words.
    pub by_meaning: bool,
    /// Number of entries without a vector, which the search matches by their words alone.
    pub waiting: u64,
    /// Reason why the search did not use meaning although a model is set up.
    pub without_model: Option<String>,
}

/// Memory of the calling agent: its own entries and the entries that the workspace shares.
pub trait Memories: Send + Sync {
    /// Stores a text. An entry with an empty key gets its id as key.
    ///
    /// # Errors
    /// `ECONFLICT` if the key exists already.
    fn create(&self, key: &str, content: &str, shared: bool) -> Result<MemoryEntry, ToolError>;

    /// Returns the entry with this key or id.
    ///
    /// # Errors
    /// `ENOTFOUND` if the entry does not exist.
    fn read(&self, key: &str) -> Result<MemoryEntry, ToolError>;

    /// Replaces the text of an entry.
    ///
    /// # Errors
    /// `ENOTFOUND` if the entry does not exist, `ECONFLICT` if its version differs from `version`.
    fn update(&self, key: &str, content: &str, version: Option<u64>) -> Result<MemoryEntry, ToolError>;

    /// Deletes an entry from every list; its history remains.
    ///
    /// # Errors
    /// Returns the errors of [`Memories::update`].
    fn delete(&self, key: &str, version: Option<u64>) -> Result<MemoryEntry, ToolError>;

    /// Lists the entries whose key starts with `prefix`, after skipping `skip` entries.
    ///
    /// # Errors
    /// Returns an error if the memory cannot be read.
    fn list(&self, prefix: &str, skip: u64, limit: u32) -> Result<MemoryPage, ToolError>;

    /// Searches for entries that match a question by words, and by meaning if a model is set up.
    ///
    /// # Errors
    /// Returns an error if the memory cannot be read, or if the call is being stopped.
    fn search(&self, question: &str, skip: u64, limit: u32) -> Result<MemoryFound, ToolError>;

    /// Lists every version of an entry, including a deleted one.
    ///
    /// # Errors
    /// `ENOTFOUND` if the entry never existed.
    fn history(&self, key: &str) -> Result<Vec<MemoryChange>, ToolError>;
}
