//! Tokens of an identity provider. This server is a protected resource (OAuth 2.1) and issues no tokens.
//!
//! A token is a signed JWT (RFC 9068) with this server as its audience. Tokens for other servers
//! are refused, and no token is passed on. RFC 9728 defines how clients find the provider.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::{Jwk, KeyAlgorithm, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use parking_lot::{Mutex, MutexGuard};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::credential::Role;
use crate::keys::{self, IdentityError, KeySource};

/// Age at which keys are read again.
const FRESH: Duration = Duration::from_mins(5);

/// Age at which keys are discarded. A revoked key is valid for at most this time, even if the
/// provider does not answer.
const STALE: Duration = Duration::from_mins(15);

/// Minimum interval between two reads, so that forged tokens do not cause a request to the provider each.
const PAUSE: Duration = Duration::from_secs(10);

/// Accepted signature algorithms: all that verify with a public key. Algorithms with a shared
/// secret are excluded; otherwise the public key would be that secret.
const ALGORITHMS: [Algorithm; 9] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
];

/// Callback for warnings about problems outside the protocol.
pub(crate) type Warn = Arc<dyn Fn(&str) + Send + Sync>;

/// An identity provider whose tokens are accepted.
#[derive(Clone)]
pub struct Provider {
    issuer: String,
    resource: String,
    scopes: Vec<(Role, String)>,
    source: Arc<dyn KeySource>,
    keys: Arc<Mutex<Keys>>,
    /// Lock that allows one read of the keys at a time.
    reading: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Default)]
struct Keys {
    all: Vec<Jwk>,
    read: Option<Instant>,
    tried: Option<Instant>,
}

impl Keys {
    fn are_current(&self) -> bool {
        self.read.is_some_and(|read| read.elapsed() < STALE)
    }
}

/// The holder of a token.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Subject {
    pub(crate) role: Role,
    /// Name of the holder at the provider.
    pub(crate) name: String,
}

/// Reason why a token is refused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TokenRejection {
    /// The request has no token.
    Absent,
    /// The token is malformed, is for another server, or is not valid now.
    Token(String),
    /// The token is valid, but none of its scopes has a role here.
    Scope,
    /// The token has scopes of several roles.
    Several,
    /// The provider's keys are unavailable.
    Keys,
}

#[derive(Deserialize)]
struct KeySet {
    keys: Vec<Value>,
}

/// Header fields that change the meaning of the rest.
#[derive(Deserialize)]
struct Extensions {
    /// Critical extensions (RFC 7515, section 4.1.11). None is supported.
    crit: Option<Value>,
    /// Encoding of the claims (RFC 7797).
    b64: Option<Value>,
}

#[derive(Deserialize)]
struct Claims {
    /// A single text: a list would be ambiguous.
    iss: String,
    sub: String,
    /// Scopes separated by spaces (RFC 9068); `scp` is the name that some providers use.
    #[serde(default)]
    scope: Value,
    #[serde(default)]
    scp: Value,
}

impl Provider {
    /// Creates a provider that accepts tokens of this issuer for this resource, the URL at which
    /// clients reach this server. `keys` is an https URL or the path of a file. `scopes` maps roles
    /// to the scopes that grant them.
    ///
    /// # Errors
    /// An error if one of the URLs is invalid, or the system's certificates are unusable.
    pub fn new(
        issuer: &str,
        resource: &str,
        keys: &str,
        scopes: Vec<(Role, String)>,
    ) -> Result<Self, IdentityError> {
        for (name, url) in [("issuer", issuer), ("resource", resource)] {
            keys::url_of(url).ok_or(IdentityError::Url(name))?;
        }
        Ok(Self::with(issuer, resource, keys::source(keys)?, scopes))
    }

    fn with(issuer: &str, resource: &str, source: Arc<dyn KeySource>, scopes: Vec<(Role, String)>) -> Self {
        let (issuer, resource) = (issuer.to_owned(), resource.to_owned());
        Self { issuer, resource, scopes, source, keys: Arc::default(), reading: Arc::default() }
    }

    /// Returns the metadata for clients (RFC 9728).
    pub(crate) fn metadata(&self) -> Value {
        let scopes: Vec<&String> = self.scopes.iter().map(|(_, scope)| scope).collect();
        json!({
            "resource": self.resource,
            "authorization_servers": [self.issuer],
            "scopes_supported": scopes,
            "bearer_methods_supported": ["header"],
            "resource_name": "Handfast",
        })
    }

    /// Returns the URL of the metadata: the well-known path precedes the path of the resource (RFC
    /// 9728, section 3.1).
    pub(crate) fn metadata_url(&self) -> String {
        let after_scheme = self.resource.find("://").map_or(0, |at| at + 3);
        let path =
            self.resource[after_scheme..].find('/').map_or(self.resource.len(), |at| after_scheme + at);
        let (origin, path) = self.resource.split_at(path);
        format!("{origin}/.well-known/oauth-protected-resource{}", path.trim_end_matches('/'))
    }

    /// Returns the scope of a role.
    pub(crate) fn scope_of(&self, role: Role) -> Option<&str> {
        self.scopes.iter().find(|(of, _)| *of == role).map(|(_, scope)| scope.as_str())
    }

    /// Verifies a token and returns its holder.
    pub(crate) async fn subject(&self, token: &str, warn: &Warn) -> Result<Subject, TokenRejection> {
        let unusable = |error: jsonwebtoken::errors::Error| TokenRejection::Token(error.to_string());
        let header = decode_header(token).map_err(unusable)?;
        if !ALGORITHMS.contains(&header.alg) {
            return Err(TokenRejection::Token("its signature algorithm is not accepted".to_owned()));
        }
        plainly_encoded(token)?;
        // Other JWTs of the provider, such as ID tokens, are not access tokens.
        let kind =
            header.typ.as_deref().map(|kind| kind.trim_start_matches("application/").to_ascii_lowercase());
        if kind.as_deref().is_some_and(|kind| kind != "at+jwt" && kind != "jwt") {
            return Err(TokenRejection::Token("it is not an access token".to_owned()));
        }
        let key = self.key(header.kid.as_deref(), header.alg, warn).await?;
        let mut validation = Validation::new(header.alg);
        validation.set_issuer(&[&self.issuer]);
        validation.set_audience(&[&self.resource]);
        // Tokens without `sub` would share one holder.
        validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
        validation.validate_nbf = true;
        let claims = decode::<Claims>(token, &key, &validation).map_err(unusable)?.claims;
        if claims.iss != self.issuer {
            return Err(TokenRejection::Token("it has another issuer".to_owned()));
        }
        if claims.sub.trim().is_empty() {
            return Err(TokenRejection::Token("its `sub` is empty".to_owned()));
        }
        let given: Vec<&str> = [&claims.scope, &claims.scp].into_iter().flat_map(words).collect();
        let mut roles = self.scopes.iter().filter(|(_, scope)| given.contains(&scope.as_str()));
        let role = match (roles.next(), roles.next()) {
            (None, _) => return Err(TokenRejection::Scope),
            (Some((role, _)), None) => *role,
            (Some(_), Some(_)) => return Err(TokenRejection::Several),
        };
        Ok(Subject { role, name: claims.sub })
    }

    /// Returns the key that the token names.
    async fn key(
        &self,
        id: Option<&str>,
        algorithm: Algorithm,
        warn: &Warn,
    ) -> Result<DecodingKey, TokenRejection> {
        if let Some(key) = self.known(id, algorithm) {
            // Refresh in the background: an unresponsive provider must not delay tokens whose key is known.
            if self.is_due(FRESH)
                && let Ok(turn) = self.reading.clone().try_lock_owned()
            {
                let (provider, warn) = (self.clone(), warn.clone());
                tokio::spawn(async move {
                    provider.refresh(&warn).await;
                    drop(turn);
                });
            }
            return key;
        }
        let _turn = self.reading.lock().await;
        if self.known(id, algorithm).is_none() && self.is_due(Duration::ZERO) {
            self.refresh(warn).await;
        }
        let unknown = || TokenRejection::Token("it is not signed with a key of the provider".to_owned());
        self.known(id, algorithm)
            .unwrap_or_else(|| Err(if self.keys().are_current() { unknown() } else { TokenRejection::Keys }))
    }

    fn keys(&self) -> MutexGuard<'_, Keys> {
        // A poisoned lock is usable, because the value is consistent at all times.
        self.keys.lock()
    }

    fn known(&self, id: Option<&str>, algorithm: Algorithm) -> Option<Result<DecodingKey, TokenRejection>> {
        let keys = self.keys();
        if !keys.are_current() {
            return None;
        }
        let unusable = |_| TokenRejection::Token("its key cannot be used".to_owned());
        find(&keys.all, id, algorithm).map(|key| DecodingKey::from_jwk(key).map_err(unusable))
    }

    /// Returns true if keys of this age may be read again.
    fn is_due(&self, age: Duration) -> bool {
        let keys = self.keys();
        let passed = |at: Option<Instant>, least: Duration| at.is_none_or(|at| at.elapsed() >= least);
        passed(keys.read, age) && passed(keys.tried, PAUSE)
    }

    /// Reads the keys. If the read fails, the old ones stay until they are stale.
    async fn refresh(&self, warn: &Warn) {
        self.keys().tried = Some(Instant::now());
        let read = self.source.read().await;
        match read.and_then(|bytes| Ok(serde_json::from_slice::<KeySet>(&bytes)?)) {
            Ok(set) => {
                // Skip keys of unsupported kinds, without effect on the others (RFC 7517, section 5).
                let usable = |key| serde_json::from_value(key).ok();
                let mut keys = self.keys();
                keys.all = set.keys.into_iter().filter_map(usable).collect();
                keys.read = Some(Instant::now());
            }
            Err(error) => warn(&format!("cannot get the identity provider's keys: {error}")),
        }
    }
}

/// Refuses a token whose header changes the reading of the token in an unsupported way.
fn plainly_encoded(token: &str) -> Result<(), TokenRejection> {
    let header = token.split('.').next().unwrap_or_default();
    let header = BASE64_URL_SAFE_NO_PAD.decode(header).ok();
    let header = header.and_then(|text| serde_json::from_slice::<Extensions>(&text).ok());
    let refused = |why: &str| Err(TokenRejection::Token(why.to_owned()));
    match header {
        None => refused("its header cannot be read"),
        Some(Extensions { crit: Some(_), .. }) => {
            refused("its header has `crit`, but no extension is supported")
        }
        Some(Extensions { b64: Some(encoded), .. }) if encoded != Value::Bool(true) => {
            refused("its header has `b64`, but only encoded claims are supported")
        }
        Some(_) => Ok(()),
    }
}

/// Returns the key with this id for this algorithm. A token without a key id is accepted if there
/// is exactly one key for its algorithm.
fn find<'a>(keys: &'a [Jwk], id: Option<&str>, algorithm: Algorithm) -> Option<&'a Jwk> {
    let fits = |key: &&Jwk| {
        let for_signatures =
            key.common.public_key_use.as_ref().is_none_or(|used| *used == PublicKeyUse::Signature);
        let named = key.common.key_algorithm;
        for_signatures && named.is_none_or(|named| of_name(named) == Some(algorithm))
    };
    let mut fitting =
        keys.iter().filter(fits).filter(|key| id.is_none() || key.common.key_id.as_deref() == id);
    match (fitting.next(), fitting.next()) {
        (Some(key), None) => Some(key),
        (Some(key), Some(_)) if id.is_some() => Some(key),
        _ => None,
    }
}

fn of_name(named: KeyAlgorithm) -> Option<Algorithm> {
    named.to_string().parse().ok()
}

/// Returns the words of a claim that is a text or a list of texts.
fn words(claim: &Value) -> Vec<&str> {
    match claim {
        Value::String(text) => text.split(' ').collect(),
        Value::Array(items) => items.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests;
