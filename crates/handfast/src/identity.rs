//! The identity provider of `handfast up`, as configured.

#[cfg(feature = "cli")]
use door_http::{IdentityError, Provider, Role};
use schemars::JsonSchema;
use serde::Deserialize;

/// An identity provider whose tokens `handfast up` accepts besides its own.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OAuth {
    /// Issuer in the provider's tokens: the URL at which clients find the provider.
    #[schemars(extend("examples" = ["https://id.example.com"]))]
    pub(crate) issuer: String,
    /// Audience in the tokens for this server: the URL at which clients reach `/mcp`.
    #[schemars(extend("examples" = ["https://tools.example.com/mcp"]))]
    pub(crate) resource: String,
    /// Public keys of the provider, as a JSON Web Key Set: a URL, or the absolute path of a file.
    #[schemars(extend("examples" = ["https://id.example.com/jwks.json"]))]
    pub(crate) keys: String,
    /// Scopes that grant the roles.
    #[serde(default)]
    #[schemars(extend("x-default" = "the scopes below", "examples" = [{"user": "handfast.answer"}]))]
    pub(crate) scopes: Scopes,
}

/// The scopes of the roles. Without a scope, no token of the provider grants the role.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Scopes {
    /// Scope for making calls.
    #[schemars(extend("x-default" = "`handfast.call`", "examples" = ["handfast.call"]))]
    pub(crate) agent: Option<String>,
    /// Scope for answering the questions of calls, and for reading the audit.
    #[schemars(extend("x-default" = "none", "examples" = ["handfast.answer"]))]
    pub(crate) user: Option<String>,
    /// Scope for reading metrics.
    #[schemars(extend("x-default" = "none", "examples" = ["handfast.observe"]))]
    pub(crate) observer: Option<String>,
}

impl Default for Scopes {
    fn default() -> Self {
        Self { agent: Some("handfast.call".to_owned()), user: None, observer: None }
    }
}

#[cfg(feature = "cli")]
impl OAuth {
    /// Converts the provider to the form of the HTTP door.
    pub(crate) fn provider(&self) -> Result<Provider, IdentityError> {
        let Scopes { agent, user, observer } = self.scopes.clone();
        let named = [(Role::Agent, agent), (Role::User, user), (Role::Observer, observer)];
        let scopes = named.into_iter().filter_map(|(role, scope)| Some((role, scope?))).collect();
        Provider::new(&self.issuer, &self.resource, &self.keys, scopes)
    }
}

#[cfg(all(test, feature = "cli"))]
mod tests {
    use super::*;

    #[test]
    fn a_provider_needs_keys_that_can_be_read() {
        let of = |keys: &str| OAuth {
            issuer: "https://id.example".to_owned(),
            resource: "https://tools.example/mcp".to_owned(),
            keys: keys.to_owned(),
            scopes: Scopes::default(),
        };
        assert!(of("/etc/handfast/keys.json").provider().is_ok());
        assert!(matches!(of("keys.json").provider(), Err(IdentityError::Keys)));
        assert!(matches!(of("http://id.example/keys").provider(), Err(IdentityError::Keys)));
        let plain = OAuth { issuer: "http://id.example".to_owned(), ..of("/k") };
        assert!(matches!(plain.provider(), Err(IdentityError::Url("issuer"))));
    }
}
