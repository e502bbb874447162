//! Identification of senders, by their tokens.

use hyper::header::{AUTHORIZATION, HeaderMap};
use tool::SessionId;

use crate::credential::{self, Role};
use crate::oauth::{Subject, TokenRejection};
use crate::options::Options;
use crate::sender::Sender;

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
