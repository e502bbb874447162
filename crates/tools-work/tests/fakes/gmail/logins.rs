//! Logins: a person's consent, the code that results from it, and tokens.

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::json;
use sha2::{Digest, Sha256};
use url::Url;
use url::form_urlencoded::parse;

use super::{CLIENT_ID, CLIENT_SECRET};
use testkit::web::{Reply, Request};

pub(super) struct Logins {
    /// Scopes by access token.
    pub(super) access: HashMap<String, String>,
    /// Refresh token, with its scopes.
    pub(super) refresh: Option<(String, String)>,
    pub(super) lasts: u64,
    pub(super) trouble: Vec<Reply>,
    codes: HashMap<String, Code>,
    given: usize,
}

struct Code {
    challenge: String,
    redirect: String,
    scopes: String,
}

impl Logins {
    pub(super) fn new() -> Self {
        Self {
            access: HashMap::new(),
            refresh: None,
            lasts: 3_599,
            trouble: Vec::new(),
            codes: HashMap::new(),
            given: 0,
        }
    }

    pub(super) fn give(&mut self, scopes: &str) -> (String, String) {
        self.given += 1;
        let (access, refresh) =
            (format!("ya29.access-{:04}-token", self.given), format!("1//refresh-{:04}-token", self.given));
        self.access.insert(access.clone(), scopes.to_owned());
        self.refresh = Some((refresh.clone(), scopes.to_owned()));
        (access, refresh)
    }

    pub(super) fn revoke(&mut self) {
        self.refresh = None;
        self.access.clear();
    }

    pub(super) fn consent(&mut self, address: &str, says_yes: bool) -> Result<String, String> {
        let url = Url::parse(address).map_err(|error| error.to_string())?;
        let asked: HashMap<String, String> = url.query_pairs().into_owned().collect();
        let one = |name: &str| asked.get(name).cloned().unwrap_or_default();
        for (name, expected) in [
            ("client_id", CLIENT_ID),
            ("response_type", "code"),
            ("code_challenge_method", "S256"),
            ("access_type", "offline"),
        ] {
            if one(name) != expected {
                return Err(format!("{name} is {:?}", one(name)));
            }
        }
        let mut redirect = Url::parse(&one("redirect_uri")).map_err(|error| error.to_string())?;
        if redirect.scheme() != "http"
            || redirect.host_str() != Some("127.0.0.1")
            || redirect.port().is_none()
        {
            return Err(format!("the answer would go to {redirect}"));
        }
        if one("state").len() < 32 || one("code_challenge").len() != 43 || one("scope").is_empty() {
            return Err("state, challenge or scopes are missing".to_owned());
        }
        if says_yes {
            self.given += 1;
            let code = format!("4/code-{:04}", self.given);
            redirect.query_pairs_mut().append_pair("state", &one("state")).append_pair("code", &code);
            let code_of = Code {
                challenge: one("code_challenge"),
                redirect: one("redirect_uri"),
                scopes: one("scope"),
            };
            self.codes.insert(code, code_of);
        } else {
            redirect
                .query_pairs_mut()
                .append_pair("state", &one("state"))
                .append_pair("error", "access_denied");
        }
        Ok(redirect.to_string())
    }

    pub(super) fn token(&mut self, request: &Request) -> Reply {
        if let Some(trouble) = self.trouble.pop() {
            return trouble;
        }
        if request.method != "POST" || request.header("content-type") != "application/x-www-form-urlencoded" {
            return refused(400, "invalid_request", "no form");
        }
        let form: HashMap<String, String> = parse(&request.body).into_owned().collect();
        let one = |name: &str| form.get(name).map_or("", String::as_str);
        if (one("client_id"), one("client_secret")) != (CLIENT_ID, CLIENT_SECRET) {
            return refused(401, "invalid_client", "The OAuth client was not found.");
        }
        match one("grant_type") {
            "authorization_code" => {
                // A code is valid once.
                let Some(code) = self.codes.remove(one("code")) else {
                    return refused(400, "invalid_grant", "Malformed auth code.");
                };
                let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(one("code_verifier").as_bytes()));
                if challenge != code.challenge || one("redirect_uri") != code.redirect {
                    return refused(400, "invalid_grant", "The verifier does not fit the challenge.");
                }
                let (access, refresh) = self.give(&code.scopes);
                self.given(&json!({"access_token": access, "refresh_token": refresh, "scope": code.scopes}))
            }
            "refresh_token" => {
                let known = self.refresh.clone().filter(|(token, _)| token == one("refresh_token"));
                let Some((_, scopes)) = known else {
                    return refused(400, "invalid_grant", "Token has been expired or revoked.");
                };
                self.given += 1;
                let access = format!("ya29.access-{:04}-token", self.given);
                self.access.insert(access.clone(), scopes.clone());
                self.given(&json!({"access_token": access, "scope": scopes}))
            }
            _ => refused(400, "unsupported_grant_type", ""),
        }
    }

    pub(super) fn revoked(&mut self, request: &Request) -> Reply {
        let form: HashMap<String, String> = parse(&request.body).into_owned().collect();
        let known = self.refresh.as_ref().is_some_and(|(token, _)| form.get("token") == Some(token));
        if !known {
            return refused(400, "invalid_token", "Token expired or revoked");
        }
        self.revoke();
        Reply::json("{}")
    }

    fn given(&self, tokens: &serde_json::Value) -> Reply {
        let mut answer = tokens.clone();
        answer["expires_in"] = json!(self.lasts);
        answer["token_type"] = json!("Bearer");
        Reply::json(&answer.to_string())
    }
}

fn refused(status: u16, error: &str, description: &str) -> Reply {
    let body = json!({"error": error, "error_description": description});
    Reply::of(status, &[("content-type", "application/json")], body.to_string())
}
