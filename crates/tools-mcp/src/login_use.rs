//! The login of a server within one call: its token, renewed by one program at a time.

use std::sync::Arc;
use std::time::Duration;

use fetch::address::Target;
use fetch::dial::Permission;
use fetch::web::{Web, pause};
use jiff::SignedDuration;
use mcp_client::oauth::{OAuthError, Reach, Secret, refresh};
use tool::{Clock, Code, Context, Retry, Timer, ToolError};
use vault::{Name, RequestPart, SecretBytes, Vault, VaultError};

use crate::parts::ServersParts;
use crate::plain_transport::PlainTransport;
use crate::settings::ServerSettings;
use crate::stored_login::{LoginSecrets, StoredLogin, text};

/// Minimum remaining lifetime of a token at the start of a request.
const MARGIN: SignedDuration = SignedDuration::from_secs(60);
/// Interval at which another program's renewal is looked for.
const LOOKED_EVERY: Duration = Duration::from_millis(50);
/// Number of such looks: a renewal takes at most 30 s.
const MOST_LOOKS: u32 = 800;

/// Login as one call uses it.
pub(crate) struct LoginUse {
    login: StoredLogin,
    vault: Arc<Vault>,
    clock: Arc<dyn Clock>,
    timer: Arc<dyn Timer>,
    /// Sender to the token endpoint alone.
    transport: PlainTransport,
}

/// Returns the error of a server without a login.
pub(crate) fn not_logged_in(server: &str) -> ToolError {
    ToolError::new(Code::Unavailable, format!("nobody is logged in at the MCP server {server}"))
        .hint(format!("the user logs in: `handfast login mcp {server}`"))
}

impl LoginUse {
    /// Returns the login of a server for a call; `None` if it has none.
    ///
    /// # Errors
    /// `EUNAVAILABLE` if the vault is locked, or the error of a host that the policy denies.
    pub(crate) fn of(
        context: &Context,
        parts: &ServersParts,
        settings: &ServerSettings,
    ) -> Result<Option<Self>, ToolError> {
        let Some(vault) = parts.vault.clone() else { return Ok(None) };
        let login = match StoredLogin::of(&vault, settings) {
            Ok(login) => login,
            // The server may need no login.
            Err(VaultError::Locked) => None,
            Err(error) => return Err(tool_support::vault_error(error)),
        };
        let Some(login) = login else { return Ok(None) };
        let endpoint = Target::parse(&login.discovery.server.token_endpoint)
            .map_err(|error| ToolError::validation("url", error))?;
        let permission: Permission = tool_support::permission(context, &endpoint, true)?;
        let permit = move |target: &Target| target.has_origin_of(&endpoint).then(|| permission.clone());
        Ok(Some(Self {
            login,
            vault,
            clock: context.clock.clone(),
            timer: parts.timer.clone(),
            transport: PlainTransport::new(parts.web.clone() as Arc<Web>, Box::new(permit)),
        }))
    }

    /// Returns a token that is valid as far as known, other than `refused`.
    ///
    /// # Errors
    /// `EPERMISSION` or `EUNAVAILABLE` with the advice to log in again, or `ERUNTIME` if the authorization server does
    /// not answer.
    pub(crate) async fn access(&self, refused: Option<&SecretBytes>) -> Result<SecretBytes, ToolError> {
        let name = Name::parse(&self.names().access).map_err(|error| self.unreadable(error))?;
        for _ in 0..MOST_LOOKS {
            if let Some(token) = self.stored(refused)? {
                return Ok(token);
            }
            if let Some(turn) = self.vault.turn(&name).map_err(|error| self.unreadable(error))? {
                // The previous holder of the turn may have renewed the token.
                let token = match self.stored(refused)? {
                    Some(token) => Ok(token),
                    None => self.renew().await,
                };
                drop(turn);
                return token;
            }
            pause(LOOKED_EVERY).await;
        }
        let message =
            format!("another program renews the login of {} and does not finish", self.login.server);
        Err(ToolError::new(Code::Timeout, message).retry(Retry::Now))
    }

    fn names(&self) -> LoginSecrets {
        LoginSecrets::of(&self.login.server)
    }

    /// Returns the token in the vault, if it is still valid.
    fn stored(&self, refused: Option<&SecretBytes>) -> Result<Option<SecretBytes>, ToolError> {
        let (now, name) = (self.clock.now(), self.names().access);
        let contents = self.vault.contents().map_err(|error| self.unreadable(error))?;
        let Some((entry, value)) = contents.get(&name) else { return Ok(None) };
        let ends = entry.expires_at.and_then(|end| end.checked_sub(MARGIN).ok());
        if ends.is_some_and(|end| end <= now) || refused.is_some_and(|refused| refused[..] == *value) {
            return Ok(None);
        }
        let host = url::Url::parse(&self.login.url).ok();
        let host = host.as_ref().and_then(url::Url::host_str).unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let value = self.vault.value_for(&name, host, RequestPart::Header, now);
        value.map(Some).map_err(|error| self.unreadable(error))
    }

    /// Renews the token, and stores it in the vault.
    async fn renew(&self) -> Result<SecretBytes, ToolError> {
        let unreadable = |error| self.unreadable(error);
        let now = self.clock.now();
        let host = self.login.token_host().map_err(unreadable)?;
        let token = match self.vault.value_for(&self.names().refresh, &host, RequestPart::Body, now) {
            Ok(token) => Secret::new(text(&token)),
            Err(VaultError::Unknown) => {
                let message = format!("the login at the MCP server {} has expired", self.login.server);
                return Err(ToolError::new(Code::Unavailable, message).hint(self.advice()));
            }
            Err(error) => return Err(unreadable(error)),
        };
        let client = self.login.client(&self.vault, now).map_err(unreadable)?;
        let reach = Reach { transport: &self.transport, timer: self.timer.as_ref() };
        let renewed = refresh(reach, &self.login.discovery, &client, &token).await;
        let tokens = renewed.map_err(|error| self.denied(&error))?;
        self.login.store_tokens(&self.vault, &tokens, self.clock.now()).map_err(unreadable)?;
        Ok(SecretBytes::copy_of(tokens.access.reveal().as_bytes()))
    }

    fn advice(&self) -> String {
        format!("the user logs in again: `handfast login mcp {}`", self.login.server)
    }

    /// Converts a refusal of the authorization server.
    fn denied(&self, error: &OAuthError) -> ToolError {
        let server = &self.login.server;
        match error {
            OAuthError::Refused { error: code, .. }
                if ["invalid_grant", "invalid_client", "unauthorized_client"].contains(&code.as_str()) =>
            {
                let message = format!("the login at the MCP server {server} is no longer valid ({error})");
                ToolError::new(Code::Unavailable, message).hint(self.advice())
            }
            _ => {
                let message = format!("the login at the MCP server {server} could not be renewed: {error}");
                ToolError::new(Code::Runtime, message).hint("the authorization server may answer later")
            }
        }
    }

    fn unreadable(&self, error: VaultError) -> ToolError {
        match &error {
            VaultError::Unknown | VaultError::NoVault => not_logged_in(&self.login.server),
            VaultError::NotForHost | VaultError::NotForPlace { .. } => {
                let message =
                    format!("the login at the MCP server {} is for another host: {error}", self.login.server);
                ToolError::new(Code::Permission, message).hint(self.advice())
            }
            _ => return tool_support::vault_error(error),
        }
        .because(error)
    }
}
