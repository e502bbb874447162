//! Senders of requests: holders of this server's own tokens, and subjects of the identity provider.
//!
//! All holders of one token are the same sender. Each subject of the provider has its own sessions,
//! background commands and leases, and cannot reach those of others.

use tool::SessionId;

use crate::credential::Role;

/// The sender of a request.
#[derive(Debug, Clone)]
pub struct Sender {
    /// Role of the sender's token.
    pub role: Role,
    /// Session to which the sender's state belongs.
    pub session: SessionId,
    /// Name at the provider; `None` for a token of this server.
    pub subject: Option<String>,
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
