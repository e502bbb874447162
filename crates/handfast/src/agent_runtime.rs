//! Agents: the loop of the crate `agents` over the engine of a runtime.
//!
//! A request to a model and a call of a tool are both calls of the engine, by the agent's principal. So an
//! agent can do nothing that its principal may not, and the audit has all that it did.

mod asker;
mod child;
mod feed;
mod files;
mod host;
mod identity;
mod live;
mod mailbox;
mod model;
mod offered;
mod record;
mod runtime;
mod start;
mod tools;
mod tree;
mod waiting_asker;
mod work;

pub(crate) use files::AgentFiles;
pub(crate) use host::Host;
#[cfg(feature = "cli")]
pub(crate) use record::{AgentRecord, StoredLimits, expire, new_id, new_row, state_after, stored_text};
pub(crate) use runtime::{AgentParts, AgentRuntime};
#[cfg(feature = "cli")]
pub(crate) use start::{AgentPlan, MainAgent, ReadyAgent};
pub(crate) use tree::AgentTree;
#[cfg(feature = "cli")]
pub(crate) use work::{Work, turn};
