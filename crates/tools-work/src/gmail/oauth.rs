//! OAuth 2 in Google's form for installed programs (RFC 8252, with PKCE, RFC 7636): requests,
//! responses, and the secrets of a login in the vault.
//!
//! This module sends nothing.

use std::borrow::Cow;
use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use url::form_urlencoded::Serializer;
use vault::{Change, HostRule, RequestPart, RequestParts, SecretBytes, Vault, VaultError};

use crate::gmail::place::Gmail;

/// Name of the secret that opens the mailbox for an hour.
pub const ACCESS: &str = "gmail_access_token";
/// Name of the secret that renews access tokens.
pub const REFRESH: &str = "gmail_refresh_token";
/// Name of the client secret under which Google knows Handfast.
pub const CLIENT_SECRET: &str = "gmail_client_secret";
/// Name of the secret with the other facts of the login: [`Login`].
pub const LOGIN: &str = "gmail_login";
/// All secrets in the order of their removal: the most powerful one first.
pub const SECRETS: [&str; 4] = [REFRESH, ACCESS, CLIENT_SECRET, LOGIN];

/// Default scopes of a login: reading and sending.
pub const SCOPES: [&str; 2] =
    ["https://www.googleapis.com/auth/gmail.readonly", "https://www.googleapis.com/auth/gmail.send"];

/// Number of random bytes of an unguessable value.
const RANDOM: usize = 32;
/// Maximum number of characters of a server's message that are repeated.
const MAX_REPEATED: usize = 300;
/// Maximum lifetime that is accepted from a server for a token.
const LONGEST: SignedDuration = SignedDuration::from_hours(24 * 365);

/// The OAuth client under which Google knows Handfast.
#[derive(Debug)]
pub struct Client {
    /// Client id, which is not secret.
    pub id: String,
    /// Client secret, if any.
    pub secret: Option<SecretBytes>,
}

/// One attempt to log in, with the values that tie the response to the request.
pub struct Attempt {
    state: String,
    verifier: String,
}

impl Attempt {
    /// Starts an attempt.
    ///
    /// # Errors
    /// Fails if the system provides no random bytes.
    pub fn begin() -> io::Result<Self> {
        let random = || {
            let mut bytes = [0_u8; RANDOM];
            getrandom::fill(&mut bytes).map_err(io::Error::other)?;
            io::Result::Ok(URL_SAFE_NO_PAD.encode(bytes))
        };
        Ok(Self { state: random()?, verifier: random()? })
    }

    /// Returns true if a response belongs to this attempt. The comparison takes constant time for
    /// texts of one length.
    pub fn is_answered_by(&self, state: &str) -> bool {
        let differs = self.state.bytes().zip(state.bytes()).fold(0, |sum, (one, other)| sum | (one ^ other));
        state.len() == self.state.len() && differs == 0
    }

    /// Returns the URL at which a person consents to the login.
    pub fn address(
        &self,
        gmail: &Gmail,
        client: &Client,
        redirect: &str,
        scopes: &str,
        account: Option<&str>,
    ) -> String {
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(self.verifier.as_bytes()));
        let mut query = Serializer::new(String::new());
        query
            .append_pair("response_type", "code")
            .append_pair("client_id", &client.id)
            .append_pair("redirect_uri", redirect)
            .append_pair("scope", scopes)
            .append_pair("state", &self.state)
            .append_pair("code_challenge", &challenge)
            .append_pair("code_challenge_method", "S256")
            // These parameters make Google issue a refresh token, also to a user who got one
            // before.
            .append_pair("access_type", "offline")
            .append_pair("prompt", "consent");
        if let Some(account) = account {
            query.append_pair("login_hint", account);
        }
        let at = gmail.authorization().to_string();
        let glue = if at.contains('?') { '&' } else { '?' };
        format!("{at}{glue}{}", query.finish())
    }

    /// Returns the request body that exchanges the code for tokens.
    pub fn exchange(&self, client: &Client, code: &str, redirect: &str) -> Vec<u8> {
        form(
            client,
            &[
                ("grant_type", "authorization_code"),
                ("code", code),
                ("redirect_uri", redirect),
                ("code_verifier", &self.verifier),
            ],
        )
    }
}

/// Returns the request body that renews an access token.
pub(crate) fn refresh(client: &Client, token: &SecretBytes) -> Vec<u8> {
    form(
        client,
        &[("grant_type", "refresh_token"), ("refresh_token", std::str::from_utf8(token).unwrap_or_default())],
    )
}

/// Returns the request body that revokes a token and all tokens derived from it.
pub fn revocation(token: &SecretBytes) -> Vec<u8> {
    let mut form = Serializer::new(String::new());
    form.append_pair("token", std::str::from_utf8(token).unwrap_or_default());
    form.finish().into_bytes()
}

fn form(client: &Client, fields: &[(&str, &str)]) -> Vec<u8> {
    let mut form = Serializer::new(String::new());
    form.extend_pairs(fields).append_pair("client_id", &client.id);
    if let Some(secret) = client.secret.as_ref().and_then(|secret| std::str::from_utf8(secret).ok()) {
        form.append_pair("client_secret", secret);
    }
    form.finish().into_bytes()
}

/// Issued tokens.
pub struct Grant {
    /// Access token, which opens the mailbox.
    pub access: SecretBytes,
    /// Refresh token. A server that omits it means that the existing one stays valid.
    pub refresh: Option<SecretBytes>,
    /// Time at which the access token expires.
    pub expires_at: Option<Timestamp>,
    /// Granted scopes, if the server states them.
    pub scopes: Option<String>,
}

/// A reason why no tokens were issued.
#[derive(Debug, thiserror::Error)]
pub enum OauthRefusal {
    /// Error of the server, in its own words.
    #[error("{error}: {description}")]
    Said {
        /// OAuth error code, such as `invalid_grant`.
        error: String,
        /// Description for people.
        description: String,
    },
    /// Response that is not of OAuth.
    #[error("the response, of status {status}, is not an OAuth response")]
    Unlike {
        /// HTTP status code.
        status: u16,
    },
}

impl Grant {
    /// Parses the response of a token server, and wipes the bytes.
    ///
    /// # Errors
    /// [`OauthRefusal`].
    pub fn read(status: u16, body: &mut [u8], now: Timestamp) -> Result<Self, OauthRefusal> {
        let read = Self::of(status, body, now);
        body.fill(0);
        read
    }

    fn of(status: u16, body: &[u8], now: Timestamp) -> Result<Self, OauthRefusal> {
        // Borrowed fields leave no copy of a token behind.
        #[derive(Deserialize)]
        struct TokenResponse<'a> {
            #[serde(borrow)]
            access_token: Cow<'a, str>,
            #[serde(borrow)]
            refresh_token: Option<Cow<'a, str>>,
            expires_in: Option<f64>,
            scope: Option<String>,
        }
        #[derive(Deserialize)]
        struct OauthFailure {
            error: String,
            #[serde(default)]
            error_description: String,
        }
        let unlike = || OauthRefusal::Unlike { status };
        if !(200..300).contains(&status) {
            let said: OauthFailure = serde_json::from_slice(body).map_err(|_| unlike())?;
            let short = |text: String| text.chars().take(MAX_REPEATED).collect();
            return Err(OauthRefusal::Said {
                error: short(said.error),
                description: short(said.error_description),
            });
        }
        let given: TokenResponse<'_> = serde_json::from_slice(body).map_err(|_| unlike())?;
        let is_token = |token: &str| token.bytes().all(|byte| byte.is_ascii_graphic()) && !token.is_empty();
        if !is_token(&given.access_token) || !given.refresh_token.as_deref().is_none_or(is_token) {
            return Err(unlike());
        }
        let lasts = given.expires_in.and_then(|seconds| SignedDuration::try_from_secs_f64(seconds).ok());
        let lasts = lasts.map(|lasts| lasts.clamp(SignedDuration::ZERO, LONGEST));
        Ok(Self {
            access: SecretBytes::copy_of(given.access_token.as_bytes()),
            refresh: given.refresh_token.map(|token| SecretBytes::copy_of(token.as_bytes())),
            expires_at: lasts.and_then(|lasts| now.checked_add(lasts).ok()),
            scopes: given.scope,
        })
    }

    /// Stores the tokens in the vault, each bound to the host that accepts it. The refresh token is
    /// stored first: without it the next renewal would fail.
    ///
    /// # Errors
    /// Errors of the vault.
    pub fn keep(&self, vault: &Vault, gmail: &Gmail, now: Timestamp) -> Result<(), VaultError> {
        if let Some(refresh) = &self.refresh {
            let takes = [gmail.token().host().to_string(), gmail.revocation().host().to_string()];
            vault.set(&for_hosts(REFRESH, &takes, RequestPart::Body)?, refresh, now)?;
        }
        let access = for_hosts(ACCESS, &[gmail.api().host().to_string()], RequestPart::Header)?;
        vault.set(&Change { expires_at: self.expires_at, ..access }, &self.access, now).map(drop)
    }
}

/// The facts of a login besides its tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Login {
    /// Client id under which Google knows Handfast.
    pub client_id: String,
    /// Address of the mailbox, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// Granted scopes.
    #[serde(default)]
    pub scopes: String,
}

impl Login {
    /// Reads the login from the vault; `None` without a login.
    ///
    /// # Errors
    /// Errors of the vault.
    pub fn of(vault: &Vault) -> Result<Option<Self>, VaultError> {
        let contents = vault.contents()?;
        Ok(contents.get(LOGIN).and_then(|(_, value)| serde_json::from_slice(value).ok()))
    }

    /// Stores the login in the vault, with the client secret.
    ///
    /// # Errors
    /// Errors of the vault.
    pub fn keep(
        &self,
        vault: &Vault,
        gmail: &Gmail,
        client: &Client,
        now: Timestamp,
    ) -> Result<(), VaultError> {
        match &client.secret {
            Some(secret) => {
                let change =
                    for_hosts(CLIENT_SECRET, &[gmail.token().host().to_string()], RequestPart::Body)?;
                vault.set(&change, secret, now)?;
            }
            None => {
                vault.remove(CLIENT_SECRET)?;
            }
        }
        let text = serde_json::to_string(self).unwrap_or_default();
        vault.set(&for_hosts(LOGIN, &[], RequestPart::Body)?, text.as_bytes(), now).map(drop)
    }
}

fn for_hosts(name: &str, hosts: &[String], position: RequestPart) -> Result<Change, VaultError> {
    let hosts = HostRule::parse_all(hosts.iter().map(String::as_str))?;
    Ok(Change { hosts: Some(hosts), places: Some(RequestParts::of(&[position])), ..Change::named(name)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gmail::place::Endpoints;

    #[test]
    fn the_challenge_is_that_of_the_standard() {
        let attempt = Attempt {
            state: "s".to_owned(),
            verifier: "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk".to_owned(),
        };
        let gmail = Gmail::at(Endpoints::default()).unwrap();
        let client = Client { id: "id".to_owned(), secret: None };
        let address = attempt.address(&gmail, &client, "http://127.0.0.1:1/", "a b", Some("x@example.com"));
        // Test vector of RFC 7636, appendix B.
        assert!(address.contains("code_challenge=E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM&"), "{address}");
        assert!(address.starts_with("https://accounts.google.com/o/oauth2/v2/auth?response_type=code&"));
        assert!(address.contains("&scope=a+b&") && address.ends_with("&login_hint=x%40example.com"));
        assert!(attempt.is_answered_by("s") && !attempt.is_answered_by("t") && !attempt.is_answered_by(""));
    }

    #[test]
    fn an_answer_that_gives_no_token_is_refused_and_its_bytes_are_wiped() {
        let now = Timestamp::UNIX_EPOCH;
        let read = |status, text: &str| {
            let mut body = text.as_bytes().to_vec();
            let read = Grant::read(status, &mut body, now);
            assert!(body.iter().all(|byte| *byte == 0));
            read
        };
        let good = read(200, r#"{"access_token": "ya29.x", "expires_in": 3599, "token_type": "Bearer"}"#);
        let good = good.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((&good.access[..], good.expires_at.unwrap().as_second()), (&b"ya29.x"[..], 3599));
        for (status, text) in [
            (200, "{}"),
            (200, "<html>"),
            (200, r#"{"access_token": "a\r\nX-Evil: 1"}"#),
            (200, r#"{"access_token": "a", "refresh_token": ""}"#),
            (500, "busy"),
            (302, ""),
        ] {
            assert!(matches!(read(status, text), Err(OauthRefusal::Unlike { .. })), "{status} {text}");
        }
        let endless = read(200, r#"{"access_token": "a", "expires_in": 1e300}"#);
        assert!(endless.is_ok_and(|grant| grant.expires_at.is_none()));
        let said = read(400, r#"{"error": "invalid_grant", "error_description": "Token has been revoked."}"#);
        assert_eq!(said.err().unwrap().to_string(), "invalid_grant: Token has been revoked.");
    }
}
