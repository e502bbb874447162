//! Where Gmail is, and where its logins are given out.

use std::collections::BTreeSet;

use fetch::address::Target;
use outgoing::EndpointError;
use tool::Effect;

use crate::gmail::addresses::Mailbox;
use crate::gmail::oauth::{ACCESS, CLIENT_SECRET, REFRESH};

/// The services that a mailbox is reached through.
#[derive(Debug, Clone)]
pub struct Gmail {
    api: Target,
    authorization: Target,
    token: Target,
    revocation: Target,
}

/// Their addresses, where they are others than Google's.
#[derive(Debug, Clone, Default)]
pub struct Endpoints {
    /// Of the API.
    pub api: Option<String>,
    /// Where a person logs in.
    pub authorization: Option<String>,
    /// Where tokens are given out.
    pub token: Option<String>,
    /// Where they are taken back.
    pub revocation: Option<String>,
}

impl Gmail {
    /// Google's own (its discovery document of Gmail, `baseUrl`).
    const API: &str = "https://gmail.googleapis.com/";
    /// Google's own, as this and the next two (its guide "OAuth 2.0 for iOS & Desktop Apps").
    const AUTHORIZATION: &str = "https://accounts.google.com/o/oauth2/v2/auth";
    const TOKEN: &str = "https://oauth2.googleapis.com/token";
    const REVOCATION: &str = "https://oauth2.googleapis.com/revoke";

    /// The one at these addresses.
    ///
    /// # Errors
    /// The name of the address at fault, and what is wrong with it.
    pub fn at(endpoints: Endpoints) -> Result<Self, (&'static str, EndpointError)> {
        let read = |name, given: Option<String>, usual: &str| {
            outgoing::endpoint(given.as_deref().unwrap_or(usual)).map_err(|error| (name, error))
        };
        let api = endpoints.api.map(|mut url| {
            // What is asked for lies below it.
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

    /// The API.
    pub fn api(&self) -> &Target {
        &self.api
    }

    /// Where a person logs in.
    pub fn authorization(&self) -> &Target {
        &self.authorization
    }

    /// Where tokens are given out.
    pub fn token(&self) -> &Target {
        &self.token
    }

    /// Where they are taken back.
    pub fn revocation(&self) -> &Target {
        &self.revocation
    }

    /// That mail is sent to these, each once and in one order, whatever field names them.
    pub(crate) fn sending(&self, to: &[&Mailbox]) -> Vec<Effect> {
        let everybody: BTreeSet<&str> = to.iter().map(|mailbox| mailbox.address.as_str()).collect();
        let host = self.api.host().to_string();
        let send =
            |address: &str| Effect::Act { host: host.clone(), what: format!("send mail to {address}") };
        everybody.into_iter().map(send).collect()
    }

    /// What each call does beyond this machine: it asks the API in these ways, and renews its token where that has run out.
    pub(crate) fn effects(&self, methods: &[&str]) -> Vec<Effect> {
        let connect = |target: &Target, method: &str| Effect::Connect {
            host: target.host().to_string(),
            port: target.port(),
            method: Some(method.to_owned()),
            // To renew a token changes nothing that anybody keeps there; it is believed of calls that read alone.
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
