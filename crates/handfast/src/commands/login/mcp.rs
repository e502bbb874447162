//! Logins at MCP servers behind a URL (OAuth 2.1): the tokens go to the vault, bound to the server and to its
//! authorization server.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use fetch::address::Target;
use fetch::dial::Permission;
use fetch::web::{Web, WebRequest};
use fetch::{HeaderMap, HeaderName, HeaderValue};
use serde_json::json;
use tool::{Clock, visible};
use tools_mcp::oauth::{self, Challenge, Discovery, Identity, RANDOM_BYTES, Reach, RegisteredClient};
use tools_mcp::{LoginSecrets, PlainTransport, ServerSettings, ServersSettings, StoredLogin, needs_login};

use super::asking::TIMEOUT;
use super::loopback::{Answer, Loopback};
use super::{check_vault, confirmed, open_browser, rules};
use crate::cli::Global;
use crate::cli_login::McpLogin;
use crate::clock::SystemClock;
use crate::commands::vault::{Recorded, opened, vault_failure};
use crate::commands::{Failure, print, tokio_runtime};
use crate::configuration::Configuration;
use crate::host_environment::HostEnvironment;
use crate::places::{VAULT_FOLDER, state_folder};
use crate::report::note;
use crate::signals::Signals;

/// Port of HTTPS, which rules do not name.
const HTTPS: u16 = 443;

pub(super) fn login(global: &Global, arguments: &McpLogin) -> Result<ExitCode, Failure> {
    let host_environment = HostEnvironment::of_this_process();
    let folder = state_folder(&global.run_options(), &host_environment)?.join(VAULT_FOLDER);
    let (settings, url) = server(global, &arguments.server)?;
    let vault = opened(global, &host_environment, folder, true)?;
    check_vault(&vault)?;
    let attempt = async {
        let mut signals = Signals::listen()?;
        tokio::select! {
            done = granted(arguments, &url) => done.map(Ok),
            code = signals.next() => {
                note("nobody was logged in");
                Ok(Err(code))
            }
        }
    };
    let grant = match tokio_runtime()?.block_on(attempt)? {
        Ok(grant) => grant,
        Err(code) => return Ok(ExitCode::from(code)),
    };
    let login = StoredLogin {
        server: settings.key.clone(),
        url,
        client_id: grant.client.id.clone(),
        auth: grant.client.auth,
        discovery: grant.discovery,
    };
    let asked =
        json!({"server": login.server, "issuer": login.discovery.server.issuer, "scope": grant.tokens.scope});
    let recorded = Recorded { global, host_environment: &host_environment };
    recorded.change("mcp_login", &asked, || {
        login.store(&vault, &grant.client, &grant.tokens, SystemClock.now())
    })?;
    let issuer = visible(&login.discovery.server.issuer);
    note(&format!(
        "logged in to the MCP server {} at {issuer}; `handfast logout mcp {}` ends the login",
        login.server, login.server
    ));
    add_rules(global, &login, arguments)?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn logout(global: &Global, server: &str) -> Result<ExitCode, Failure> {
    let host_environment = HostEnvironment::of_this_process();
    let folder = state_folder(&global.run_options(), &host_environment)?.join(VAULT_FOLDER);
    let vault = opened(global, &host_environment, folder, false)?;
    let names = LoginSecrets::of(server);
    let contents = vault.contents().map_err(vault_failure)?;
    let has_login = names.all().iter().any(|name| contents.get(name).is_some());
    drop(contents);
    if !has_login {
        note(&format!("there was no login to the MCP server {}", visible(server)));
        return Ok(ExitCode::SUCCESS);
    }
    let recorded = Recorded { global, host_environment: &host_environment };
    recorded.change("mcp_logout", &json!({ "server": server }), || {
        for name in names.all() {
            vault.remove(name)?;
        }
        Ok(())
    })?;
    note(&format!(
        "logged out of the MCP server {}; its tokens stay valid there until they expire or you revoke them",
        visible(server)
    ));
    Ok(ExitCode::SUCCESS)
}

/// Returns the server of the configuration with this key, and its URL.
fn server(global: &Global, key: &str) -> Result<(ServerSettings, String), Failure> {
    let configuration = Configuration::of(&global.run_options())?;
    let servers = ServersSettings::read(&configuration.at_start.mcp_servers).servers;
    let known: Vec<&str> = servers.iter().map(|server| server.key.as_str()).collect();
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    let settings = servers.into_iter().find(|server| server.key == key).ok_or_else(|| {
        Failure::usage(format!("the configuration has no MCP server {}; it has: {known}", visible(key)))
    })?;
    let config = needs_login(&settings).ok_or_else(|| {
        Failure::usage(format!(
            "the MCP server {key} takes no login: it is a program, or its `headers` have an Authorization already"
        ))
    })?;
    let url = config.url.expand(|_| None).map_err(Failure::usage)?;
    tool_support::endpoint(&url).map_err(Failure::usage)?;
    Ok((settings, url))
}

/// Result of a login that was granted.
struct Grant {
    discovery: Discovery,
    client: RegisteredClient,
    tokens: oauth::Tokens,
}

async fn granted(arguments: &McpLogin, url: &str) -> Result<Grant, Failure> {
    let server = Target::parse(url).map_err(Failure::usage)?;
    let web = Arc::new(Web::default());
    let challenge = challenge(&web, &server, &arguments.server).await?;
    let transport = PlainTransport::new(web, Box::new(permit(&server)));
    let reach = Reach { transport: &transport, timer: &engine::TokioTimer };
    let failed = |error: oauth::OAuthError| {
        Failure::from(format!(
            "cannot log in to the MCP server {}: {error}; nobody was logged in",
            arguments.server
        ))
    };
    let mut discovery = oauth::discover(reach, url, &challenge).await.map_err(failed)?;
    if !arguments.scope.is_empty() {
        discovery.scope = Some(arguments.scope.join(" "));
    }
    let listening = Loopback::listen(arguments.port).await?;
    let redirect = listening.address();
    let registered = arguments.client_id.as_ref().map(|id| {
        // A client without a secret is no secret for another issuer.
        let client = RegisteredClient { id: id.clone(), secret: None, auth: None };
        (discovery.server.issuer.clone(), client)
    });
    let identity =
        Identity { registered, document: None, name: "Handfast".to_owned(), redirect: redirect.clone() };
    let client = oauth::identify(reach, &discovery.server, &identity).await.map_err(|error| match error {
        oauth::OAuthError::NoIdentity => Failure::from(
            "the authorization server registers no clients by itself; register one there with the redirection \
             http://127.0.0.1/ and name its id with --client-id",
        ),
        error => failed(error),
    })?;
    let mut random = [0; RANDOM_BYTES];
    getrandom::fill(&mut random).map_err(|error| Failure::from(format!("no random bytes: {error}")))?;
    let login = oauth::Login::begin(discovery.clone(), client.clone(), &redirect, &random).map_err(failed)?;
    note(&format!(
        "open this address in a browser and give access at {}; waiting {} s for the answer at {redirect} (Ctrl-C ends \
         the wait)",
        visible(&discovery.server.issuer),
        arguments.wait.as_secs()
    ));
    print(&format!("{}\n", login.url()))?;
    if arguments.open {
        open_browser(login.url());
    }
    let answered =
        tokio::time::timeout(arguments.wait, listening.answer(|state| login.is_answered_by(state)));
    let answered = answered
        .await
        .map_err(|_| Failure::from("nobody answered in time; run the command again with a longer --wait"))?;
    if let Answer::Denied(why) = &answered.answer {
        return Err(format!("access was refused: {}; nobody was logged in", visible(why)).into());
    }
    let tokens = login.finish(reach, &answered.query).await.map_err(failed)?;
    Ok(Grant { discovery, client, tokens })
}

/// Permits the addresses of the public internet, and those of the server itself. A server on the internet names no
/// address of this machine or its network.
fn permit(server: &Target) -> impl Fn(&Target) -> Option<Permission> + Send + Sync + 'static {
    let server = server.clone();
    let is_here = |target: &Target| match target.host() {
        fetch::address::Host::Address(address) => address.is_loopback(),
        host @ fetch::address::Host::Name(_) => host.is_localhost(),
    };
    let server_is_here = is_here(&server);
    move |target| {
        let permission = if target.has_origin_of(&server) || server_is_here && is_here(target) {
            Permission::judged(|_| Some(true))
        } else {
            Permission::public_only()
        };
        // Codes and tokens never leave this machine in the clear.
        Some(if target.is_tls() { permission } else { permission.never_public() })
    }
}

/// Asks the server without credentials, and returns what it demands.
async fn challenge(web: &Web, server: &Target, key: &str) -> Result<Challenge, Failure> {
    let usual = [
        (fetch::ACCEPT, "application/json, text/event-stream"),
        (fetch::CONTENT_TYPE, "application/json"),
        (fetch::USER_AGENT, concat!("handfast/", env!("CARGO_PKG_VERSION"))),
    ];
    let headers: HeaderMap =
        usual.into_iter().map(|(name, value)| (name, HeaderValue::from_static(value))).collect();
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "handfast", "version": env!("CARGO_PKG_VERSION")},
    }});
    let ask = WebRequest {
        target: server.clone(),
        method: fetch::Method::POST,
        headers,
        body: hello.to_string().into(),
        permission: Permission::judged(|_| Some(true)),
        deadline: Instant::now() + TIMEOUT,
    };
    let answer = web.send(ask).await?;
    if !matches!(answer.status, 401 | 403) {
        let status = answer.status;
        return Err(format!("the MCP server {key} asks for no login: it answered with HTTP {status}").into());
    }
    let named = answer.headers.get(HeaderName::from_static("www-authenticate"));
    let header = named.and_then(|value| value.to_str().ok()).unwrap_or_default();
    Ok(oauth::parse_challenge(header))
}

/// Offers the rules without which each call asks.
fn add_rules(global: &Global, login: &StoredLogin, arguments: &McpLogin) -> Result<(), Failure> {
    let names = LoginSecrets::of(&login.server);
    let mut missing = Vec::new();
    for (name, url) in [(&names.access, &login.url), (&names.refresh, &login.discovery.server.token_endpoint)]
    {
        let target = Target::parse(url).map_err(Failure::usage)?;
        let port = Some(target.port()).filter(|port| *port != HTTPS);
        for entry in rules::missing(global, name, &[target.host().to_string()], port)? {
            if !missing.contains(&entry) {
                missing.push(entry);
            }
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let shown = rules::shown(&missing);
    let asks = format!("Without these rules, each call asks:\n{shown}\nAdd them to your configuration?");
    if arguments.no_rules || !confirmed(global, arguments.yes, &asks)? {
        note(&format!("calls ask before they use it, as long as your configuration lacks\n{shown}"));
        return Ok(());
    }
    rules::add(global, &missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_on_the_internet_leads_a_login_to_no_address_of_this_machine() {
        let may = |server: &str, to: &str, address: &str| {
            let permit = permit(&Target::parse(server).unwrap());
            permit(&Target::parse(to).unwrap())
                .is_some_and(|permission| permission.covers(address.parse().unwrap()))
        };
        let (there, here) = ("https://tools.example/mcp", "http://localhost:8000/mcp");
        assert!(may(there, "https://login.example/token", "8.8.8.8"), "the positive control");
        assert!(may(there, "https://tools.example/token", "10.0.0.7"), "a server of the user's own network");
        for (to, address) in [
            ("https://login.example/token", "127.0.0.1"),
            ("https://login.example/token", "10.0.0.7"),
            ("https://login.example/token", "169.254.169.254"),
            ("http://localhost:9000/token", "127.0.0.1"),
            ("https://localhost/token", "127.0.0.1"),
            ("http://login.example/token", "8.8.8.8"),
        ] {
            assert!(!may(there, to, address), "{to} at {address}");
        }
        assert!(may(here, "http://localhost:9000/token", "127.0.0.1"));
        assert!(!may(here, "http://login.example/token", "8.8.8.8"), "a token in the clear");
    }
}
