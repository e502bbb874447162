//! Notices between the processes of a state: changes, watchers of questions, and waiting calls.

use std::any::Any;
use std::collections::HashSet;
use std::path::Path;

use crate::error::StoreError;

/// A watch for changes that others make to the state. Each check is much cheaper than a read.
pub struct Watch(Box<dyn FnMut() -> Result<bool, StoreError> + Send>);

impl Watch {
    /// Creates a watch from its check.
    pub fn new(has_changed: impl FnMut() -> Result<bool, StoreError> + Send + 'static) -> Self {
        Self(Box::new(has_changed))
    }

    /// Returns true if anybody else, in any process, has changed anything since the last call.
    ///
    /// # Errors
    /// Returns an error if the state cannot be read.
    pub fn has_changed(&mut self) -> Result<bool, StoreError> {
        (self.0)()
    }
}

/// A mark that somebody watches questions as they arrive. The mark ends with this value, or when its
/// process is killed.
pub struct WatcherMark(
    #[expect(dead_code, reason = "the mark lasts as long as this value")] Box<dyn Any + Send + Sync>,
);

impl WatcherMark {
    /// Creates a mark that ends when `held` is dropped.
    pub fn new(held: impl Any + Send + Sync) -> Self {
        Self(Box::new(held))
    }
}

/// A mark that a call waits for the answer to a question. The mark ends with this value, or when its
/// process is killed.
#[derive(Debug)]
pub struct WaitingMark(
    #[expect(dead_code, reason = "the mark lasts as long as this value")] Box<dyn Any + Send + Sync>,
);

impl WaitingMark {
    /// Creates a mark that ends when `held` is dropped.
    pub fn new(held: impl Any + Send + Sync) -> Self {
        Self(Box::new(held))
    }
}

/// Life of a process that may have marked a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// The process lives.
    Lives,
    /// The process was killed.
    Died,
    /// No process has marked the name, or its mark has ended.
    Unknown,
}

/// A mark that the process that does something lives. The mark ends with this value, or when its process is
/// killed.
#[derive(Debug)]
pub struct LifeMark(
    #[expect(dead_code, reason = "the mark lasts as long as this value")] Box<dyn Any + Send + Sync>,
);

impl LifeMark {
    /// Creates a mark that ends when `held` is dropped.
    pub fn new(held: impl Any + Send + Sync) -> Self {
        Self(Box::new(held))
    }
}

/// The processes that use a state at the same time.
pub trait Presence: Send + Sync {
    /// Begins to watch for changes that others make.
    ///
    /// # Errors
    /// Returns an error if the state cannot be read.
    fn watch(&self) -> Result<Watch, StoreError>;

    /// Marks, for the life of the returned value, that somebody watches questions as they arrive.
    /// The watcher can answer those of the named workspace, or of all workspaces without a name.
    ///
    /// # Errors
    /// Returns an error if the state cannot be written.
    fn pay_attention(&self, workspace: Option<&Path>) -> Result<WatcherMark, StoreError>;

    /// Returns true if somebody watches questions who can answer those of this workspace.
    fn has_attention(&self, workspace: &Path) -> bool;

    /// Marks, for the life of the returned value, that a call waits for the answer to a question.
    ///
    /// # Errors
    /// Returns an error if the state cannot be written.
    fn wait_for(&self, question: &str, call: &str) -> Result<WaitingMark, StoreError>;

    /// Lists the questions that calls wait for.
    fn waited_for(&self) -> HashSet<String>;

    /// Marks, for the life of the returned value, that this process does what `name` stands for. `name` has
    /// letters, digits and `-` only.
    ///
    /// # Errors
    /// Returns an error if the state cannot be written.
    fn show_life(&self, name: &str) -> Result<LifeMark, StoreError>;

    /// Tells if the process lives that has marked this name.
    fn life_of(&self, name: &str) -> Life;
}
