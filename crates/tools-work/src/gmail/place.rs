//! URLs of Gmail and of its login servers.

use std::collections::BTreeSet;

use fetch::address::Target;
use tool::Effect;
use tool_support::EndpointError;

use crate::gmail::addresses::Mailbox;
use crate::gmail::oauth::{ACCESS, CLIENT_SECRET, REFRESH};

/// The services through which a mailbox is reached.
#[derive(Debug, Clone)]
pub struct Gmail {
    api: Target,
    authorization: Target,
    token: Target,
    revocation: Target,
}

/// The URLs of the services, if they are not Google's.
#[derive(Debug, Clone, Default)]
pub struct Endpoints {
    /// URL of the API.
    pub api: Option<String>,
    /// URL at which a person logs in.
    pub authorization: Option<String>,
    /// URL that issues tokens.
    pub token: Option<String>,
    /// URL that revokes tokens.
    pub revocation: Option<String>,
}

impl Gmail {
    /// Google's URL (its discovery document of Gmail, `baseUrl`).
    const API: &str = "https://gmail.googleapis.com/";
    /// Google's URL, like the next two (its guide "OAuth 2.0 for iOS & Desktop Apps").
    const AUTHORIZATION: &str = "https://accounts.google.com/o/oauth2/v2/auth";
    const TOKEN: &str = "https://oauth2.googleapis.com/token";
    const REVOCATION: &str = "https://oauth2.googleapis.com/revoke";

    /// Creates the services at these URLs.
    ///
    /// # Errors
    /// The name of the invalid URL, and its error.
    pub fn at(endpoints: Endpoints) -> Result<Self, (&'static str, EndpointError)> {
        let read = |name, given: Option<String>, usual: &str| {
            tool_support::endpoint(given.as_deref().unwrap_or(usual)).map_err(|error| (name, error))
        };
        let api = endpoints.api.map(|mut url| {
            // Relative URLs of requests are resolved below this one.
            if !url.ends_with('/') {
                url.push('/');
            }
            url
        });
        Ok(Self {
            api: read("endpoint", api, Self::API)?,
            authorization: read("authorization", endpoints.authorization, Self::AUTHORIZATION)?,
            token: read("token", endpoints.token, Self::TOKEN)?,
            revocation: read("revocation", endpoints.revocation, Self::REVOCATION)?,
        })
    }

    /// Returns the URL of the API.
    pub fn api(&self) -> &Target {
        &self.api
    }

    /// Returns the URL at which a person logs in.
    pub fn authorization(&self) -> &Target {
        &self.authorization
    }

    /// Returns the URL that issues tokens.
    pub fn token(&self) -> &Target {
        &self.token
    }

    /// Returns the URL that revokes tokens.
    pub fn revocation(&self) -> &Target {
        &self.revocation
    }

    /// Returns the effects of sending mail to these recipients. Each recipient occurs once, in a
    /// fixed order, independent of the field.
    pub(crate) fn sending(&self, to: &[&Mailbox]) -> Vec<Effect> {
        let everybody: BTreeSet<&str> = to.iter().map(|mailbox| mailbox.address.as_str()).collect();
        let host = self.api.host().to_string();
        let send =
            |address: &str| Effect::Act { host: host.clone(), what: format!("send mail to {address}") };
        everybody.into_iter().map(send).collect()
    }

    /// Returns the effects of each call beyond this machine: API requests with these methods, and
    /// the renewal of an expired token.
    pub(crate) fn effects(&self, methods: &[&str]) -> Vec<Effect> {
        let connect = |target: &Target, method: &str| Effect::Connect {
            host: target.host().to_string(),
            port: target.port(),
            method: Some(method.to_owned()),
            // A renewal changes no data of the user, so it is accepted in calls that only read.
            only_asks: std::ptr::eq(target, &raw const self.token),
        };
        let secret = |name: &str, target: &Target| Effect::UseSecret {
            name: name.to_owned(),
            host: target.host().to_string(),
        };
        let mut effects: Vec<Effect> = methods.iter().map(|method| connect(&self.api, method)).collect();
        effects.extend([
            secret(ACCESS, &self.api),
            connect(&self.token, "POST"),
            secret(REFRESH, &self.token),
            secret(CLIENT_SECRET, &self.token),
        ]);
        effects
    }
}
