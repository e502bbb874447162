//! Options of a server, and the reasons why one ends early.

use std::sync::Arc;
use std::time::Duration;

use dialects::{CatalogueKind, Dialect};
use tool::SessionId;

use crate::question::Elicitation;

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
