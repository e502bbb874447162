//! Transport for rmcp over lines of JSON, with responses that rmcp itself would not send.

use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::AsyncRead;
use tokio::time::Instant;

use crate::connection::Connection;
use crate::dispatch::{Dispatcher, outgoing};
use crate::lines::{Line, Lines};
use crate::outbox::{Outbox, is_departure};

/// Time that a client that has closed its side has to read the last responses. The official clients
/// wait two seconds before they kill the process with a signal.
const FAREWELL: Duration = Duration::from_millis(1500);

/// Time that calls may still run after the client has closed its side. A client that pipes a few
/// messages in gets their responses. A longer command ends well before the official clients kill
/// the process.
const LAST_CALLS: Duration = Duration::from_secs(1);

/// One connection, as rmcp sees it.
pub(crate) struct LineTransport<R> {
    lines: Lines<R>,
    limit: usize,
    connection: Arc<Connection>,
    outbox: Outbox,
    on_warning: Arc<dyn Fn(&str) + Send + Sync>,
    /// Deadline for calls that still run at the end of the input. Stored here because rmcp may drop
    /// and repeat the wait.
    last_calls_until: Option<Instant>,
}

/// Error: the client has disconnected.
#[derive(Debug, thiserror::Error)]
#[error("the client is gone")]
pub(crate) struct Disconnected;

impl<R: AsyncRead + Unpin> LineTransport<R> {
    pub(crate) fn new(
        reader: R,
        limit: usize,
        connection: Arc<Connection>,
        outbox: Outbox,
        on_warning: Arc<dyn Fn(&str) + Send + Sync>,
    ) -> Self {
        Self {
            lines: Lines::new(reader, limit),
            limit,
            connection,
            outbox,
            on_warning,
            last_calls_until: None,
        }
    }

    /// Returns the next message for rmcp; `None` at the end, after every call was requested to stop.
    async fn next(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            let line = tokio::select! {
                biased;
                () = self.outbox.failed() => break,
                line = async {
                    self.outbox.room().await;
                    self.lines.next().await
                } => line,
            };
            let desk = Dispatcher { connection: &self.connection, outbox: &self.outbox, limit: self.limit };
            match line {
                Ok(Some(Line::Whole(line))) => {
                    if let Some(message) = desk.accept(line) {
                        return Some(message);
                    }
                }
                Ok(Some(Line::TooLong(skim))) => {
                    if let Some(message) = desk.too_long(&skim) {
                        return Some(message);
                    }
                }
                Ok(None) => {
                    let until = *self.last_calls_until.get_or_insert_with(|| Instant::now() + LAST_CALLS);
                    tokio::select! {
                        () = self.outbox.failed() => {}
                        // The calls that remain after this wait are stopped below.
                        _ = tokio::time::timeout_at(until, self.connection.idle()) => {}
                    }
                    break;
                }
                Err(error) => {
                    if !is_departure(&error) {
                        (self.on_warning)(&format!("cannot read the client's messages: {error}"));
                    }
                    break;
                }
            }
        }
        self.connection.close();
        self.outbox.give_up_after(FAREWELL);
        None
    }
}

impl<R: AsyncRead + Unpin + Send> Transport<RoleServer> for LineTransport<R> {
    type Error = Disconnected;

    fn send(
        &mut self,
        item: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Disconnected>> + Send + 'static {
        // Queue the message now rather than at the first poll: messages are sent in the order of
        // these calls.
        let written = outgoing(&self.connection, &self.outbox, item);
        async move {
            match written {
                Some(written) => written.await.map_err(|_| Disconnected),
                None => Ok(()),
            }
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        self.next().await
    }

    async fn close(&mut self) -> Result<(), Disconnected> {
        self.connection.close();
        Ok(())
    }
}
