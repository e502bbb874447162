//! What clients are told without having asked: that something which they were given before is another now.
//!
//! Up to the revision of 2025-11-25 it comes on the connection, or on the stream that a session over HTTP holds open for it; from
//! 2026-07-28 on as events of a `subscriptions/listen` that asked for it.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use rmcp::model::SubscriptionFilter;
use serde_json::{Value, json};

use crate::connection::Connection;

/// The key under which a notice names the request that asked for it.
pub(crate) const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// Something that is another now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Notice<'a> {
    /// The list of tools.
    Tools,
    /// The list of prompts.
    Prompts,
    /// The resource of this name.
    Resource(&'a str),
}

impl Notice<'_> {
    /// Whether who asked for this wants it.
    pub(crate) fn is_in(self, wanted: &SubscriptionFilter) -> bool {
        match self {
            Self::Tools => wanted.tools_list_changed == Some(true),
            Self::Prompts => wanted.prompts_list_changed == Some(true),
            Self::Resource(uri) => wanted.resource_subscriptions.iter().flatten().any(|wanted| wanted == uri),
        }
    }

    /// Returns the notification.
    pub(crate) fn message(self) -> Value {
        let (method, params) = match self {
            Self::Tools => ("notifications/tools/list_changed", json!({})),
            Self::Prompts => ("notifications/prompts/list_changed", json!({})),
            Self::Resource(uri) => ("notifications/resources/updated", json!({"uri": uri})),
        };
        json!({"jsonrpc": "2.0", "method": method, "params": params})
    }
}

/// The connections of one server.
#[derive(Default)]
pub(crate) struct Notices(Mutex<Vec<Weak<Connection>>>);

impl Notices {
    /// A connection to tell, as long as it lasts.
    pub(crate) fn add(&self, connection: &Arc<Connection>) {
        let mut connections = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Sessions come and go; what is gone is left out when the list would grow.
        if connections.len() == connections.capacity() {
            connections.retain(|connection| connection.strong_count() > 0);
        }
        connections.push(Arc::downgrade(connection));
    }

    /// Tells every client that wants to know.
    pub(crate) fn tell(&self, notice: Notice<'_>) {
        let connections = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for connection in connections.iter().filter_map(Weak::upgrade) {
            connection.tell(notice);
        }
    }
}
