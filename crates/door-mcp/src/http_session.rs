//! A session over HTTP: the counterpart of a connection, for independent messages.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::connection::Connection;
use crate::handler::Handler;
use crate::notices::Notices;
use crate::options::{McpError, Options};
use crate::resumable_stream::Streams;
use crate::server_backend::ServerBackend;

/// A session, in place of a connection.
pub(crate) struct HttpSession {
    pub(crate) connection: Arc<Connection>,
    pub(crate) handler: Handler,
    /// Streams that the client can resume.
    pub(crate) streams: Streams,
    used: Mutex<Instant>,
}

impl HttpSession {
    /// Creates a session with this content.
    ///
    /// # Errors
    /// [`McpError::Random`] if the operating system returns no random bytes.
    pub(crate) fn new(
        backend: Arc<dyn ServerBackend>,
        options: &Arc<Options>,
        notices: &Notices,
    ) -> Result<Self, McpError> {
        let connection = Arc::<Connection>::default();
        let handler = Handler::new(backend, options.clone(), connection.clone(), notices)?;
        let used = Mutex::new(Instant::now());
        Ok(Self { connection, handler, streams: Streams::default(), used })
    }

    /// Returns the time of the last use.
    pub(crate) fn used(&self) -> Instant {
        *self.used.lock()
    }

    /// Records that the session is used now.
    pub(crate) fn touch(&self) {
        *self.used.lock() = Instant::now();
    }

    /// Ends the session: its calls and its remaining work.
    pub(crate) async fn end(&self) {
        self.connection.close();
        self.handler.backend.end().await;
    }
}
