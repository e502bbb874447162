//! The identity provider of `handfast up`, as the configuration has it.

use http::{IdentityError, Provider, Role};
use serde::Deserialize;

/// An identity provider whose tokens are good for `handfast up`, beside its own.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OAuth {
    /// What its tokens name as their issuer: the URL at which clients find it.
    pub issuer: String,
    /// What its tokens for this server name as their audience: the URL at which clients reach `/mcp`.
    pub resource: String,
    /// Its public keys, as a JSON Web Key Set: a URL, or the absolute path of a file.
    pub keys: String,
    /// Which scope makes who has it what.
    #[serde(default)]
    pub scopes: Scopes,
}

/// The scopes of the roles. Without a name no token of the provider has the role.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Scopes {
    /// Makes calls.
    pub agent: Option<String>,
    /// Answers the questions of calls, and looks at what was done.
    pub user: Option<String>,
    /// Reads figures.
    pub observer: Option<String>,
}

impl Default for Scopes {
    fn default() -> Self {
        Self { agent: Some("handfast.call".to_owned()), user: None, observer: None }
    }
}

impl OAuth {
    /// The provider, as the door knows it.
    pub(crate) fn provider(&self) -> Result<Provider, IdentityError> {
        let Scopes { agent, user, observer } = self.scopes.clone();
        let named = [(Role::Agent, agent), (Role::User, user), (Role::Observer, observer)];
        let scopes = named.into_iter().filter_map(|(role, scope)| Some((role, scope?))).collect();
        Provider::new(&self.issuer, &self.resource, &self.keys, scopes)
    }
}

#[cfg(test)]
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
