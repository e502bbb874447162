//! Changes of data that clients have received.

use rmcp::model::SubscriptionFilter;
use serde_json::{Value, json};

/// Key under which a notice names the subscribing request.
pub(crate) const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// A change to report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notice<'a> {
    /// The list of tools changed.
    Tools,
    /// The list of prompts changed.
    Prompts,
    /// The list of resources or of templates changed.
    Resources,
    /// The resource with this URI changed.
    Resource(&'a str),
}

impl Notice<'_> {
    /// Returns true if this filter includes the notice.
    pub(crate) fn is_in(self, wanted: &SubscriptionFilter) -> bool {
        match self {
            Self::Tools => wanted.tools_list_changed == Some(true),
            Self::Prompts => wanted.prompts_list_changed == Some(true),
            Self::Resources => wanted.resources_list_changed == Some(true),
            Self::Resource(uri) => wanted.resource_subscriptions.iter().flatten().any(|wanted| wanted == uri),
        }
    }

    /// Returns the notification.
    pub(crate) fn message(self) -> Value {
        let (method, params) = match self {
            Self::Tools => ("notifications/tools/list_changed", json!({})),
            Self::Prompts => ("notifications/prompts/list_changed", json!({})),
            Self::Resources => ("notifications/resources/list_changed", json!({})),
            Self::Resource(uri) => ("notifications/resources/updated", json!({"uri": uri})),
        };
        json!({"jsonrpc": "2.0", "method": method, "params": params})
    }
}
