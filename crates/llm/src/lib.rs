//! Models of language, behind one trait.
//!
//! A [`Model`] answers a [`ChatRequest`]. [`RemoteModel`] is a model of a provider, whose requests leave
//! through the [`Transport`] of the caller; [`Router`] chooses among several models and falls back;
//! [`Ledger`] keeps what they cost within budgets, and so does a ledger of the caller, behind [`Reserve`].
//!
//! The crate knows no tools, no policy, no files and no keys. It opens no connection, reads no clock, and
//! needs no async runtime.

mod assembly;
mod budget;
mod error;
pub mod estimate;
mod info;
mod interrupt;
mod known;
mod lines;
mod message;
mod model;
mod money;
mod remote;
mod reserve;
mod response;
mod retry_after;
mod route;
mod sampled;
mod sse;
mod task;
mod transport;
mod usage;
mod wire;

pub use budget::{Amount, Ledger, Limit, OverBudget, Reservation, Scope, Settlement, WorstCase};
pub use error::{ModelError, Step, StreamFault};
pub use info::{Capability, ModelInfo, ThinkingControl};
pub use known::known;
pub use message::{
    CallFault, ChatRequest, Effort, Image, ImageFormat, Message, OutputFormat, Part, Role, Thought, ToolCall,
    ToolChoice, ToolDefinition, ToolResult,
};
pub use model::Model;
pub use money::{Price, Rates, Usd};
pub use remote::{Limits, Provider, RemoteModel};
pub use reserve::{Hold, Reserve, ReserveError};
pub use response::{Delta, Finish, Response, Sink};
pub use route::{
    Account, Attempt, AttemptError, Random, RetryRules, Route, RouteError, RouteFault, Routed, Router,
};
pub use sampled::{ANY_MODEL, SampledModel};
pub use task::{Routes, TaskType};
pub use transport::{Body, HttpRequest, HttpResponse, KeyHeader, Transport, TransportError};
pub use usage::Usage;
pub use wire::WireFormat;
