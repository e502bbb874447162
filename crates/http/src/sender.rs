//! Who sends a request: whoever has one of this server's own tokens, or somebody whom the identity provider knows.
//!
//! All who have one token are one. Whom the provider tells apart have sessions, background commands and leases of their own, and
//! reach those of nobody else.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use hyper::header::{AUTHORIZATION, HeaderMap};
use mcp::{Endpoint, McpError};
use tokio::time::Instant;
use tool::SessionId;

use crate::Options;
use crate::credential::{self, Role};
use crate::oauth::{Refused, Subject};

/// Those of the provider who have something of their own here at a time. For one more, it is taken from who was idle longest.
const MOST_SUBJECTS: usize = 1_000;

/// Who sends it.
#[derive(Debug, Clone)]
pub(crate) struct Sender {
    pub(crate) role: Role,
    /// Names what belongs to them.
    pub(crate) session: SessionId,
    /// As the provider names them; none for who has a token of this server.
    pub(crate) subject: Option<String>,
}

impl Sender {
    /// Who it is, for the audit.
    pub(crate) fn named(&self) -> String {
        match &self.subject {
            Some(subject) => {
                format!("{}, over HTTP", tool::visible(subject).chars().take(100).collect::<String>())
            }
            None => "the user, over HTTP".to_owned(),
        }
    }
}

/// Who sends it; an agent where no agent needs a token.
pub(crate) async fn of(options: &Options, headers: &HeaderMap) -> Result<Sender, Refused> {
    let known = &options.credentials;
    let own = |role| Sender { role, session: options.session.clone(), subject: None };
    let unknown = || Refused::Token("it is none that is known here".to_owned());
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
        (None, _) => Err(Refused::Absent),
        (Some(_), Some(_)) => Err(unknown()),
    }
}

fn of_subject(options: &Options, subject: Subject) -> Sender {
    let hash = blake3::hash(subject.name.as_bytes()).to_hex();
    // All of it, so that nobody can make up a name whose session is another's. What stands behind the dot is the same in every run: by
    // that the engine knows whose memory it is.
    let session = SessionId(format!("{}.{hash}", options.session.0));
    Sender { role: subject.role, session, subject: Some(subject.name) }
}

/// What answers MCP, for each whom the provider tells apart.
#[derive(Default)]
pub(crate) struct Endpoints(Mutex<HashMap<SessionId, (Endpoint, Instant)>>);

impl Endpoints {
    /// Theirs, made where they have none yet; the server's own for who has a token of it.
    ///
    /// # Errors
    /// As [`Endpoint::for_session`].
    pub(crate) fn of(&self, own: &Endpoint, sender: &Sender) -> Result<Endpoint, McpError> {
        if sender.subject.is_none() {
            return Ok(own.clone());
        }
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((endpoint, used)) = all.get_mut(&sender.session) {
            *used = Instant::now();
            return Ok(endpoint.clone());
        }
        if all.len() >= MOST_SUBJECTS {
            let oldest = all.iter().min_by_key(|(_, (_, used))| *used).map(|(session, _)| session.clone());
            if let Some((ended, _)) = oldest.and_then(|session| all.remove(&session)) {
                tokio::spawn(async move { ended.end_all().await });
            }
        }
        let endpoint = own.for_session(sender.session.clone())?;
        all.insert(sender.session.clone(), (endpoint.clone(), Instant::now()));
        Ok(endpoint)
    }

    /// Sessions that are open in all of them.
    pub(crate) fn sessions(&self) -> usize {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.values().map(|(endpoint, _)| endpoint.sessions()).sum()
    }
}
