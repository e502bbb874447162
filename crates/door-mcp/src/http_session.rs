//! A session over HTTP: the counterpart of a connection, for independent messages.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, MutexGuard};
use rmcp::RoleServer;
use rmcp::model::{ClientJsonRpcMessage, InitializeRequestParams, ServerJsonRpcMessage};
use rmcp::service::Peer;
use rmcp::transport::Transport;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tool::SessionId;

use crate::calls::Calls;
use crate::connection::Connection;
use crate::outbox::outbox;
use crate::resumable_stream::Streams;
use crate::transport::Disconnected;
use crate::{McpError, Options, dispatch, handler, notices};

/// A session, in place of a connection.
pub(crate) struct HttpSession {
    pub(crate) connection: Arc<Connection>,
    handler: handler::Handler,
    service: Mutex<Service>,
    pub(crate) session: SessionId,
    /// Streams that the client can resume.
    pub(crate) streams: Streams,
    used: Mutex<Instant>,
}

/// State of rmcp's service for a session. Its channels allocate room for 32 messages each, about 20
/// KB, and most sessions are idle. So an idle session keeps only the client's `initialize`
/// parameters.
enum Service {
    Runs {
        incoming: mpsc::UnboundedSender<Box<ClientJsonRpcMessage>>,
        peer: Peer<RoleServer>,
        resting: Arc<AtomicBool>,
    },
    Rests(Option<Box<InitializeRequestParams>>),
}

impl Service {
    fn start(
        handler: handler::Handler,
        connection: &Arc<Connection>,
        said: Option<InitializeRequestParams>,
    ) -> Self {
        let (incoming, messages) = mpsc::unbounded_channel();
        let resting = Arc::<AtomicBool>::default();
        let transport =
            SessionTransport { messages, connection: connection.clone(), resting: resting.clone() };
        let service = rmcp::service::serve_directly(handler, transport, said);
        let peer = service.peer().clone();
        // The service ends when the sender of its messages is dropped.
        tokio::spawn(service.waiting());
        Self::Runs { incoming, peer, resting }
    }
}

impl HttpSession {
    pub(crate) fn start<C: Calls>(
        calls: &Arc<C>,
        options: &Options,
        session: SessionId,
        notices: &Arc<notices::Notices>,
    ) -> Result<Self, McpError> {
        let connection = Arc::<Connection>::default();
        let options = Options { session: session.clone(), ..options.clone() };
        let handler = handler::Handler::new(calls, options, connection.clone(), notices)?;
        let service = Mutex::new(Service::Rests(None));
        let (streams, used) = (Streams::default(), Mutex::new(Instant::now()));
        Ok(Self { connection, handler, service, session, streams, used })
    }

    fn service(&self) -> MutexGuard<'_, Service> {
        self.service.lock()
    }

    /// Passes a message to rmcp.
    pub(crate) fn take(&self, message: ClientJsonRpcMessage) {
        let mut service = self.service();
        if let Service::Rests(said) = &mut *service {
            *service = Service::start(self.handler.clone(), &self.connection, said.take().map(|said| *said));
        }
        if let Service::Runs { incoming, .. } = &*service {
            // If the session ends at this moment, the request gets no response, and its stream ends.
            let _ = incoming.send(Box::new(message));
        }
    }

    /// Releases rmcp's service if no request is pending. Messages that it has received are still processed.
    pub(crate) fn rest(&self) {
        let mut service = self.service();
        if let Service::Runs { peer, resting, .. } = &*service
            && self.connection.is_idle()
        {
            resting.store(true, Ordering::Relaxed);
            let said = peer.peer_info().map(|said| Box::new((*said).clone()));
            *service = Service::Rests(said);
        }
    }

    pub(crate) fn used(&self) -> Instant {
        *self.used.lock()
    }

    pub(crate) fn touch(&self) {
        *self.used.lock() = Instant::now();
    }
}

/// Transport for rmcp that carries independent messages.
struct SessionTransport {
    messages: mpsc::UnboundedReceiver<Box<ClientJsonRpcMessage>>,
    connection: Arc<Connection>,
    /// True if the session continues without this service.
    resting: Arc<AtomicBool>,
}

impl Transport<RoleServer> for SessionTransport {
    type Error = Disconnected;

    fn send(
        &mut self,
        item: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Disconnected>> + Send + 'static {
        // Notices take another path, and every other message belongs to a request.
        let (nowhere, _) = outbox();
        drop(dispatch::outgoing(&self.connection, &nowhere, item));
        std::future::ready(Ok(()))
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        self.messages.recv().await.map(|message| *message)
    }

    async fn close(&mut self) -> Result<(), Disconnected> {
        if !self.resting.load(Ordering::Relaxed) {
            self.connection.close();
        }
        Ok(())
    }
}
