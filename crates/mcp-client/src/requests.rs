//! Interfaces through which a server reaches the caller: requests of its own, and notices.

use serde_json::{Value, json};
use tool::BoxFuture;

use crate::error::CloseReason;

/// Code of JSON-RPC for a method that does not exist here.
pub(crate) const METHOD_NOT_FOUND: i64 = -32601;

/// Code for a request that was refused: the protocol's own examples use -1 for a human's no.
pub const REFUSED: i64 = -1;

/// Abilities of a caller that are declared to servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Abilities {
    /// True if the caller answers `sampling/createMessage`.
    pub sampling: bool,
    /// True if the caller shows forms (`elicitation/create`).
    pub forms: bool,
    /// True if the caller shows URLs for a human to open (`elicitation/create` in the mode `url`).
    pub urls: bool,
    /// True if the caller lists roots.
    pub roots: bool,
}

impl Abilities {
    pub(crate) fn declared(self) -> Value {
        let mut declared = json!({});
        if self.sampling {
            declared["sampling"] = json!({});
        }
        if self.forms || self.urls {
            declared["elicitation"] = json!({});
            // An empty object means forms to servers of every revision.
            if self.urls {
                declared["elicitation"]["url"] = json!({});
                if self.forms {
                    declared["elicitation"]["form"] = json!({});
                }
            }
        }
        if self.roots {
            declared["roots"] = json!({});
        }
        declared
    }
}

/// Refusal of a server's request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Code of the error in JSON-RPC.
    pub code: i64,
    /// Message for the server. It should contain nothing that the server may not know.
    pub message: String,
}

impl Refusal {
    /// Creates the refusal of a human or of a policy.
    pub fn new(message: impl Into<String>) -> Self {
        Self { code: REFUSED, message: message.into() }
    }

    pub(crate) fn unknown(method: &str) -> Self {
        Self { code: METHOD_NOT_FOUND, message: format!("`{method}` is not supported") }
    }
}

/// Answers to the requests that a server may send. Everything is refused by default.
///
/// The parameters come from a stranger, and are handed on as they are. The number of requests is bounded before
/// they come here, and dropping a future withdraws the request.
pub trait ServerRequests: Send + Sync {
    /// Returns the abilities that servers may use. A request for another one never comes here.
    fn abilities(&self) -> Abilities {
        Abilities::default()
    }

    /// Answers `sampling/createMessage`: the result of a model.
    fn sample(&self, params: Value) -> BoxFuture<'_, Result<Value, Refusal>> {
        drop(params);
        Box::pin(std::future::ready(Err(Refusal::new("sampling is refused"))))
    }

    /// Answers `elicitation/create`: a human's answer to a form.
    fn elicit(&self, params: Value) -> BoxFuture<'_, Result<Value, Refusal>> {
        drop(params);
        Box::pin(std::future::ready(Ok(json!({"action": "decline"}))))
    }

    /// Answers `roots/list`.
    fn roots(&self) -> BoxFuture<'_, Result<Value, Refusal>> {
        Box::pin(std::future::ready(Ok(json!({"roots": []}))))
    }
}

/// Caller that refuses every request of a server.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoServerRequests;

impl ServerRequests for NoServerRequests {}

/// Answers one request of a server, whether it came by itself or within a result.
pub(crate) async fn answer(
    requests: &dyn ServerRequests,
    method: &str,
    params: Value,
) -> Result<Value, Refusal> {
    let abilities = requests.abilities();
    let is_url = params.get("mode").and_then(Value::as_str) == Some("url");
    match method {
        "sampling/createMessage" if abilities.sampling => requests.sample(params).await,
        "elicitation/create" if is_url && abilities.urls || !is_url && abilities.forms => {
            requests.elicit(params).await
        }
        "roots/list" if abilities.roots => requests.roots().await,
        _ => Err(Refusal::unknown(method)),
    }
}

/// Notice of a server, or about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// The list of tools changed.
    ToolsChanged,
    /// The list of prompts changed.
    PromptsChanged,
    /// The list of resources changed.
    ResourcesChanged,
    /// The content of a resource changed.
    ResourceUpdated {
        /// URI of the resource, cleaned.
        uri: String,
    },
    /// Line of the server's log, cleaned and cut.
    Log {
        /// Severity as the server gives it: `debug` to `emergency`.
        level: String,
        /// Text.
        text: String,
    },
    /// Line that a server wrote to its output and that is no message, cleaned and cut.
    Noise {
        /// Text.
        text: String,
    },
    /// The connection is closed. No further notice follows.
    Closed(CloseReason),
}

/// Receiver of notices.
pub trait Listener: Send + Sync {
    /// Takes a notice. Called on the task that reads the connection, so it must not block.
    fn notice(&self, notice: Notice);
}

/// Receiver that ignores every notice.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoListener;

impl Listener for NoListener {
    fn notice(&self, _: Notice) {}
}

/// Progress of a request.
#[derive(Debug, Clone, PartialEq)]
pub struct ProgressReport {
    /// Work that is done. It grows from report to report.
    pub progress: f64,
    /// Work in all, if the server knows it.
    pub total: Option<f64>,
    /// Message, cleaned and cut to one line.
    pub message: Option<String>,
}

/// Receiver of the progress of one request.
pub trait ProgressSink: Send + Sync {
    /// Takes a report. Must not block.
    fn progress(&self, report: ProgressReport);
}
