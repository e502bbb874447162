//! Identity of this client at an authorization server.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::discovery::AuthorizationServer;
use super::exchange::{OAuthError, Reach, refusal};

/// Maximum length of a client's id or secret, in bytes.
const LONGEST_CREDENTIAL: usize = 4 * 1024;

/// Identities that the caller has for a client, the preferred first. The first one that the authorization server takes
/// is used.
#[derive(Debug, Clone, Default)]
pub struct Identity {
    /// Client that is known at this issuer already.
    ///
    /// INVARIANT: the caller keeps it together with its issuer. At another issuer it would be a secret for a stranger.
    pub registered: Option<(String, RegisteredClient)>,
    /// URL of a document that describes the client.
    pub document: Option<String>,
    /// Name for a registration.
    pub name: String,
    /// URL to which the human's browser returns: of this machine.
    pub redirect: String,
}

/// Client at an authorization server.
#[derive(Clone, PartialEq, Eq)]
pub struct RegisteredClient {
    /// Id.
    pub id: String,
    /// Secret, if there is one.
    pub secret: Option<String>,
    /// Proof at the token endpoint; `None` leaves the choice to what the server supports.
    pub auth: Option<TokenEndpointAuth>,
}

impl std::fmt::Debug for RegisteredClient {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("RegisteredClient").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Proof of a client at the token endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenEndpointAuth {
    /// No secret: PKCE alone.
    None,
    /// Secret in the `Authorization` header.
    Basic,
    /// Secret in the body.
    Post,
}

impl TokenEndpointAuth {
    fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Basic => "client_secret_basic",
            Self::Post => "client_secret_post",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        [Self::None, Self::Basic, Self::Post].into_iter().find(|method| method.as_str() == text)
    }

    /// Chooses a proof for a client.
    pub(super) fn of(client: &RegisteredClient, server: &AuthorizationServer) -> Self {
        let supports = |method: Self| server.auth_methods.iter().any(|name| name == method.as_str());
        match (client.auth, &client.secret) {
            (_, None) => Self::None,
            (Some(auth), Some(_)) => auth,
            // A server that lists nothing supports this one (RFC 8414, section 2).
            (None, Some(_)) if server.auth_methods.is_empty() || supports(Self::Basic) => Self::Basic,
            (None, Some(_)) => Self::Post,
        }
    }
}

/// Chooses the identity of the client, and registers one if there is no other.
///
/// # Errors
/// [`OAuthError::NoIdentity`], or the failure of the registration.
pub async fn identify(
    reach: Reach<'_>,
    server: &AuthorizationServer,
    identity: &Identity,
) -> Result<RegisteredClient, OAuthError> {
    if let Some((issuer, client)) = &identity.registered
        && *issuer == server.issuer
    {
        return Ok(client.clone());
    }
    if let Some(document) = identity.document.as_ref().filter(|_| server.takes_documents) {
        return Ok(RegisteredClient {
            id: document.clone(),
            secret: None,
            auth: Some(TokenEndpointAuth::None),
        });
    }
    let endpoint = server.registration_endpoint.as_deref().ok_or(OAuthError::NoIdentity)?;
    let supports =
        |method: &TokenEndpointAuth| server.auth_methods.iter().any(|name| name == method.as_str());
    let wanted = [TokenEndpointAuth::None, TokenEndpointAuth::Basic, TokenEndpointAuth::Post];
    let wanted = wanted.into_iter().find(supports).unwrap_or(TokenEndpointAuth::None);
    let request = json!({
        "client_name": identity.name,
        "redirect_uris": [identity.redirect],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": wanted.as_str(),
        "application_type": "native",
    });
    let kind = vec![("content-type".to_owned(), "application/json".to_owned())];
    let reply = reach.post(endpoint, kind, request.to_string()).await?;
    if !matches!(reply.status, 200 | 201) {
        return Err(refusal(&reply));
    }
    let text = |field: &str| {
        let text = reply.body.get(field).and_then(Value::as_str);
        text.filter(|text| !text.is_empty() && text.len() <= LONGEST_CREDENTIAL).map(ToOwned::to_owned)
    };
    let id = text("client_id").ok_or_else(|| OAuthError::Document {
        what: "the registration of the client",
        problem: "it has no `client_id`".to_owned(),
    })?;
    let auth = text("token_endpoint_auth_method").and_then(|method| TokenEndpointAuth::parse(&method));
    Ok(RegisteredClient { id, secret: text("client_secret"), auth })
}
