//! MCP server: JSON-RPC over a pair of byte streams with one message per line, or with independent
//! messages.
//!
//! [`serve_stdio`] serves the process's standard streams, [`serve`] any others; [`Endpoint`]
//! handles messages of an HTTP server. One connection supports both forms of the protocol: the one
//! with a handshake (2024-11-05 to 2025-11-25), and the one with self-contained requests
//! (2026-07-28). [`ServerBackend`] is the content of a server: the engine's, or any other.
//!
//! This crate owns every type of the wire format and maps it to the vocabulary of `tool`. The crate
//! knows no tool, makes no decisions and stores nothing. It reads neither the environment nor the
//! configuration, and writes only messages to the output. Problems outside the protocol go to
//! [`Options::on_warning`].

mod active_request;
mod address;
mod agent_log;
mod answers;
mod asker;
mod by_retry;
mod call_data;
mod calls;
mod client_info;
mod connection;
mod decode;
mod dispatch;
mod endpoint;
mod engine_calls;
mod engine_server;
mod envelope;
mod envelope_scan;
mod foreign;
mod handler;
mod headers;
mod http_session;
mod id;
mod lines;
mod list;
mod log;
mod model_view;
mod notice;
mod notices;
mod options;
mod origin;
mod outbox;
mod page;
mod plain;
mod present;
mod progress;
mod question;
mod resources;
mod resumable_stream;
mod roots;
mod sampling;
mod serve;
mod server_backend;
mod signed_state;
mod stdio;
mod suspended;
mod tasks;

#[cfg(test)]
mod fake;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use engine::Engine;
use tokio::io::{AsyncRead, AsyncWrite};

pub use crate::active_request::{ActiveRequest, ElicitError};
pub use crate::answers::{Answers, PostOutcome, PostRefusal};
pub use crate::client_info::ClientInfo;
pub use crate::endpoint::Endpoint;
pub use crate::headers::{Headers, SingleHeader};
pub use crate::log::Severity;
pub use crate::model_view::{ModelTool, ModelView, model_tool, model_view};
pub use crate::notice::Notice;
pub use crate::notices::Notices;
pub use crate::options::{McpError, Options};
pub use crate::question::Elicitation;
pub use crate::resumable_stream::{Event, Follower, StreamMessage};
pub use crate::roots::{FirstMessages, ask_for_roots};
pub use crate::server_backend::{FutureResult, Reply, ServerBackend};

/// Serves the process's standard streams until the client closes its side or disconnects.
///
/// Returns after every call was stopped and has ended. Needs a tokio runtime with I/O and time;
/// pipes and sockets need no thread. If standard input is a terminal or a file, one of the
/// runtime's blocking threads reads it, which [`tokio::runtime::Runtime::shutdown_background`]
/// leaves behind.
///
/// # Errors
/// See [`McpError`]. A client that disconnects is not an error.
pub async fn serve_stdio(engine: Arc<Engine>, options: Options) -> Result<(), McpError> {
    let input = stdio::input().map_err(McpError::Streams)?;
    let output = stdio::output().map_err(McpError::Streams)?;
    serve(engine, options, input, output).await
}

/// Reads the first messages from the process's standard input, and asks the client for its roots if it
/// has any. See [`ask_for_roots`].
///
/// # Errors
/// If a stream cannot be read or written.
pub async fn ask_for_roots_on_stdio(options: &Options) -> std::io::Result<FirstMessages> {
    ask_for_roots(options, &mut stdio::input()?, &mut stdio::output()?).await
}

/// Serves the process's standard streams like [`serve_stdio`], after [`ask_for_roots_on_stdio`].
///
/// # Errors
/// See [`McpError`]. A client that disconnects is not an error.
pub async fn serve_stdio_after(
    first: FirstMessages,
    engine: Arc<Engine>,
    options: Options,
) -> Result<(), McpError> {
    let input = stdio::input().map_err(McpError::Streams)?;
    let output = stdio::output().map_err(McpError::Streams)?;
    let (input, output) = first.before(input, output);
    serve(engine, options, input, output).await
}

/// Serves one connection until the client closes its side or disconnects, then ends every call of
/// the engine.
///
/// # Errors
/// See [`McpError`]. A client that disconnects is not an error.
pub async fn serve<R, W>(engine: Arc<Engine>, options: Options, reader: R, writer: W) -> Result<(), McpError>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    serve::connect(engine, options, reader, writer).await
}
