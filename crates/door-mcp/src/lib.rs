//! MCP server: JSON-RPC over a pair of byte streams with one message per line, or with independent
//! messages.
//!
//! [`serve_stdio`] serves the process's standard streams, [`serve`] any others; [`Endpoint`]
//! handles messages of an HTTP server. One connection supports both forms of the protocol: the one
//! with a handshake (2024-11-05 to 2025-11-25), and the one with self-contained requests
//! (2026-07-28).
//!
//! This crate owns every type of the wire format and maps it to the vocabulary of `tool`. The crate
//! knows no tool, makes no decisions and stores nothing. It reads neither the environment nor the
//! configuration, and writes only messages to the output. Problems outside the protocol go to
//! [`Options::on_warning`].

mod active_request;
mod address;
mod asker;
mod calls;
mod client_info;
mod conformance;
mod connection;
mod decode;
mod dispatch;
mod endpoint;
mod engine_server;
mod envelope;
mod envelope_scan;
mod handler;
mod headers;
mod http_session;
mod id;
mod lines;
mod list;
mod log;
mod notices;
mod origin;
mod outbox;
mod page;
mod plain;
mod present;
mod progress;
mod question;
mod resources;
mod resumable_stream;
mod server_backend;
mod signed_state;
mod stdio;
mod tasks;
mod transport;

#[cfg(test)]
mod fake;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use dialects::{CatalogueKind, Dialect};
use engine::Engine;
use tokio::io::{AsyncRead, AsyncWrite};
use tool::SessionId;

use crate::calls::Calls;
pub use crate::dispatch::holds_too_many_values;
pub use crate::endpoint::{Answers, Endpoint, PostOutcome, PostRefusal, StreamMessage};
pub use crate::headers::{Headers, SingleHeader};
pub use crate::question::Elicitation;
pub use crate::resumable_stream::{Event, Follower};

/// Options of a server.
#[derive(Clone)]
pub struct Options {
    /// Name of the program.
    pub name: String,
    /// Display name of the program.
    pub title: Option<String>,
    /// Version of the program.
    pub version: String,
    /// General instructions for models, about the tools as a whole.
    pub instructions: Option<String>,
    /// Dialect: names and schemas of the engine's tools.
    pub dialect: Dialect,
    /// Selection of the listed tools, and the detail of their descriptions.
    pub catalogue: CatalogueKind,
    /// Session of this connection in the audit log. Permissions for a session apply to it alone.
    pub session: SessionId,
    /// Owner of the session, for work that can outlive it.
    pub holder: Option<SessionId>,
    /// Maximum size of a message, in bytes. A larger one is answered with an error.
    pub message_limit: usize,
    /// Questions that may be put to the client's user.
    pub elicitation: Elicitation,
    /// Maximum wait for the answer to a question.
    pub patience: Duration,
    /// True to offer the fixtures of the protocol's test suite in place of the engine's tools.
    pub conformance: bool,
    /// Callback for warnings about problems outside the protocol, in one sentence.
    pub on_warning: Arc<dyn Fn(&str) + Send + Sync>,
}

impl Options {
    /// Default maximum size of a message: 32 MiB (design section 4).
    pub const MESSAGE_LIMIT: usize = 32 * 1024 * 1024;

    /// Default wait for the answer to a question: ten minutes.
    pub const TIMEOUT: Duration = Duration::from_mins(10);

    /// Returns the default options: the limits above, the default dialect, the core catalogue, and
    /// warnings discarded.
    pub fn new(name: impl Into<String>, version: impl Into<String>, session: SessionId) -> Self {
        Self {
            name: name.into(),
            title: None,
            version: version.into(),
            instructions: None,
            dialect: Dialect::default(),
            catalogue: CatalogueKind::Core,
            session,
            holder: None,
            message_limit: Self::MESSAGE_LIMIT,
            elicitation: Elicitation::default(),
            patience: Self::TIMEOUT,
            conformance: false,
            on_warning: Arc::new(|_| {}),
        }
    }
}

/// Reason why a connection ended early.
#[derive(Debug, thiserror::Error)]
pub enum McpError {
    /// The standard streams are unusable.
    #[error("the standard streams cannot be used")]
    Streams(#[source] std::io::Error),
    /// A response could not be written.
    #[error("a response could not be written")]
    Write(#[source] std::io::Error),
    /// The operating system returns no random bytes.
    #[error("the operating system provides no random bytes")]
    Random(#[source] getrandom::Error),
    /// A task of the server failed.
    #[error("a task of the server failed")]
    Task(#[source] tokio::task::JoinError),
}

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
    connect(engine, options, reader, writer).await
}

async fn connect<C, R, W>(calls: Arc<C>, options: Options, reader: R, writer: W) -> Result<(), McpError>
where
    C: Calls,
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let connection = Arc::<connection::Connection>::default();
    let (outbox, mail) = outbox::outbox();
    let covering = calls.clone();
    let delivery = tokio::spawn(mail.deliver(writer, move |message| covering.cover_message(message)));
    connection.stand_by(outbox.clone());
    let transport = transport::LineTransport::new(
        reader,
        options.message_limit,
        connection.clone(),
        outbox,
        options.on_warning.clone(),
    );
    let handler = handler::Handler::new(&calls, options, connection.clone(), &Arc::default())?;
    // The handshake is an ordinary request here: clients probe first, skip it, or repeat it.
    let service = rmcp::service::serve_directly(handler, transport, None);
    let ended = service.waiting().await;
    connection.close();
    calls.shutdown().await;
    drop(connection);
    // The senders are dropped with the service and the connection. So the delivery ends once
    // everything is written, or the client's time to read is over.
    delivery.await.map_err(McpError::Task)?.map_err(McpError::Write)?;
    ended.map(drop).map_err(McpError::Task)
}
