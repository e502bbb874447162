//! Log of a client's agents: messages on its connection, which belong to no request.

use std::sync::{Arc, Weak};

use engine::{AgentEvent, AgentListener};
use serde_json::json;

use crate::connection::Connection;
use crate::log::Severity;

/// Name of the logger in the messages.
const LOGGER: &str = "agent";

/// Log of the agents of one connection.
pub(crate) struct AgentLog(Weak<Connection>);

impl AgentLog {
    /// Creates the log of a connection. The log does not keep the connection alive.
    pub(crate) fn of(connection: &Arc<Connection>) -> Arc<dyn AgentListener> {
        Arc::new(Self(Arc::downgrade(connection)))
    }
}

impl AgentListener for AgentLog {
    fn take(&self, event: &AgentEvent) {
        if let Some(connection) = self.0.upgrade() {
            connection.log(Severity::Info, LOGGER, &json!(event));
        }
    }
}
