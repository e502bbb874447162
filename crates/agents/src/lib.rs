//! Agents: the loop between a model and its tools, and the files that describe agents.
//!
//! A [`Turn`] takes a message, asks the model, makes the calls that the model wants, and goes on until the
//! model answers without a call or a limit of [`Bounds`] ends it. The [`Conversation`] grows with it, and is
//! summarised when it no longer fits.
//!
//! The crate knows no engine, no policy and no file. The model, the tools and the storage are the caller's,
//! behind [`AgentModel`], [`AgentTools`] and [`History`].

mod bounds;
mod compaction;
mod conversation;
mod definition;
mod interfaces;
mod turn;

pub use bounds::Bounds;
pub use conversation::{Conversation, StoredMessage};
pub use definition::{AgentDefinition, DefinitionError, is_agent_name};
pub use interfaces::{
    AgentEvent, AgentModel, AgentTools, History, HistoryError, Inbox, ModelAnswer, ModelFailure,
    ModelFailureKind, NoHistory, NoInbox, Observer, ToolOutput,
};
pub use turn::{Turn, TurnEnd, TurnReport};

#[cfg(test)]
mod tests;
