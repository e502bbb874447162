//! HTTP server: calls, checks by the policy, approval requests, the audit log, and the messages of
//! the crates `mcp` and `csp`.
//!
//! [`serve`] serves one listening socket until it is stopped. Every request passes the same checks
//! in the same order: destination and origin (`guard`), resource (`route`), sender (`credential`),
//! and size (`body`).
//!
//! This crate owns every type of its wire format and maps it to the vocabulary of `tool`. The crate
//! knows no tool, makes no decisions and stores nothing. It reads neither the environment nor the
//! configuration.

mod approvals;
mod audit;
mod body;
mod call;
mod connections;
mod credential;
mod csp_messages;
mod events;
mod keys;
mod mcp_route;
mod metrics;
mod oauth;
mod openapi;
mod origin;
mod origin_check;
mod principal;
mod query;
mod reply;
mod route;
mod service;
mod write_timeout;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use dialects::Dialect;
use engine::Engine;
use tool::SessionId;

pub use connections::Listener;
pub use credential::{Credential, Role};
pub use keys::IdentityError;
pub use oauth::Provider;
pub use openapi::document;

/// Options of a server.
#[derive(Clone)]
pub struct Options {
    /// Session of the calls of `/v1/call` in the audit log. Permissions for a session apply to
    /// these calls only.
    pub session: SessionId,
    /// Dialect: names and schemas of the engine's tools.
    pub dialect: Dialect,
    /// Credentials of agents, users and observers. If no agent has a credential, every client
    /// counts as an agent, but never as a user.
    pub credentials: Vec<Credential>,
    /// Identity provider whose tokens are also accepted. Their scopes determine the role.
    pub provider: Option<Provider>,
    /// Endpoint for `/mcp`.
    pub mcp: Option<door_mcp::Endpoint>,
    /// True if `/mcp` needs no token: for an endpoint that reaches no engine.
    pub open_mcp: bool,
    /// Options of `/v1/csp`; without them, the path does not exist. The engine must speak the
    /// dialect `csp1`.
    pub csp: Option<door_csp::Options>,
    /// Permitted host names, besides `localhost` and addresses.
    pub hosts: Vec<String>,
    /// Permitted origins of web pages, besides those of this server, in the form of browsers:
    /// `https://console.example`.
    pub origins: Vec<String>,
    /// Maximum size of a request body, in bytes.
    pub body_limit: usize,
    /// Maximum number of open connections. A further one is refused and closed.
    pub connections: usize,
    /// Maximum wait for the head of a request and for each part of a body. The client must take
    /// each part of a response within the same time, but at most ten seconds, and the whole
    /// response within two minutes. An idle connection is closed after the same time.
    pub patience: Duration,
    /// Time for open requests after the server was stopped.
    pub drain: Duration,
    /// Callback for warnings about problems outside the protocol, in one sentence.
    pub on_warning: Arc<dyn Fn(&str) + Send + Sync>,
}

impl Options {
    /// Default maximum size of a body: 32 MiB (design section 4).
    pub const BODY_LIMIT: usize = 32 * 1024 * 1024;

    /// Returns the default options, without credentials and with warnings discarded.
    pub fn new(session: SessionId) -> Self {
        Self {
            session,
            dialect: Dialect::default(),
            credentials: Vec::new(),
            provider: None,
            mcp: None,
            open_mcp: false,
            csp: None,
            hosts: Vec::new(),
            origins: Vec::new(),
            body_limit: Self::BODY_LIMIT,
            connections: 8192,
            patience: Duration::from_secs(30),
            drain: Duration::from_secs(10),
            on_warning: Arc::new(|_| {}),
        }
    }

    /// Returns true if there are tokens for agents. Otherwise every client counts as an agent.
    pub(crate) fn agents_need_tokens(&self) -> bool {
        let of_agents = self.credentials.iter().any(|credential| credential.role() == Role::Agent);
        of_agents || self.provider.as_ref().is_some_and(|provider| provider.scope_of(Role::Agent).is_some())
    }
}

/// Reason why a server could not start.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// The address is in use, or this user may not bind it.
    #[error("cannot listen on {address}")]
    Listen {
        /// Requested address.
        address: SocketAddr,
        /// Error of the system.
        #[source]
        source: std::io::Error,
    },
    /// The server has no credentials, so every client that reaches the address could make calls.
    #[error(
        "refused to listen on {address} without a token: anyone who reaches that address could run \
         commands here; listen on 127.0.0.1, or leave --no-token out"
    )]
    Unguarded {
        /// Requested address.
        address: SocketAddr,
    },
}

/// Serves requests until `stop` is ready, and returns its output.
///
/// Then no new connections are accepted, open requests have [`Options::drain`] to end, and every
/// call that still runs is stopped and recorded. Needs a tokio runtime with I/O and time.
///
/// # Errors
/// [`HttpError::Unguarded`], before any response was sent.
pub async fn serve<T>(
    engine: Arc<Engine>,
    options: Options,
    listener: Listener,
    stop: impl Future<Output = T>,
) -> Result<T, HttpError> {
    let address = listener.address();
    if !options.agents_need_tokens() && !address.ip().is_loopback() {
        return Err(HttpError::Unguarded { address });
    }
    let shared = service::ServerState::new(engine, options, address);
    Ok(connections::accept(listener, Arc::new(shared), stop).await)
}
