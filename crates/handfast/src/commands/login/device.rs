//! The device authorization grant (RFC 8628): the user enters a code in a browser, and the forge
//! gives a new token.

use std::time::{Duration, Instant};

use fetch::address::Target;
use fetch::web::Web;
use fetch::{HeaderName, HeaderValue};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tool::visible;
use url::form_urlencoded::Serializer;
use vault::ForgeKind;
use zeroize::Zeroizing;

use super::asking::ask;
use crate::cli_login::Place;
use crate::commands::{Failure, print};
use crate::report::note;

/// Interval between two questions if the forge names none (RFC 8628, section 3.2).
const USUAL_INTERVAL: u64 = 5;
/// Seconds by which `slow_down` lengthens the interval (RFC 8628, section 3.5).
const SLOWER: u64 = 5;
/// Maximum time for which a code is waited for, whatever the forge allows.
const LONGEST_WAIT: u64 = 30 * 60;

/// A token of the grant.
pub(super) struct Granted {
    pub(super) token: Zeroizing<String>,
    pub(super) expires_at: Option<Timestamp>,
}

/// Asks the forge for a code, shows the code, and waits until the user has entered it.
///
/// # Errors
/// If the forge refuses, or the code expires.
pub(super) async fn token(
    web: &Web,
    place: &Place,
    kind: ForgeKind,
    client: &str,
    now: Timestamp,
) -> Result<Granted, Failure> {
    // GitHub: "Authorizing OAuth apps", device flow; GitLab: "OAuth 2.0 identity provider API".
    let (codes, tokens, scopes) = match kind {
        ForgeKind::Github => ("login/device/code", "login/oauth/access_token", "repo read:org"),
        ForgeKind::Gitlab => ("oauth/authorize_device", "oauth/token", "api"),
        _ => return Err(Failure::usage("only GitHub and GitLab give a token for a code; paste one")),
    };
    let started = post(web, place, codes, &[("client_id", client), ("scope", scopes)]).await?;
    let text = |name: &str| started[name].as_str().map(visible);
    let (Some(device), Some(code), Some(page)) =
        (started["device_code"].as_str(), text("user_code"), text("verification_uri"))
    else {
        return Err(refused(&started));
    };
    note(&format!("open the address and enter the code {code}; Ctrl-C ends the wait"));
    print(&format!("{page}\n"))?;
    let number = |name: &str, usual: u64| started[name].as_u64().unwrap_or(usual);
    let mut interval = number("interval", USUAL_INTERVAL).max(1);
    let ends = Instant::now() + Duration::from_secs(number("expires_in", 900).min(LONGEST_WAIT));
    let form = [
        ("client_id", client),
        ("device_code", device),
        ("grant_type", "urn:ietf:params:oauth:grant-type:device_code"),
    ];
    loop {
        fetch::web::pause(Duration::from_secs(interval)).await;
        if Instant::now() >= ends {
            return Err("nobody entered the code in time; nobody was logged in".into());
        }
        let answer = post(web, place, tokens, &form).await?;
        if let Some(token) = answer["access_token"].as_str() {
            let lasts = answer["expires_in"].as_i64().map(SignedDuration::from_secs);
            let expires_at = lasts.and_then(|lasts| now.checked_add(lasts).ok());
            return Ok(Granted { token: Zeroizing::new(token.to_owned()), expires_at });
        }
        match answer["error"].as_str() {
            Some("authorization_pending") => {}
            Some("slow_down") => {
                let named = answer["interval"].as_u64().unwrap_or(0);
                interval = named.max(interval + SLOWER).min(LONGEST_WAIT);
            }
            _ => return Err(refused(&answer)),
        }
    }
}

fn refused(answer: &Value) -> Failure {
    let why = answer["error_description"].as_str().or(answer["error"].as_str());
    let why = why.unwrap_or("the answer is not that of a device authorization");
    format!("no token was given: {}; nobody was logged in", visible(why)).into()
}

async fn post(web: &Web, place: &Place, path: &str, form: &[(&str, &str)]) -> Result<Value, Failure> {
    let target = Target::parse(&format!("https://{place}/{path}"))?;
    let body = Serializer::new(String::new()).extend_pairs(form).finish();
    let headers = [
        (fetch::CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded")),
        (HeaderName::from_static("accept"), HeaderValue::from_static("application/json")),
    ];
    let headers = headers.into_iter().collect();
    let (status, body) = ask(web, fetch::Method::POST, &target, headers, body.into_bytes()).await?;
    serde_json::from_slice(&body)
        .map_err(|_| Failure::from(format!("{place} answered with status {status} and no JSON")))
}
