//! The door for HTTP clients: calls, what the policy would decide, questions and their answers, what was done, and the messages of
//! the crates `mcp` and `csp`.
//!
//! [`serve`] answers on one listening socket until it is told to stop.
//! Every request passes the same checks in the same order: where it was sent to and from which page (`guard`), what it asks for
//! (`route`), who sends it (`credential`), and how much it brings (`body`).
//!
//! This crate owns every type of its wire and maps it to the vocabulary of `tool`; it knows no tool, decides nothing and keeps
//! nothing. It reads no environment and no configuration.

mod approvals;
mod audit;
mod body;
mod call;
mod connections;
mod credential;
mod csp_messages;
mod events;
mod guard;
mod keys;
mod metrics;
mod oauth;
mod openapi;
mod origin;
mod patient;
mod query;
mod reply;
mod route;
mod sender;
mod service;
mod streamable;

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

/// How a server behaves.
#[derive(Clone)]
pub struct Options {
    /// Names the calls of `/v1/call` in the audit; what is allowed for a session is allowed for them alone.
    pub session: SessionId,
    /// The names and shapes that the tools of the engine are called by.
    pub dialect: Dialect,
    /// Who may ask for what. Where no agent has a credential, everybody is taken for an agent; never for a user.
    pub credentials: Vec<Credential>,
    /// Whose tokens are good beside those, and make who has them what their scopes say.
    pub provider: Option<Provider>,
    /// What answers at `/mcp`.
    pub mcp: Option<mcp::Endpoint>,
    /// Whether `/mcp` takes no token: for an endpoint that reaches no engine.
    pub open_mcp: bool,
    /// How `/v1/csp` is answered; nothing is there without it. The engine speaks the dialect `csp1` then.
    pub csp: Option<csp::Options>,
    /// Names beside `localhost` and addresses that a request may be sent to.
    pub hosts: Vec<String>,
    /// Pages beside those of this server that may send requests, as browsers name them: `https://console.example`.
    pub origins: Vec<String>,
    /// The longest body that is accepted, in bytes.
    pub body_limit: usize,
    /// Connections that may be open at a time; one more is told so and closed.
    pub connections: usize,
    /// How long a client may take for the head of a request, for the next part of a body, and, up to ten seconds, to take the next
    /// part of an answer, which it must have taken as a whole within two minutes. A connection without a request is closed after as long.
    pub patience: Duration,
    /// How long requests may still run after the server was told to stop.
    pub drain: Duration,
    /// Hears what went wrong beside the protocol, in one sentence.
    pub on_warning: Arc<dyn Fn(&str) + Send + Sync>,
}

impl Options {
    /// The longest body unless said otherwise: 32 MiB (design section 4).
    pub const BODY_LIMIT: usize = 32 * 1024 * 1024;

    /// A server with the usual limits that nobody has a credential for, whose warnings nobody hears.
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

    /// Whether there is a token for agents; without one everybody who reaches the server is taken for one.
    pub(crate) fn agents_need_tokens(&self) -> bool {
        let of_agents = self.credentials.iter().any(|credential| credential.role() == Role::Agent);
        of_agents || self.provider.as_ref().is_some_and(|provider| provider.scope_of(Role::Agent).is_some())
    }
}

/// Why a server could not begin.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// Another program listens there, or this user may not.
    #[error("cannot listen on {address}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Without credentials everybody who reaches the address could make calls.
    #[error(
        "refused to listen on {address} without a token: whoever reaches that address could run commands here; \
         listen on 127.0.0.1, or leave --no-token out"
    )]
    Unguarded {
        /// Where.
        address: SocketAddr,
    },
}

/// Answers requests until `stop` is done, and gives what it gave.
///
/// Then nothing new is accepted, requests have [`Options::drain`] to end, and every call that still runs is stopped and recorded.
/// Needs a tokio runtime with I/O and time.
///
/// # Errors
/// [`HttpError::Unguarded`], before anything was answered.
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
    let shared = service::Shared::new(engine, options, address);
    Ok(connections::accept(listener, Arc::new(shared), stop).await)
}
