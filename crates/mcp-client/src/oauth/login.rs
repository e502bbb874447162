//! The login itself, and the renewal of tokens.

use std::time::Duration;

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use serde_json::Value;
use sha2::{Digest, Sha256};
use url::form_urlencoded::{self, Serializer};

use super::discovery::Discovery;
use super::exchange::{OAuthError, Reach, checked_url, refusal};
use super::identity::{RegisteredClient, TokenEndpointAuth};
use crate::error::line;

/// Number of random bytes of a login: 32 for the verifier of PKCE (RFC 7636, section 4.1), 16 for the state.
pub const RANDOM_BYTES: usize = 48;

/// Maximum length of a token, in bytes.
const LONGEST_TOKEN: usize = 16 * 1024;

/// Secret text, which no debugging output shows.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Creates a secret from its text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the text.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Secret")
    }
}

/// Tokens of a login. The caller keeps them, together with their issuer and resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tokens {
    /// Access token, for the header `Authorization: Bearer ...` of requests to this server alone.
    pub access: Secret,
    /// Refresh token, if there is one.
    pub refresh: Option<Secret>,
    /// Time for which the access token is valid, if the server says it.
    pub expires_in: Option<Duration>,
    /// Scopes that were granted, if the server says them.
    pub scope: Option<String>,
}

/// Login that waits for a human.
#[derive(Debug)]
pub struct Login {
    discovery: Discovery,
    client: RegisteredClient,
    redirect: String,
    verifier: Secret,
    state: Secret,
    /// URL that the human opens.
    url: String,
}

impl Login {
    /// Begins a login. `redirect` is the URL to which the browser returns, and `random` must be fresh.
    ///
    /// # Errors
    /// [`OAuthError::Url`], if the redirection leads to another machine without TLS.
    pub fn begin(
        discovery: Discovery,
        client: RegisteredClient,
        redirect: &str,
        random: &[u8; RANDOM_BYTES],
    ) -> Result<Self, OAuthError> {
        checked_url("the redirection", redirect)?;
        let (for_verifier, for_state) = random.split_at(32);
        let verifier = BASE64_URL_SAFE_NO_PAD.encode(for_verifier);
        let state = BASE64_URL_SAFE_NO_PAD.encode(for_state);
        let mut url = checked_url("the authorization endpoint", &discovery.server.authorization_endpoint)?;
        {
            let mut query = url.query_pairs_mut();
            query.append_pair("response_type", "code");
            query.append_pair("client_id", &client.id);
            query.append_pair("redirect_uri", redirect);
            query.append_pair("code_challenge", &BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(&verifier)));
            query.append_pair("code_challenge_method", "S256");
            query.append_pair("state", &state);
            query.append_pair("resource", &discovery.resource);
            if let Some(scope) = &discovery.scope {
                query.append_pair("scope", scope);
            }
        }
        let (verifier, state) = (Secret(verifier), Secret(state));
        Ok(Self { url: url.into(), discovery, client, redirect: redirect.to_owned(), verifier, state })
    }

    /// Returns the URL that the human opens.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns true if a redirection with this state belongs to the login. The comparison takes constant time for texts
    /// of one length.
    pub fn is_answered_by(&self, state: &str) -> bool {
        let own = self.state.reveal();
        let differs = own.bytes().zip(state.bytes()).fold(0, |sum, (one, other)| sum | (one ^ other));
        state.len() == own.len() && differs == 0
    }

    /// Checks the redirection, and exchanges its code for tokens. `query` is what follows `?` in the URL to which
    /// the browser returned. The login is used up, whatever comes of it.
    ///
    /// # Errors
    /// [`OAuthError`]; among them a redirection of another login, and another issuer.
    pub async fn finish(self, reach: Reach<'_>, query: &str) -> Result<Tokens, OAuthError> {
        let code = self.code(query)?;
        let form = vec![
            ("grant_type", "authorization_code"),
            ("code", &code),
            ("redirect_uri", &self.redirect),
            ("code_verifier", self.verifier.reveal()),
        ];
        exchange(reach, &self.discovery, &self.client, form).await
    }

    fn code(&self, query: &str) -> Result<String, OAuthError> {
        let wrong = |problem| OAuthError::Redirection { problem };
        let one = |name: &str| -> Result<Option<String>, OAuthError> {
            let mut found = form_urlencoded::parse(query.as_bytes()).filter(|(own, _)| own == name);
            let first = found.next().map(|(_, value)| value.into_owned());
            if found.next().is_some() { Err(wrong("a parameter occurs twice")) } else { Ok(first) }
        };
        if !one("state")?.is_some_and(|state| self.is_answered_by(&state)) {
            return Err(wrong("its state is another one"));
        }
        // Checked before anything else is read: an error of another server is none of this login.
        let server = &self.discovery.server;
        let issuer = one("iss")?;
        if server.names_issuer && issuer.is_none()
            || issuer.as_ref().is_some_and(|issuer| *issuer != server.issuer)
        {
            let found = line(&issuer.unwrap_or_default());
            return Err(OAuthError::OtherIssuer { expected: line(&server.issuer), found });
        }
        if let Some(error) = one("error")? {
            let description = line(&one("error_description")?.unwrap_or_default());
            return Err(OAuthError::Refused { error: line(&error), description });
        }
        one("code")?.filter(|code| !code.is_empty()).ok_or_else(|| wrong("it has no code"))
    }
}

/// Renews tokens. The answer may have no new refresh token; the old one stays valid then.
///
/// # Errors
/// [`OAuthError::Refused`] with `invalid_grant`, if a new login is needed, or another [`OAuthError`].
pub async fn refresh(
    reach: Reach<'_>,
    discovery: &Discovery,
    client: &RegisteredClient,
    token: &Secret,
) -> Result<Tokens, OAuthError> {
    let form = vec![("grant_type", "refresh_token"), ("refresh_token", token.reveal())];
    exchange(reach, discovery, client, form).await
}

async fn exchange<'a>(
    reach: Reach<'_>,
    discovery: &'a Discovery,
    client: &'a RegisteredClient,
    mut form: Vec<(&'a str, &'a str)>,
) -> Result<Tokens, OAuthError> {
    form.push(("resource", &discovery.resource));
    let mut headers = vec![("content-type".to_owned(), "application/x-www-form-urlencoded".to_owned())];
    let secret = client.secret.as_deref().unwrap_or_default();
    match TokenEndpointAuth::of(client, &discovery.server) {
        TokenEndpointAuth::Basic => {
            // Encoded as a form first (RFC 6749, section 2.3.1).
            let encoded = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
            let pair = format!("{}:{}", encoded(&client.id), encoded(secret));
            headers.push(("authorization".to_owned(), format!("Basic {}", BASE64_STANDARD.encode(pair))));
        }
        TokenEndpointAuth::Post => {
            form.push(("client_id", &client.id));
            form.push(("client_secret", secret));
        }
        TokenEndpointAuth::None => {
            form.push(("client_id", &client.id));
        }
    }
    let body = Serializer::new(String::new()).extend_pairs(form).finish();
    let reply = reach.post(&discovery.server.token_endpoint, headers, body).await?;
    if reply.status != 200 {
        return Err(refusal(&reply));
    }
    read(&reply.body)
}

fn read(body: &Value) -> Result<Tokens, OAuthError> {
    let bad =
        |problem: &str| OAuthError::Document { what: "the answer with tokens", problem: problem.to_owned() };
    let text = |field: &str| body.get(field).and_then(Value::as_str);
    let is_token = |token: &&str| {
        (1..=LONGEST_TOKEN).contains(&token.len()) && token.bytes().all(|byte| (0x21..=0x7e).contains(&byte))
    };
    if !text("token_type").is_some_and(|kind| kind.eq_ignore_ascii_case("bearer")) {
        return Err(bad("its `token_type` is not `Bearer`"));
    }
    let access =
        text("access_token").filter(is_token).ok_or_else(|| bad("it has no usable `access_token`"))?;
    Ok(Tokens {
        access: Secret::new(access),
        refresh: text("refresh_token").filter(is_token).map(Secret::new),
        expires_in: body.get("expires_in").and_then(Value::as_u64).map(Duration::from_secs),
        scope: text("scope").map(line),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::discovery::AuthorizationServer;
    use super::*;

    fn login(names_issuer: bool) -> Login {
        let server = AuthorizationServer {
            issuer: "https://as.example".to_owned(),
            authorization_endpoint: "https://as.example/authorize?tenant=1".to_owned(),
            token_endpoint: "https://as.example/token".to_owned(),
            registration_endpoint: None,
            scopes: Vec::new(),
            auth_methods: Vec::new(),
            names_issuer,
            takes_documents: false,
        };
        let resource = "https://a.example/mcp".to_owned();
        let discovery = Discovery { resource, scope: Some("read write".to_owned()), server };
        let client = RegisteredClient { id: "me".to_owned(), secret: None, auth: None };
        Login::begin(discovery, client, "http://127.0.0.1:7/back", &[7; RANDOM_BYTES]).unwrap()
    }

    #[test]
    fn the_url_has_the_challenge_and_not_the_verifier() {
        let login = login(false);
        let url = url::Url::parse(login.url()).unwrap();
        let value =
            |name: &str| url.query_pairs().find(|(own, _)| own == name).map(|(_, value)| value.into_owned());
        assert_eq!(value("tenant").as_deref(), Some("1"));
        assert_eq!(value("code_challenge_method").as_deref(), Some("S256"));
        assert_eq!(value("resource").as_deref(), Some("https://a.example/mcp"));
        assert_eq!(value("scope").as_deref(), Some("read write"));
        assert!(!login.url().contains(login.verifier.reveal()));
        let shown = format!("{login:?}");
        assert!(!shown.contains(login.verifier.reveal()), "{shown}");
        // RFC 7636, appendix B.
        let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
        assert_eq!(
            BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(verifier)),
            "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
        );
    }

    #[test]
    fn a_redirection_of_another_login_or_issuer_is_refused() {
        let login = login(false);
        let state = login.state.reveal();
        assert_eq!(login.code(&format!("code=c%2B&state={state}")), Ok("c+".to_owned()));
        for (query, fits) in [
            ("code=c".to_owned(), "state"),
            ("code=c&state=x".to_owned(), "state"),
            (format!("code=c&state={state}&state={state}"), "twice"),
            (format!("code=c&code=d&state={state}"), "twice"),
            (format!("state={state}"), "no code"),
            (format!("code=c&state={state}&iss=https%3A%2F%2Fevil.example"), "evil.example"),
            (format!("code=c&state={state}&iss=https%3A%2F%2Fas.example%2F"), "as.example/"),
            (format!("error=access_denied&error_description=no&state={state}"), "access_denied no"),
        ] {
            let error = login.code(&query).unwrap_err().to_string();
            assert!(error.contains(fits), "{query}: {error}");
        }
        let strict = super::tests::login(true);
        let state = strict.state.reveal();
        assert!(matches!(strict.code(&format!("code=c&state={state}")), Err(OAuthError::OtherIssuer { .. })));
        assert!(strict.code(&format!("code=c&state={state}&iss=https://as.example")).is_ok());
    }

    #[test]
    fn tokens_have_a_form() {
        let tokens = read(
            &json!({"access_token": "t", "token_type": "bearer", "expires_in": 60, "refresh_token": "r"}),
        )
        .unwrap();
        assert_eq!((tokens.access.reveal(), tokens.expires_in), ("t", Some(Duration::from_mins(1))));
        assert!(!format!("{tokens:?}").contains('"'), "{tokens:?}");
        for bad in [
            json!({"access_token": "t"}),
            json!({"access_token": "t", "token_type": "DPoP"}),
            json!({"access_token": "a\r\nb", "token_type": "Bearer"}),
            json!({"access_token": "", "token_type": "Bearer"}),
            json!(null),
        ] {
            assert!(read(&bad).is_err(), "{bad}");
        }
    }
}
