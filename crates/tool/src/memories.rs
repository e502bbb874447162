//! What the tool about memory needs of the runtime.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::ToolError;

/// Something remembered.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct MemoryEntry {
    /// Its id, which never changes.
    pub id: String,
    /// Its name.
    pub key: String,
    /// The text; in a list its beginning.
    pub content: String,
    /// One more with each change.
    pub version: u64,
    /// For all agents of the workspace.
    pub shared: bool,
    /// Who made it.
    pub agent: String,
    /// When.
    #[schemars(with = "String")]
    pub created_at: Timestamp,
    /// When it was changed last.
    #[schemars(with = "String")]
    pub changed_at: Timestamp,
    /// Of a search: how well it fits, from 0 to 1; the order goes by it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub similarity_score: Option<f64>,
}

/// One version of it.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct MemoryChange {
    /// From 1.
    pub version: u64,
    /// created, updated or deleted.
    pub what: String,
    /// The text then.
    pub content: String,
    /// When.
    #[schemars(with = "String")]
    pub at: Timestamp,
    /// By whom.
    pub agent: String,
    /// In which session.
    pub session: String,
    /// By which call.
    pub call: String,
}

/// A part of a list of memories.
#[derive(Debug, Clone)]
pub struct MemoryPage {
    /// In order.
    pub entries: Vec<MemoryEntry>,
    /// Whether there are more.
    pub has_more: bool,
}

/// What a search found.
#[derive(Debug, Clone)]
pub struct MemoryFound {
    /// The most fitting first.
    pub page: MemoryPage,
    /// How sure it is that any entry answers the question, from 0 to 1.
    pub confidence: f64,
    /// Whether the meaning counted beside the words.
    pub by_meaning: bool,
    /// Entries that have no vector yet, and are found by their words alone.
    pub waiting: u64,
    /// Why the meaning did not count although a model is set up.
    pub without_model: Option<String>,
}

/// The memory of the agent that calls: its own entries, and those that are shared in the workspace.
pub trait Memories: Send + Sync {
    /// Remembers a text, under its id where the key is empty.
    ///
    /// # Errors
    /// `ECONFLICT` where the key is there already.
    fn create(&self, key: &str, content: &str, shared: bool) -> Result<MemoryEntry, ToolError>;

    /// The one of this key or id.
    ///
    /// # Errors
    /// `ENOTFOUND` where there is none.
    fn read(&self, key: &str) -> Result<MemoryEntry, ToolError>;

    /// Gives it another text.
    ///
    /// # Errors
    /// `ENOTFOUND` where there is none, `ECONFLICT` where it has another version than this.
    fn update(&self, key: &str, content: &str, version: Option<u64>) -> Result<MemoryEntry, ToolError>;

    /// Takes it out of every list; its history stays.
    ///
    /// # Errors
    /// As [`Memories::update`].
    fn delete(&self, key: &str, version: Option<u64>) -> Result<MemoryEntry, ToolError>;

    /// Those whose key begins so, from the place `skip` on.
    ///
    /// # Errors
    /// Where it cannot be read.
    fn list(&self, prefix: &str, skip: u64, limit: u32) -> Result<MemoryPage, ToolError>;

    /// What fits a question, by its words, and by its meaning where a model is set up.
    ///
    /// # Errors
    /// Where it cannot be read, or the call is to end.
    fn search(&self, question: &str, skip: u64, limit: u32) -> Result<MemoryFound, ToolError>;

    /// Every version, also of one that is deleted.
    ///
    /// # Errors
    /// `ENOTFOUND` where there never was one.
    fn history(&self, key: &str) -> Result<Vec<MemoryChange>, ToolError>;
}
