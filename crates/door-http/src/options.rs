//! Options of a server.

use std::sync::Arc;
use std::time::Duration;

use dialects::Dialect;
use tool::SessionId;

use crate::credential::{Credential, Role};
use crate::mount::Mount;
use crate::oauth::Provider;

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
    /// Paths of other protocols. Requests to them pass the same checks as all others.
    pub mounts: Vec<Mount>,
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
            mounts: Vec::new(),
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
