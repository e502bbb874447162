//! OAuth 2 as Google has it for programs on a person's machine (RFC 8252, with PKCE, RFC 7636): what is sent, what is answered, and
//! what of it lies in the vault.
//!
//! Nothing is sent here.

use std::borrow::Cow;
use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use url::form_urlencoded::Serializer;
use vault::{Change, HostRule, Locked, Places, Position, Vault, VaultError};

use crate::gmail::place::Gmail;

/// The secret that opens the mailbox for an hour.
pub const ACCESS: &str = "gmail_access_token";
/// The secret that gets another one of these.
pub const REFRESH: &str = "gmail_refresh_token";
/// The secret of the program that Google knows Handfast by.
pub const CLIENT_SECRET: &str = "gmail_client_secret";
/// What else is known of the login: [`Login`].
pub const LOGIN: &str = "gmail_login";
/// All of them, in the order in which they are removed: what opens most goes first.
pub const SECRETS: [&str; 4] = [REFRESH, ACCESS, CLIENT_SECRET, LOGIN];

/// What a login is asked for unless something else is wanted: to read, and to send.
pub const SCOPES: [&str; 2] =
    ["https://www.googleapis.com/auth/gmail.readonly", "https://www.googleapis.com/auth/gmail.send"];

/// Bytes of what is hard to guess.
const RANDOM: usize = 32;
/// Characters of a server's own words that are repeated.
const MOST_REPEATED: usize = 300;
/// The longest that a token is taken to be good for, whatever the server says.
const LONGEST: SignedDuration = SignedDuration::from_hours(24 * 365);

/// The program that Google knows Handfast by.
#[derive(Debug)]
pub struct Client {
    /// Its id, which is no secret.
    pub id: String,
    /// Its secret, where it has one.
    pub secret: Option<Locked>,
}

/// One attempt to log in: what ties the answer to the question.
pub struct Attempt {
    state: String,
    verifier: String,
}

impl Attempt {
    /// A new one.
    ///
    /// # Errors
    /// Where the system gives no random bytes.
    pub fn begin() -> io::Result<Self> {
        let random = || {
            let mut bytes = [0_u8; RANDOM];
            getrandom::fill(&mut bytes).map_err(io::Error::other)?;
            io::Result::Ok(URL_SAFE_NO_PAD.encode(bytes))
        };
        Ok(Self { state: random()?, verifier: random()? })
    }

    /// Whether an answer belongs to it. Takes as long for any text of one length.
    pub fn is_answered_by(&self, state: &str) -> bool {
        let differs = self.state.bytes().zip(state.bytes()).fold(0, |sum, (one, other)| sum | (one ^ other));
        state.len() == self.state.len() && differs == 0
    }

    /// The address at which a person lets it pass.
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
            // With these Google gives out a token that outlives the hour, also to who has had one before.
            .append_pair("access_type", "offline")
            .append_pair("prompt", "consent");
        if let Some(account) = account {
            query.append_pair("login_hint", account);
        }
        let at = gmail.authorization().to_string();
        let glue = if at.contains('?') { '&' } else { '?' };
        format!("{at}{glue}{}", query.finish())
    }

    /// What turns the code that came back into tokens.
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

/// What gets another access token.
pub(crate) fn refresh(client: &Client, token: &Locked) -> Vec<u8> {
    form(
        client,
        &[("grant_type", "refresh_token"), ("refresh_token", std::str::from_utf8(token).unwrap_or_default())],
    )
}

/// What takes a token back, and all that came of it.
pub fn revocation(token: &Locked) -> Vec<u8> {
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

/// Tokens that were given out.
pub struct Grant {
    /// Opens the mailbox.
    pub access: Locked,
    /// Gets another one; a server that leaves it out means the one that there is.
    pub refresh: Option<Locked>,
    /// Until when the first is good.
    pub expires_at: Option<Timestamp>,
    /// What for, where the server says so.
    pub scopes: Option<String>,
}

/// Why none were given out.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// The server's own words.
    #[error("{error}: {description}")]
    Said {
        /// A word of OAuth, such as `invalid_grant`.
        error: String,
        /// For people.
        description: String,
    },
    /// No answer of OAuth.
    #[error("the answer, of status {status}, is none of OAuth")]
    Unlike {
        /// The status of HTTP.
        status: u16,
    },
}

impl Grant {
    /// What a server of tokens has answered. The bytes are wiped.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn read(status: u16, body: &mut [u8], now: Timestamp) -> Result<Self, Refused> {
        let read = Self::of(status, body, now);
        body.fill(0);
        read
    }

    fn of(status: u16, body: &[u8], now: Timestamp) -> Result<Self, Refused> {
        // Borrowed, so that no copy of a token is left behind.
        #[derive(Deserialize)]
        struct Given<'a> {
            #[serde(borrow)]
            access_token: Cow<'a, str>,
            #[serde(borrow)]
            refresh_token: Option<Cow<'a, str>>,
            expires_in: Option<f64>,
            scope: Option<String>,
        }
        #[derive(Deserialize)]
        struct Said {
            error: String,
            #[serde(default)]
            error_description: String,
        }
        let unlike = || Refused::Unlike { status };
        if !(200..300).contains(&status) {
            let said: Said = serde_json::from_slice(body).map_err(|_| unlike())?;
            let short = |text: String| text.chars().take(MOST_REPEATED).collect();
            return Err(Refused::Said {
                error: short(said.error),
                description: short(said.error_description),
            });
        }
        let given: Given<'_> = serde_json::from_slice(body).map_err(|_| unlike())?;
        let is_token = |token: &str| token.bytes().all(|byte| byte.is_ascii_graphic()) && !token.is_empty();
        if !is_token(&given.access_token) || !given.refresh_token.as_deref().is_none_or(is_token) {
            return Err(unlike());
        }
        let lasts = given.expires_in.and_then(|seconds| SignedDuration::try_from_secs_f64(seconds).ok());
        let lasts = lasts.map(|lasts| lasts.clamp(SignedDuration::ZERO, LONGEST));
        Ok(Self {
            access: Locked::copy_of(given.access_token.as_bytes()),
            refresh: given.refresh_token.map(|token| Locked::copy_of(token.as_bytes())),
            expires_at: lasts.and_then(|lasts| now.checked_add(lasts).ok()),
            scopes: given.scope,
        })
    }

    /// Puts the tokens into the vault, each for the host that takes it. The one that gets others goes first: without it the next
    /// renewal would fail.
    ///
    /// # Errors
    /// Those of the vault.
    pub fn keep(&self, vault: &Vault, gmail: &Gmail, now: Timestamp) -> Result<(), VaultError> {
        if let Some(refresh) = &self.refresh {
            let takes = [gmail.token().host().to_string(), gmail.revocation().host().to_string()];
            vault.set(&for_hosts(REFRESH, &takes, Position::Body)?, refresh, now)?;
        }
        let access = for_hosts(ACCESS, &[gmail.api().host().to_string()], Position::Header)?;
        vault.set(&Change { expires_at: self.expires_at, ..access }, &self.access, now).map(drop)
    }
}

/// What is known of a login beside its tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Login {
    /// The id of the program that Google knows Handfast by.
    pub client_id: String,
    /// Whose mailbox it is, where that could be asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// What was let pass.
    #[serde(default)]
    pub scopes: String,
}

impl Login {
    /// The one that the vault has; none where nobody is logged in.
    ///
    /// # Errors
    /// Those of the vault.
    pub fn of(vault: &Vault) -> Result<Option<Self>, VaultError> {
        let contents = vault.contents()?;
        Ok(contents.get(LOGIN).and_then(|(_, value)| serde_json::from_slice(value).ok()))
    }

    /// Puts it into the vault, with the program's secret.
    ///
    /// # Errors
    /// Those of the vault.
    pub fn keep(
        &self,
        vault: &Vault,
        gmail: &Gmail,
        client: &Client,
        now: Timestamp,
    ) -> Result<(), VaultError> {
        match &client.secret {
            Some(secret) => {
                let change = for_hosts(CLIENT_SECRET, &[gmail.token().host().to_string()], Position::Body)?;
                vault.set(&change, secret, now)?;
            }
            None => {
                vault.remove(CLIENT_SECRET)?;
            }
        }
        let text = serde_json::to_string(self).unwrap_or_default();
        vault.set(&for_hosts(LOGIN, &[], Position::Body)?, text.as_bytes(), now).map(drop)
    }
}

fn for_hosts(name: &str, hosts: &[String], position: Position) -> Result<Change, VaultError> {
    let hosts = HostRule::parse_all(hosts.iter().map(String::as_str))?;
    Ok(Change { hosts: Some(hosts), places: Some(Places::of(&[position])), ..Change::named(name)? })
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
        // RFC 7636, appendix B.
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
            assert!(matches!(read(status, text), Err(Refused::Unlike { .. })), "{status} {text}");
        }
        let endless = read(200, r#"{"access_token": "a", "expires_in": 1e300}"#);
        assert!(endless.is_ok_and(|grant| grant.expires_at.is_none()));
        let said = read(400, r#"{"error": "invalid_grant", "error_description": "Token has been revoked."}"#);
        assert_eq!(said.err().unwrap().to_string(), "invalid_grant: Token has been revoked.");
    }
}
