//! Discovery of the authorization server of a server (RFC 9728, RFC 8414, `OpenID` Connect Discovery).

use serde::{Deserialize, Serialize};
use serde_json::Value;
use url::Url;

use super::challenge::Challenge;
use super::exchange::{OAuthError, Reach, checked_url, texts};
use crate::error::line;

/// Authorization server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuthorizationServer {
    /// Issuer: its identifier, compared letter by letter.
    pub issuer: String,
    /// URL that a human opens.
    pub authorization_endpoint: String,
    /// URL for tokens.
    pub token_endpoint: String,
    /// URL for the registration of clients.
    pub registration_endpoint: Option<String>,
    /// Scopes of the authorization server.
    pub scopes: Vec<String>,
    /// Ways in which a client may prove itself at the token endpoint.
    pub auth_methods: Vec<String>,
    /// True if every redirection names the issuer (RFC 9207).
    pub names_issuer: bool,
    /// True if the URL of a document may be the id of a client.
    pub takes_documents: bool,
}

/// Result of a discovery.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Discovery {
    /// Identifier of the server as a resource (RFC 8707).
    pub resource: String,
    /// Scopes that the login should ask for, apart by spaces; `None` if nobody names any.
    pub scope: Option<String>,
    /// Authorization server.
    pub server: AuthorizationServer,
}

/// Finds the authorization server of the server at `url`, after its refusal.
///
/// # Errors
/// [`OAuthError`]; among them metadata about another resource, another issuer, and no PKCE.
pub async fn discover(reach: Reach<'_>, url: &str, challenge: &Challenge) -> Result<Discovery, OAuthError> {
    let server = checked_url("the URL of the server", url)?;
    let Some(metadata) = resource_metadata(reach, &server, challenge).await? else {
        // Servers of 2025-03-26 are their own authorization servers.
        let origin = server.origin().ascii_serialization();
        let found = authorization_server(reach, &origin).await?;
        let found = found.map_or_else(|| defaults(&origin), Ok)?;
        return Ok(Discovery { resource: url.to_owned(), scope: challenge.scope.clone(), server: found });
    };
    let resource = metadata.get("resource").and_then(Value::as_str).unwrap_or_default();
    if !covers(resource, &server) {
        return Err(OAuthError::OtherResource { found: line(resource) });
    }
    let issuers = texts(&metadata, "authorization_servers");
    let issuer = issuers.first().ok_or_else(|| OAuthError::Document {
        what: "the metadata of the server",
        problem: "it names no authorization server".to_owned(),
    })?;
    let found = authorization_server(reach, issuer).await?.ok_or(OAuthError::NotFound { tried: 3 })?;
    let supported = texts(&metadata, "scopes_supported");
    let scope = challenge.scope.clone().or_else(|| (!supported.is_empty()).then(|| supported.join(" ")));
    // A refresh token needs this scope where the authorization server has it.
    let wants_offline = found.scopes.iter().any(|scope| scope == "offline_access");
    let scope =
        scope.map(|scope| if wants_offline { joined_scopes(&scope, "offline_access") } else { scope });
    Ok(Discovery { resource: resource.to_owned(), scope, server: found })
}

impl Discovery {
    /// Adds scopes that an earlier token had, so that a login for more rights loses none.
    pub fn add_scope(&mut self, scope: &str) {
        self.scope = Some(joined_scopes(self.scope.as_deref().unwrap_or_default(), scope));
    }
}

fn joined_scopes(one: &str, more: &str) -> String {
    let mut all: Vec<&str> = one.split_ascii_whitespace().collect();
    for scope in more.split_ascii_whitespace() {
        if !all.contains(&scope) {
            all.push(scope);
        }
    }
    all.join(" ")
}

async fn resource_metadata(
    reach: Reach<'_>,
    server: &Url,
    challenge: &Challenge,
) -> Result<Option<Value>, OAuthError> {
    let what = "the URL of the server's metadata";
    if let Some(named) = &challenge.resource_metadata {
        let reply = reach.get(checked_url(what, named)?.as_str()).await?;
        return match reply.body {
            body if reply.status == 200 && body.is_object() => Ok(Some(body)),
            _ => Err(OAuthError::Document {
                what: "the metadata of the server",
                problem: format!("HTTP {}, or no JSON object", reply.status),
            }),
        };
    }
    for place in well_known(server, "oauth-protected-resource") {
        let reply = reach.get(&place).await?;
        if reply.status == 200 && reply.body.is_object() {
            return Ok(Some(reply.body));
        }
    }
    Ok(None)
}

/// Returns the places of a document: with the path of the URL, if it has one, and without.
fn well_known(url: &Url, document: &str) -> Vec<String> {
    let origin = url.origin().ascii_serialization();
    let path = url.path().trim_end_matches('/');
    let mut places = Vec::new();
    if !path.is_empty() {
        places.push(format!("{origin}/.well-known/{document}{path}"));
    }
    places.push(format!("{origin}/.well-known/{document}"));
    places
}

/// Returns true if a resource is the server, or a path above it.
fn covers(resource: &str, server: &Url) -> bool {
    let Ok(resource) = Url::parse(resource) else { return false };
    let (above, below) = (resource.path().trim_end_matches('/'), server.path().trim_end_matches('/'));
    let is_above = below.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    resource.origin() == server.origin()
        && resource.query().is_none_or(|query| server.query() == Some(query))
        && is_above
}

/// Reads the metadata of an authorization server; `None` if it has none.
async fn authorization_server(
    reach: Reach<'_>,
    issuer: &str,
) -> Result<Option<AuthorizationServer>, OAuthError> {
    let url = checked_url("the issuer", issuer)?;
    let path = url.path().trim_end_matches('/');
    let origin = url.origin().ascii_serialization();
    let mut places = vec![
        format!("{origin}/.well-known/oauth-authorization-server{path}"),
        format!("{origin}/.well-known/openid-configuration{path}"),
    ];
    if !path.is_empty() {
        places.push(format!("{origin}{path}/.well-known/openid-configuration"));
    }
    for place in places {
        let reply = reach.get(&place).await?;
        if reply.status == 200 && reply.body.is_object() {
            return read(issuer, &reply.body).map(Some);
        }
    }
    Ok(None)
}

fn read(issuer: &str, metadata: &Value) -> Result<AuthorizationServer, OAuthError> {
    let text = |field: &str| metadata.get(field).and_then(Value::as_str);
    let own = text("issuer").unwrap_or_default();
    if own != issuer {
        return Err(OAuthError::OtherIssuer { expected: line(issuer), found: line(own) });
    }
    if !texts(metadata, "code_challenge_methods_supported").iter().any(|method| method == "S256") {
        return Err(OAuthError::NoPkce);
    }
    let endpoint = |field: &str, what: &'static str| {
        checked_url(what, text(field).unwrap_or_default()).map(String::from)
    };
    let registration = text("registration_endpoint");
    Ok(AuthorizationServer {
        issuer: issuer.to_owned(),
        authorization_endpoint: endpoint("authorization_endpoint", "the authorization endpoint")?,
        token_endpoint: endpoint("token_endpoint", "the token endpoint")?,
        registration_endpoint: registration
            .map(|_| endpoint("registration_endpoint", "the registration endpoint"))
            .transpose()?,
        scopes: texts(metadata, "scopes_supported"),
        auth_methods: texts(metadata, "token_endpoint_auth_methods_supported"),
        names_issuer: metadata.get("authorization_response_iss_parameter_supported")
            == Some(&Value::Bool(true)),
        takes_documents: metadata.get("client_id_metadata_document_supported") == Some(&Value::Bool(true)),
    })
}

/// Returns the endpoints that revision 2025-03-26 assumes where there is no metadata.
fn defaults(origin: &str) -> Result<AuthorizationServer, OAuthError> {
    let endpoint = |path: &str| checked_url("an endpoint", &format!("{origin}/{path}")).map(String::from);
    Ok(AuthorizationServer {
        issuer: origin.to_owned(),
        authorization_endpoint: endpoint("authorize")?,
        token_endpoint: endpoint("token")?,
        registration_endpoint: Some(endpoint("register")?),
        scopes: Vec::new(),
        auth_methods: Vec::new(),
        names_issuer: false,
        takes_documents: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_covers_the_server_below_it_and_no_other() {
        let server = Url::parse("https://a.example/mcp/x").unwrap();
        for good in
            ["https://a.example", "https://a.example/", "https://a.example/mcp", "https://a.example/mcp/x/"]
        {
            assert!(covers(good, &server), "{good}");
        }
        for bad in [
            "https://b.example/mcp/x",
            "http://a.example/mcp/x",
            "https://a.example/mc",
            "https://a.example/mcp/x/y",
            "",
        ] {
            assert!(!covers(bad, &server), "{bad}");
        }
    }

    #[test]
    fn scopes_are_joined_without_repetition() {
        assert_eq!(joined_scopes("a b", "b c"), "a b c");
        assert_eq!(joined_scopes("", "a"), "a");
    }
}
