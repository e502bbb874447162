//! The door for MCP clients: JSON-RPC over a pair of byte streams, one message a line, or each message by itself.
//!
//! [`serve_stdio`] serves the process's standard streams, [`serve`] any others; [`Endpoint`] takes what a server of HTTP was sent.
//! Both eras of the protocol are spoken on one connection: the handshake (2024-11-05 to 2025-11-25) and the one in which every request
//! stands for itself (2026-07-28).
//!
//! This crate owns every type of the wire and maps it to the vocabulary of `tool`; it knows no tool, decides nothing and keeps
//! nothing. It reads no environment and no configuration, and writes nothing but messages to the output: what goes wrong beside the
//! protocol is told to [`Options::on_warning`].

mod address;
mod around;
mod asker;
mod calls;
mod conformance;
mod connection;
mod decode;
mod desk;
mod endpoint;
mod envelope;
mod follow;
mod handler;
mod headers;
mod id;
mod lines;
mod list;
mod live;
mod log;
mod notices;
mod offered;
mod origin;
mod outbox;
mod page;
mod past_tasks;
mod peer;
mod plain;
mod present;
mod progress;
mod question;
mod seal;
mod served;
mod skim;
mod stdio;
mod task;
mod transport;
mod turn;

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
pub use crate::desk::holds_too_many_values;
pub use crate::endpoint::{Answers, Endpoint, Posted, Refused, Saying};
pub use crate::follow::{Event, Follower};
pub use crate::headers::{Headers, Once};
pub use crate::question::Elicitation;

/// What a server is called and how it behaves.
#[derive(Clone)]
pub struct Options {
    /// The program's name.
    pub name: String,
    /// The program's name for people.
    pub title: Option<String>,
    /// The program's version.
    pub version: String,
    /// What a model should know about the whole of the tools.
    pub instructions: Option<String>,
    /// The names and shapes that the tools of the engine are called by.
    pub dialect: Dialect,
    /// Which tools are listed, and with how many words.
    pub catalogue: CatalogueKind,
    /// Names this connection in the audit; what is allowed for a session is allowed for it alone.
    pub session: SessionId,
    /// Whose the session is, where something can outlive it.
    pub holder: Option<SessionId>,
    /// The longest message that is accepted, in bytes. A longer one is answered with an error.
    pub message_limit: usize,
    /// Which questions may be put to the client's user.
    pub elicitation: Elicitation,
    /// How long a question waits for its answer.
    pub patience: Duration,
    /// Offers what the protocol's test suite expects, in place of the engine's tools.
    pub conformance: bool,
    /// Hears what went wrong beside the protocol, in one sentence.
    pub on_warning: Arc<dyn Fn(&str) + Send + Sync>,
}

impl Options {
    /// The longest message unless said otherwise: 32 MiB (design section 4).
    pub const MESSAGE_LIMIT: usize = 32 * 1024 * 1024;

    /// How long a question waits unless said otherwise: ten minutes.
    pub const PATIENCE: Duration = Duration::from_mins(10);

    /// A server with the limits above in the default dialect, which lists what most work needs, and whose warnings nobody hears.
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
            patience: Self::PATIENCE,
            conformance: false,
            on_warning: Arc::new(|_| {}),
        }
    }
}

/// Why a connection could not be served to its end.
#[derive(Debug, thiserror::Error)]
pub enum McpError {
    /// the standard streams cannot be used
    #[error("the standard streams cannot be used")]
    Streams(#[source] std::io::Error),
    /// an answer could not be written
    #[error("an answer could not be written")]
    Write(#[source] std::io::Error),
    /// the operating system gives no random bytes
    #[error("the operating system gives no random bytes")]
    Random(#[source] getrandom::Error),
    /// a task of the server broke off
    #[error("a task of the server broke off")]
    Task(#[source] tokio::task::JoinError),
}

/// Serves the process's standard streams until the client closes its side or is gone.
///
/// Returns after every call was stopped and has ended.
/// Needs a tokio runtime with I/O and time; pipes and sockets need no thread. Where standard input is a terminal or a file, one of the
/// runtime's blocking threads reads it, which [`tokio::runtime::Runtime::shutdown_background`] leaves behind.
///
/// # Errors
/// See [`McpError`]. That the client is gone is no error.
pub async fn serve_stdio(engine: Arc<Engine>, options: Options) -> Result<(), McpError> {
    let input = stdio::input().map_err(McpError::Streams)?;
    let output = stdio::output().map_err(McpError::Streams)?;
    serve(engine, options, input, output).await
}

/// Serves one connection until the client closes its side or is gone, then ends every call of the engine.
///
/// # Errors
/// See [`McpError`]. That the client is gone is no error.
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
    // The handshake is a request like any other here: clients probe first, skip it, or repeat it.
    let service = rmcp::service::serve_directly(handler, transport, None);
    let ended = service.waiting().await;
    connection.close();
    calls.shutdown().await;
    drop(connection);
    // Its senders are gone with the service and the connection, so it ends as soon as all is written, or the client has had its time to read.
    delivery.await.map_err(McpError::Task)?.map_err(McpError::Write)?;
    ended.map(drop).map_err(McpError::Task)
}
