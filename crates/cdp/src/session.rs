//! A connection bound to one session.

use std::time::Duration;

use crate::connection::Connection;
use crate::error::CdpError;
use crate::event::Subscription;
use crate::id::SessionId;
use crate::protocol::Command;

/// Client of one session: of a page or of an out-of-process frame.
#[derive(Debug, Clone)]
pub struct SessionClient {
    connection: Connection,
    session: SessionId,
}

impl SessionClient {
    /// Binds a connection to a session.
    pub fn new(connection: Connection, session: SessionId) -> Self {
        Self { connection, session }
    }

    /// Returns the id of the session.
    pub fn id(&self) -> &SessionId {
        &self.session
    }

    /// Returns the connection, for calls to the browser itself.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Runs a command in the session.
    ///
    /// # Errors
    /// Like [`Connection::call`].
    pub async fn run<C: Command>(&self, command: C) -> Result<C::Answer, CdpError> {
        self.connection.run(Some(&self.session), command).await
    }

    /// Runs a command in the session, with a time limit of its own.
    ///
    /// # Errors
    /// Like [`Connection::call`].
    pub async fn run_within<C: Command>(&self, command: C, limit: Duration) -> Result<C::Answer, CdpError> {
        self.connection.run_within(Some(&self.session), command, limit).await
    }

    /// Sends a command whose answer does not matter. A full queue drops it.
    pub fn post<C: Command>(&self, command: C) {
        self.connection.post(Some(&self.session), command);
    }

    /// Subscribes to the events of the session.
    pub fn subscribe(&self) -> Subscription {
        self.connection.subscribe(Some(&self.session))
    }
}
