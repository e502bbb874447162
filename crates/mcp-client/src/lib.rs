//! A client of other MCP servers, in both eras of the protocol.
//!
//! A [`Client`] speaks with one server over a pair of streams ([`ProcessStreams`]) or over streamable HTTP
//! ([`HttpEndpoint`]). The modules around it treat what a server says as a stranger's words: [`definition`] pins the
//! definitions of tools, [`schema`] brings their schemas into the subset that every provider accepts, [`names`] names
//! them, [`text`] cleans their texts, and [`level`] weighs their claims; [`offer`] puts these together. [`config`] reads the servers of a
//! configuration, [`oauth`] logs in, [`restart`] decides about the life of a process, and [`cache`] keeps lists.
//!
//! The crate knows no engine, no policy and no files. It starts no process and opens no connection: the caller
//! hands in streams and an [`HttpTransport`], and answers a server's own requests ([`ServerRequests`]), all of which
//! are refused by default. Everything that a server sends has a bound ([`Limits`]). A message that breaks the protocol
//! ends the connection, because nobody knows which answer was lost with it.

mod bucket;
pub mod cache;
mod client;
pub mod config;
pub mod content;
mod core;
pub mod definition;
mod error;
mod event_stream;
pub mod expand;
mod failure;
mod handshake;
mod headers;
mod http;
mod input;
pub mod level;
mod limits;
mod lines;
mod listing;
mod message;
pub mod names;
pub mod oauth;
pub mod offer;
mod requests;
pub mod restart;
mod revision;
pub mod schema;
mod server;
mod sse;
mod stdio;
mod streamable;
mod tasks;
pub mod text;

pub use client::{Client, Completion, Options, ToolCall};
pub use error::{ClientError, CloseReason};
pub use handshake::{ClientName, FirstContact};
pub use http::{HttpAnswer, HttpBody, HttpEndpoint, HttpFailure, HttpMethod, HttpRequest, HttpTransport};
pub use limits::Limits;
pub use listing::{Listing, PromptArgument, PromptEntry, ResourceEntry, TemplateEntry};
pub use requests::{
    Abilities, Listener, NoListener, NoServerRequests, Notice, ProgressReport, ProgressSink, REFUSED,
    Refusal, ServerRequests,
};
pub use revision::{Era, Revision};
pub use server::{LONGEST_INSTRUCTIONS, Offers, ServerFacts};
pub use stdio::{ProcessStreams, ServerProcess};
