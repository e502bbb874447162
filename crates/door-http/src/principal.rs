//! Senders of requests: holders of this server's own tokens, and subjects of the identity provider.
//!
//! All holders of one token are the same sender. Each subject of the provider has its own sessions,
//! background commands and leases, and cannot reach those of others.

use std::collections::HashMap;

use door_mcp::{Endpoint, McpError};
use hyper::header::{AUTHORIZATION, HeaderMap};
use parking_lot::Mutex;
use tokio::time::Instant;
use tool::SessionId;

use crate::Options;
use crate::credential::{self, Role};
use crate::oauth::{Subject, TokenRejection};

/// Maximum number of subjects with an endpoint. For one more, the endpoint that was idle for
/// longest is ended.
const MAX_SUBJECTS: usize = 1_000;

/// The sender of a request.
#[derive(Debug, Clone)]
pub(crate) struct Sender {
    pub(crate) role: Role,
    /// Session to which the sender's state belongs.
    pub(crate) session: SessionId,
    /// Name at the provider; `None` for a token of this server.
    pub(crate) subject: Option<String>,
}

impl Sender {
    /// Returns the sender's name for the audit log.
    pub(crate) fn named(&self) -> String {
        match &self.subject {
            Some(subject) => {
                format!("{}, over HTTP", tool::visible(subject).chars().take(100).collect::<String>())
            }
            None => "the user, over HTTP".to_owned(),
        }
    }
}

/// Identifies the sender. Without a token, the sender is an agent if agents need no token.
pub(crate) async fn of(options: &Options, headers: &HeaderMap) -> Result<Sender, TokenRejection> {
    let known = &options.credentials;
    let own = |role| Sender { role, session: options.session.clone(), subject: None };
    let unknown = || TokenRejection::Token("it is unknown".to_owned());
    let mut values = headers.get_all(AUTHORIZATION).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => {
            let token = value.to_str().ok().and_then(credential::bearer).ok_or_else(unknown)?;
            match (credential::role_of(known, token), &options.provider) {
                (Some(role), _) => Ok(own(role)),
                (None, Some(provider)) => {
                    Ok(of_subject(options, provider.subject(token, &options.on_warning).await?))
                }
                (None, None) => Err(unknown()),
            }
        }
        (None, _) if !options.agents_need_tokens() => Ok(own(Role::Agent)),
        (None, _) => Err(TokenRejection::Absent),
        (Some(_), Some(_)) => Err(unknown()),
    }
}

fn of_subject(options: &Options, subject: Subject) -> Sender {
    let hash = blake3::hash(subject.name.as_bytes()).to_hex();
    // Use the whole hash, so that no name can be chosen to collide with another's session. The part
    // after the dot is the same in every run: the engine uses it as the key of the sender's memory.
    let session = SessionId(format!("{}.{hash}", options.session.0));
    Sender { role: subject.role, session, subject: Some(subject.name) }
}

/// MCP endpoints of the provider's subjects.
#[derive(Default)]
pub(crate) struct Endpoints(Mutex<HashMap<SessionId, (Endpoint, Instant)>>);

impl Endpoints {
    /// Returns the endpoint of a subject, created on first use; for a token of this server, the
    /// server's own endpoint.
    ///
    /// # Errors
    /// The errors of [`Endpoint::for_session`].
    pub(crate) fn of(&self, own: &Endpoint, sender: &Sender) -> Result<Endpoint, McpError> {
        if sender.subject.is_none() {
            return Ok(own.clone());
        }
        let mut all = self.0.lock();
        if let Some((endpoint, used)) = all.get_mut(&sender.session) {
            *used = Instant::now();
            return Ok(endpoint.clone());
        }
        if all.len() >= MAX_SUBJECTS {
            let oldest = all.iter().min_by_key(|(_, (_, used))| *used).map(|(session, _)| session.clone());
            if let Some((ended, _)) = oldest.and_then(|session| all.remove(&session)) {
                tokio::spawn(async move { ended.end_all().await });
            }
        }
        let endpoint = own.for_session(sender.session.clone())?;
        all.insert(sender.session.clone(), (endpoint.clone(), Instant::now()));
        Ok(endpoint)
    }

    /// Returns the number of open sessions of all endpoints.
    pub(crate) fn sessions(&self) -> usize {
        let all = self.0.lock();
        all.values().map(|(endpoint, _)| endpoint.sessions()).sum()
    }
}
