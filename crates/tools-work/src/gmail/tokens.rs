//! The access token: from the vault if it is valid, else renewed, by one program at a time.

use std::time::{Duration, Instant};

use fetch::web::{Web, WebRequest, pause};
use fetch::{HeaderMap, HeaderValue};
use jiff::SignedDuration;
use tool::{Code, Context, Retry, ToolError};
use tool_support::{BodyError, failure, permission};
use vault::{Name, RequestPart, SecretBytes, Vault, VaultError};

use crate::gmail::oauth::{self, ACCESS, CLIENT_SECRET, Client, Grant, Login, OauthRefusal, REFRESH};
use crate::gmail::place::Gmail;

/// Minimum remaining lifetime of a token at the start of a request, because the request takes time.
const MARGIN: SignedDuration = SignedDuration::from_secs(60);
/// Interval at which to check whether another program has renewed the token.
const LOOKED_EVERY: Duration = Duration::from_millis(50);
/// Delays before the second and the third attempt of a renewal without an answer. Two renewals give
/// two valid tokens.
const WAITS: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(1)];
/// Maximum number of bytes of an answer.
const LARGEST: u64 = 64 * 1024;

/// The source of one call's token.
pub(crate) struct Tokens<'a> {
    pub(crate) context: &'a Context,
    pub(crate) web: &'a Web,
    pub(crate) gmail: &'a Gmail,
    pub(crate) vault: &'a Vault,
    pub(crate) deadline: Instant,
}

impl Tokens<'_> {
    /// Returns a token that is valid as far as known, other than `refused`.
    pub(crate) async fn access(&self, refused: Option<&SecretBytes>) -> Result<SecretBytes, ToolError> {
        let name = Name::parse(ACCESS).map_err(unreadable)?;
        if !self.vault.exists() {
            // Without a vault there is no login to renew, and no vault must be created.
            return Err(nobody());
        }
        loop {
            if let Some(token) = self.kept(refused)? {
                return Ok(token);
            }
            if let Some(turn) = self.vault.turn(&name).map_err(unreadable)? {
                // The previous holder of the turn may have renewed the token.
                let kept = self.kept(refused)?;
                let token = match kept {
                    Some(token) => Ok(token),
                    None => self.renew().await,
                };
                drop(turn);
                return token;
            }
            if LOOKED_EVERY >= self.left() {
                let message = "another program is renewing the Gmail login and does not finish";
                return Err(ToolError::new(Code::Timeout, message).retry(Retry::Now));
            }
            pause(LOOKED_EVERY).await;
        }
    }

    /// Returns the token in the vault, if it is still valid.
    fn kept(&self, refused: Option<&SecretBytes>) -> Result<Option<SecretBytes>, ToolError> {
        let now = self.context.clock.now();
        let contents = self.vault.contents().map_err(unreadable)?;
        let Some((entry, value)) = contents.get(ACCESS) else { return Ok(None) };
        let ends = entry.expires_at.and_then(|end| end.checked_sub(MARGIN).ok());
        if ends.is_some_and(|end| end <= now) || refused.is_some_and(|refused| refused[..] == *value) {
            return Ok(None);
        }
        let host = self.gmail.api().host().to_string();
        self.vault.value_for(ACCESS, &host, RequestPart::Header, now).map(Some).map_err(unreadable)
    }

    /// Renews the token and stores it in the vault.
    async fn renew(&self) -> Result<SecretBytes, ToolError> {
        let now = self.context.clock.now();
        let host = self.gmail.token().host().to_string();
        let secret = |name: &str| match self.vault.value_for(name, &host, RequestPart::Body, now) {
            Ok(value) => Ok(Some(value)),
            Err(VaultError::Unknown | VaultError::NoVault) => Ok(None),
            Err(error) => Err(unreadable(error)),
        };
        let login = Login::of(self.vault).map_err(unreadable)?.ok_or_else(nobody)?;
        let token = secret(REFRESH)?.ok_or_else(nobody)?;
        let client = Client { id: login.client_id, secret: secret(CLIENT_SECRET)? };
        self.context.progress.report(0, None, "renewing the Gmail login");
        let mut waits = WAITS.iter();
        loop {
            let (error, may_pass) = match self.asked(oauth::refresh(&client, &token)).await {
                Ok(Ok(grant)) => {
                    grant.keep(self.vault, self.gmail, self.context.clock.now()).map_err(unreadable)?;
                    return Ok(grant.access);
                }
                Ok(Err(refused)) => {
                    let may_pass = matches!(refused, OauthRefusal::Unlike { status } if status >= 500);
                    (denied(&refused), may_pass)
                }
                Err(error) => error,
            };
            let wait = waits.next().copied().filter(|wait| may_pass && *wait < self.left());
            let Some(wait) = wait else { return Err(error) };
            pause(wait).await;
        }
    }

    /// Returns the response of the token server, or an error with a flag that is true if a retry
    /// may succeed.
    async fn asked(&self, form: Vec<u8>) -> Result<Result<Grant, OauthRefusal>, (ToolError, bool)> {
        let last = |error| (error, false);
        let usual = [
            (fetch::ACCEPT, "application/json"),
            (fetch::CONTENT_TYPE, "application/x-www-form-urlencoded"),
            (fetch::USER_AGENT, concat!("handfast/", env!("CARGO_PKG_VERSION"))),
        ];
        let headers: HeaderMap =
            usual.into_iter().map(|(name, value)| (name, HeaderValue::from_static(value))).collect();
        let ask = WebRequest {
            target: self.gmail.token().clone(),
            method: fetch::Method::POST,
            headers,
            body: form.into(),
            permission: permission(self.context, self.gmail.token(), true).map_err(last)?,
            deadline: self.deadline,
        };
        let broken = |error: fetch::web::WebError| {
            let may_pass = error.may_pass();
            (failure(error), may_pass)
        };
        let mut answer = self.web.send(ask).await.map_err(broken)?;
        let status = answer.status;
        let garbled = |_| last(denied(&OauthRefusal::Unlike { status }));
        let decoder = tool_support::decoder(&answer, true, LARGEST).map_err(garbled)?;
        let mut body = tool_support::whole(&mut answer, decoder).await.map_err(|error| match error {
            BodyError::Web(error) => broken(error),
            BodyError::Decode(error) => garbled(error),
        })?;
        Ok(Grant::read(status, &mut body, self.context.clock.now()))
    }

    fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }
}

/// Converts a refusal of the token server into a tool error.
fn denied(refused: &OauthRefusal) -> ToolError {
    match refused {
        OauthRefusal::Said { error, .. } if error == "invalid_grant" => {
            let message = format!("the Gmail login is no longer valid ({refused})");
            ToolError::new(Code::Permission, message)
                .hint("the login was revoked or has expired; the user logs in again: `handfast login gmail`")
        }
        OauthRefusal::Said { error, .. }
            if ["invalid_client", "unauthorized_client"].contains(&error.as_str()) =>
        {
            let message = format!("Google rejects the OAuth client of the login ({refused})");
            ToolError::new(Code::Permission, message)
                .hint("the user logs in with another client: `handfast login gmail --client FILE`")
        }
        refused => {
            let message = format!("the Gmail login could not be renewed: {refused}");
            ToolError::new(Code::Runtime, message).hint("Google may answer later")
        }
    }
}

fn nobody() -> ToolError {
    ToolError::new(Code::Unavailable, "there is no Gmail login")
        .hint("the user logs in: `handfast login gmail`")
}

fn unreadable(error: VaultError) -> ToolError {
    match &error {
        VaultError::NotForHost | VaultError::NotForPlace { .. } => {
            ToolError::new(Code::Permission, format!("the Gmail login was made for another address: {error}"))
                .hint("the user logs in again, for the configured address: `handfast login gmail`")
        }
        VaultError::Unknown | VaultError::NoVault => nobody(),
        _ => return tool_support::vault_error(error),
    }
    .because(error)
}
