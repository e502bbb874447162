//! Notifications about changes of data that clients have received.
//!
//! Up to revision 2025-11-25, a notice is sent on the connection, or on the session's standing
//! stream over HTTP. From revision 2026-07-28 on, it is an event of a `subscriptions/listen` that
//! asked for it.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use rmcp::model::SubscriptionFilter;
use serde_json::{Value, json};

use crate::connection::Connection;

/// Key under which a notice names the subscribing request.
pub(crate) const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// A change to report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Notice<'a> {
    /// The list of tools changed.
    Tools,
    /// The list of prompts changed.
    Prompts,
    /// The resource with this URI changed.
    Resource(&'a str),
}

impl Notice<'_> {
    /// Returns true if this filter includes the notice.
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
    /// Adds a connection to notify, for as long as it exists.
    pub(crate) fn add(&self, connection: &Arc<Connection>) {
        let mut connections = self.0.lock();
        // Remove closed connections before the list would grow.
        if connections.len() == connections.capacity() {
            connections.retain(|connection| connection.strong_count() > 0);
        }
        connections.push(Arc::downgrade(connection));
    }

    /// Sends the notice to every client that subscribes to it.
    pub(crate) fn tell(&self, notice: Notice<'_>) {
        let connections = self.0.lock().clone();
        for connection in connections.iter().filter_map(Weak::upgrade) {
            connection.tell(notice);
        }
    }
}
