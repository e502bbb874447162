//! The login of a server behind a URL, as the vault has it. This module sends nothing.

use jiff::{SignedDuration, Timestamp};
use mcp_client::config::{HttpConfig, ServerConfig};
use mcp_client::oauth::{Discovery, RegisteredClient, TokenEndpointAuth, Tokens};
use serde::{Deserialize, Serialize};
use tool::{Effect, Plan};
use url::Url;
use vault::{Change, HostRule, RequestPart, RequestParts, SecretBytes, Vault, VaultError};

use crate::settings::ServerSettings;

/// Longest lifetime of a token that is accepted from a server.
const LONGEST: SignedDuration = SignedDuration::from_hours(24 * 365);

/// Names of the secrets of a login, in the order of their removal: the most powerful one first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginSecrets {
    /// Secret that renews access tokens.
    pub refresh: String,
    /// Secret that opens the server.
    pub access: String,
    /// Secret of the registered client.
    pub client: String,
    /// Facts of the login: [`StoredLogin`].
    pub login: String,
}

impl LoginSecrets {
    /// Returns the names for a server of the configuration.
    pub fn of(server: &str) -> Self {
        let named = |part: &str| format!("mcp_{server}_{part}");
        Self {
            refresh: named("refresh_token"),
            access: named("access_token"),
            client: named("client_secret"),
            login: named("login"),
        }
    }

    /// Returns all names, in the order of their removal.
    pub fn all(&self) -> [&str; 4] {
        [&self.refresh, &self.access, &self.client, &self.login]
    }
}

/// Facts of a login besides its secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredLogin {
    /// Key of the server in the configuration.
    pub server: String,
    /// URL of the server. A server at another URL under the same key does not get the login.
    pub url: String,
    /// Authorization server and resource.
    pub discovery: Discovery,
    /// Id under which the authorization server knows this client.
    pub client_id: String,
    /// Proof of the client at the token endpoint.
    pub auth: Option<TokenEndpointAuth>,
}

/// Returns the configuration of a server that may have a login: it is behind a URL, and its configuration gives it no
/// credentials.
pub fn needs_login(settings: &ServerSettings) -> Option<&HttpConfig> {
    let (ServerConfig::Http(config) | ServerConfig::EventStream(config)) = &settings.config else {
        return None;
    };
    let has_credentials = config.headers.keys().any(|name| name.eq_ignore_ascii_case("authorization"));
    (!has_credentials).then_some(config)
}

impl StoredLogin {
    /// Reads the login of a server; `None` if there is none for its present URL.
    ///
    /// # Errors
    /// Errors of the vault.
    pub fn of(vault: &Vault, settings: &ServerSettings) -> Result<Option<Self>, VaultError> {
        let Some(url) = needs_login(settings).and_then(|config| config.url.expand(|_| None).ok()) else {
            return Ok(None);
        };
        if !vault.exists() {
            return Ok(None);
        }
        let contents = vault.contents()?;
        let login = contents.get(&LoginSecrets::of(&settings.key).login);
        let login: Option<Self> = login.and_then(|(_, value)| serde_json::from_slice(value).ok());
        Ok(login.filter(|login| login.url == url && login.server == settings.key))
    }

    /// Stores a new login.
    ///
    /// # Errors
    /// Errors of the vault.
    pub fn store(
        &self,
        vault: &Vault,
        client: &RegisteredClient,
        tokens: &Tokens,
        now: Timestamp,
    ) -> Result<(), VaultError> {
        let names = LoginSecrets::of(&self.server);
        match &client.secret {
            Some(secret) => {
                let parts = [RequestPart::Body, RequestPart::Header];
                vault.set(&bound(&names.client, &self.token_host()?, &parts)?, secret.as_bytes(), now)?;
            }
            None => drop(vault.remove(&names.client)?),
        }
        // A refresh token of an earlier login must not outlive it.
        vault.remove(&names.refresh)?;
        self.store_tokens(vault, tokens, now)?;
        let text = serde_json::to_string(self).unwrap_or_default();
        let nowhere = Change { hosts: Some(Vec::new()), ..Change::named(&names.login)? };
        vault.set(&nowhere, text.as_bytes(), now).map(drop)
    }

    /// Stores tokens, each bound to the host that takes it. The refresh token goes first: without it the next renewal
    /// would fail.
    ///
    /// # Errors
    /// Errors of the vault.
    pub fn store_tokens(&self, vault: &Vault, tokens: &Tokens, now: Timestamp) -> Result<(), VaultError> {
        let names = LoginSecrets::of(&self.server);
        if let Some(refresh) = &tokens.refresh {
            let change = bound(&names.refresh, &self.token_host()?, &[RequestPart::Body])?;
            vault.set(&change, refresh.reveal().as_bytes(), now)?;
        }
        let lasts = tokens.expires_in.and_then(|lasts| SignedDuration::try_from(lasts).ok());
        let expires_at = lasts.and_then(|lasts| now.checked_add(lasts.min(LONGEST)).ok());
        let change = bound(&names.access, &host_of(&self.url)?, &[RequestPart::Header])?;
        vault.set(&Change { expires_at, ..change }, tokens.access.reveal().as_bytes(), now).map(drop)
    }

    /// Returns the client, with its secret.
    ///
    /// # Errors
    /// Errors of the vault.
    pub(crate) fn client(&self, vault: &Vault, now: Timestamp) -> Result<RegisteredClient, VaultError> {
        let name = LoginSecrets::of(&self.server).client;
        let secret = match vault.value_for(&name, &self.token_host()?, RequestPart::Body, now) {
            Ok(secret) => Some(text(&secret)),
            Err(VaultError::Unknown) => None,
            Err(error) => return Err(error),
        };
        Ok(RegisteredClient { id: self.client_id.clone(), secret, auth: self.auth })
    }

    /// Returns the host that takes the refresh token.
    ///
    /// # Errors
    /// [`VaultError::Unknown`] if the endpoint has no host.
    pub fn token_host(&self) -> Result<String, VaultError> {
        host_of(&self.discovery.server.token_endpoint)
    }

    /// Adds the effects of a login to the plan of a call: the token at the server, and the renewal of an expired one.
    pub(crate) fn add_to(&self, plan: &mut Plan, server_host: &str) {
        let names = LoginSecrets::of(&self.server);
        let secret =
            |name: &str, host: &str| Effect::UseSecret { name: name.to_owned(), host: host.to_owned() };
        plan.effects.push(secret(&names.access, server_host));
        plan.login.push(names.access.clone());
        let endpoint = Url::parse(&self.discovery.server.token_endpoint);
        if let (Ok(host), Ok(endpoint)) = (self.token_host(), endpoint) {
            plan.effects.push(Effect::Connect {
                host: host.clone(),
                port: endpoint.port_or_known_default().unwrap_or(443),
                method: Some("POST".to_owned()),
                // A renewal changes no data of the user.
                only_asks: true,
            });
            plan.effects.push(secret(&names.refresh, &host));
            plan.login.push(names.refresh);
        }
    }
}

/// Returns a secret as text. Every secret of a vault is UTF-8.
pub(crate) fn text(secret: &SecretBytes) -> String {
    String::from_utf8_lossy(secret).into_owned()
}

/// Returns the host of a URL as rules of secrets write it.
fn host_of(url: &str) -> Result<String, VaultError> {
    let url = Url::parse(url).ok();
    let host = url.as_ref().and_then(Url::host_str).ok_or(VaultError::Unknown)?;
    Ok(host.trim_start_matches('[').trim_end_matches(']').to_owned())
}

fn bound(name: &str, host: &str, parts: &[RequestPart]) -> Result<Change, VaultError> {
    let hosts = HostRule::parse_all([host])?;
    Ok(Change { hosts: Some(hosts), places: Some(RequestParts::of(parts)), ..Change::named(name)? })
}
