//! The account of a forge's token: what the forge says about the token before it is stored.

use fetch::address::Target;
use fetch::web::Web;
use fetch::{HeaderMap, HeaderName, HeaderValue};
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde_json::Value;
use tool::visible;
use vault::ForgeKind;

use super::asking::{ReadAnswer, ask_with_headers, bearer};
use crate::cli_login::Place;
use crate::commands::Failure;

/// Properties of a token, as its forge tells them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ForgeAccount {
    pub(super) user: Option<String>,
    pub(super) expires_at: Option<Timestamp>,
    /// Scopes that reach beyond work in repositories.
    pub(super) powers: Vec<String>,
}

/// Returns the hosts that a forge's token is sent to.
pub(super) fn hosts(place: &Place, kind: ForgeKind) -> Vec<String> {
    let host = &place.host;
    match kind {
        ForgeKind::Github if host == "github.com" || host.ends_with(".ghe.com") => {
            vec![host.clone(), format!("api.{host}"), format!("uploads.{host}")]
        }
        _ => vec![host.clone()],
    }
}

/// Asks the forge about a token. A server that is only known to speak git's protocol is not asked.
///
/// # Errors
/// If the forge does not accept the token.
pub(super) async fn of(
    web: &Web,
    place: &Place,
    kind: ForgeKind,
    token: &str,
) -> Result<ForgeAccount, Failure> {
    match kind {
        ForgeKind::Github => {
            let is_cloud = place.host == "github.com" || place.host.ends_with(".ghe.com");
            let api =
                if is_cloud { format!("https://api.{place}") } else { format!("https://{place}/api/v3") };
            github(&accepted(web, place, &format!("{api}/user"), token).await?)
        }
        ForgeKind::Gitlab => {
            let api = format!("https://{place}/api/v4");
            let user = accepted(web, place, &format!("{api}/user"), token).await?;
            // OAuth tokens are no personal access tokens, and get an error here.
            let about = get(web, &format!("{api}/personal_access_tokens/self"), token).await?;
            gitlab(&user, &about)
        }
        ForgeKind::Npm => {
            let who = accepted(web, place, &format!("https://{place}/-/whoami"), token).await?;
            Ok(ForgeAccount { user: text(&json(&who)?, "username"), ..ForgeAccount::default() })
        }
        ForgeKind::Git => Ok(ForgeAccount::default()),
    }
}

async fn accepted(web: &Web, place: &Place, address: &str, token: &str) -> Result<ReadAnswer, Failure> {
    let answer = get(web, address, token).await?;
    let why = match answer.status {
        200 => return Ok(answer),
        401 => "the token is wrong, expired or revoked".to_owned(),
        403 => "the token may not even read its own account".to_owned(),
        status => format!("{} answered with status {status}; check the host", visible(address)),
    };
    Err(Failure::from(format!("{place} does not accept the token: {why}; nothing was stored")))
}

async fn get(web: &Web, address: &str, token: &str) -> Result<ReadAnswer, Failure> {
    let target = Target::parse(address)?;
    let json = (HeaderName::from_static("accept"), HeaderValue::from_static("application/json"));
    let token = bearer(token.as_bytes()).ok_or("no header can contain this token")?;
    ask_with_headers(web, fetch::Method::GET, &target, HeaderMap::from_iter([json, token]), Vec::new()).await
}

fn json(answer: &ReadAnswer) -> Result<Value, Failure> {
    serde_json::from_slice(&answer.body).map_err(|_| Failure::from("the forge's answer is not JSON"))
}

fn text(value: &Value, name: &str) -> Option<String> {
    value[name].as_str().map(str::to_owned)
}

/// Reads GitHub's answer about the user ("Scopes for OAuth apps", "Managing your personal access
/// tokens"). A fine-grained token has no scopes there.
fn github(answer: &ReadAnswer) -> Result<ForgeAccount, Failure> {
    let header = |name: &str| answer.headers.get(name).and_then(|value| value.to_str().ok());
    let scopes = header("x-oauth-scopes").unwrap_or_default().split(',').map(str::trim);
    let goes_beyond = |scope: &&str| {
        let is_admin = scope.starts_with("admin:") && *scope != "admin:repo_hook";
        is_admin || ["delete_repo", "delete:packages", "site_admin", "user"].contains(scope)
    };
    Ok(ForgeAccount {
        user: text(&json(answer)?, "login"),
        expires_at: header("github-authentication-token-expiration").and_then(expiration),
        powers: scopes.filter(goes_beyond).map(str::to_owned).collect(),
    })
}

/// Parses the time of GitHub's header: `2026-12-31 10:00:00 UTC` or with an offset.
fn expiration(text: &str) -> Option<Timestamp> {
    let text = text.trim().replace(" UTC", " +0000");
    Timestamp::strptime("%Y-%m-%d %H:%M:%S %z", &text).ok()
}

/// Reads GitLab's answers about the user and about the token ("Personal access tokens API").
fn gitlab(user: &ReadAnswer, about: &ReadAnswer) -> Result<ForgeAccount, Failure> {
    let about = if about.status == 200 { json(about)? } else { Value::Null };
    let scopes = about["scopes"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let last_day = about["expires_at"].as_str().and_then(|day| day.parse::<Date>().ok());
    let expires_at = last_day.and_then(|day| day.to_zoned(TimeZone::UTC).ok()).map(|start| start.timestamp());
    Ok(ForgeAccount {
        user: text(&json(user)?, "username"),
        expires_at,
        powers: scopes
            .filter(|scope| ["sudo", "admin_mode", "create_runner", "manage_runner"].contains(scope))
            .map(str::to_owned)
            .collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(status: u16, headers: &[(&'static str, &'static str)], body: &str) -> ReadAnswer {
        let headers = headers
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        ReadAnswer { status, headers: headers.collect(), body: body.as_bytes().to_vec() }
    }

    #[test]
    fn scopes_beyond_repositories_and_the_expiry_are_read() {
        let classic = answered(
            200,
            &[
                ("x-oauth-scopes", "repo, admin:org, delete_repo, read:org, admin:repo_hook"),
                ("github-authentication-token-expiration", "2026-12-31 10:00:00 UTC"),
            ],
            r#"{"login": "me"}"#,
        );
        let account = github(&classic).unwrap();
        assert_eq!(account.user.as_deref(), Some("me"));
        assert_eq!(account.powers, ["admin:org", "delete_repo"]);
        assert_eq!(account.expires_at, Some("2026-12-31T10:00:00Z".parse().unwrap()));
        let fine = github(&answered(200, &[], r#"{"login": "me"}"#)).unwrap();
        assert_eq!((fine.powers.len(), fine.expires_at), (0, None));
        assert_eq!(expiration("2026-12-31 10:00:00 +0200"), Some("2026-12-31T08:00:00Z".parse().unwrap()));
        assert_eq!(expiration("soon"), None);
        let user = answered(200, &[], r#"{"username": "me"}"#);
        let about = answered(200, &[], r#"{"scopes": ["api", "sudo"], "expires_at": "2027-01-31"}"#);
        let account = gitlab(&user, &about).unwrap();
        assert_eq!((account.user.as_deref(), account.powers), (Some("me"), vec!["sudo".to_owned()]));
        assert_eq!(account.expires_at, Some("2027-01-31T00:00:00Z".parse().unwrap()));
        assert_eq!(gitlab(&user, &answered(404, &[], "")).unwrap().expires_at, None);
    }
}
