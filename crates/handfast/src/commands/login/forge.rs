//! Logins at git forges and package registries: the token goes to the vault, and calls use it by a
//! placeholder.

use std::collections::BTreeMap;
use std::process::ExitCode;

use fetch::web::Web;
use jiff::Timestamp;
use serde_json::json;
use tool::{Clock, visible};
use vault::{Change, Entry, ForgeKind, ForgeLogin, HostRule, Vault};

use super::forge_account::{self, ForgeAccount};
use super::token_source::{self, FoundToken};
use super::{check_vault, confirmed, device, rules};
use crate::cli::Global;
use crate::cli_login::{ForgeLoginOptions, Place, TokenSource};
use crate::clock::SystemClock;
use crate::commands::vault::{Recorded, opened, vault_failure};
use crate::commands::{Failure, tokio_runtime};
use crate::config::{ConfigFile, USER_FILE};
use crate::host_environment::HostEnvironment;
use crate::places::{VAULT_FOLDER, state_folder};
use crate::report::{note, warn};
use crate::signals::Signals;

pub(super) fn login(
    global: &Global,
    place: &Place,
    kind: ForgeKind,
    options: &ForgeLoginOptions,
) -> Result<ExitCode, Failure> {
    let host_environment = HostEnvironment::of_this_process();
    let folder = state_folder(&global.run_options(), &host_environment)?.join(VAULT_FOLDER);
    let vault = opened(global, &host_environment, folder, true)?;
    check_vault(&vault)?;
    let name = name_of(&vault, place, kind, options)?;
    let Some(found) = token(global, place, kind, options)? else {
        note("nobody was logged in");
        return Ok(ExitCode::FAILURE);
    };
    let web = Web::default();
    let account = interruptible(forge_account::of(&web, place, kind, &found.0.token))??;
    check_powers(&account, options)?;
    let user = options.user.clone().or(account.user.clone()).or(found.0.user.clone());
    let user = user.ok_or_else(|| {
        Failure::usage(format!(
            "{place} names no user; name the user with --user (any name, if none is needed)"
        ))
    })?;
    let hosts = forge_account::hosts(place, kind);
    let change = Change {
        hosts: Some(HostRule::parse_all(hosts.iter().map(String::as_str)).map_err(Failure::usage)?),
        expires_at: found.1.or(account.expires_at),
        login: Some(ForgeLogin::new(kind, &user, place.port).map_err(Failure::usage)?),
        ..Change::named(&name).map_err(Failure::usage)?
    };
    let asked = json!({"name": name, "user": user, "hosts": hosts, "from": format!("{:?}", options.from).to_lowercase()});
    let recorded = Recorded { global, host_environment: &host_environment };
    recorded
        .change("forge_login", &asked, || vault.set(&change, found.0.token.as_bytes(), SystemClock.now()))?;
    let until = change.expires_at.map(|end| format!(" until {end:.0}")).unwrap_or_default();
    note(&format!("logged in at {place} as {}{until}; the token is {name} in the vault", visible(&user)));
    add_rules(global, &name, &hosts, place, options)?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn logout(global: &Global, place: &Place, kind: Option<ForgeKind>) -> Result<ExitCode, Failure> {
    let host_environment = HostEnvironment::of_this_process();
    let folder = state_folder(&global.run_options(), &host_environment)?.join(VAULT_FOLDER);
    let vault = opened(global, &host_environment, folder, false)?;
    let is_meant = |entry: &Entry| {
        entry.login.as_ref().is_some_and(|login| {
            kind.is_none_or(|kind| login.kind == kind)
                && login.port == place.port
                && entry.hosts.iter().any(|rule| rule.single_host() == Some(place.host.as_str()))
        })
    };
    let contents = vault.contents().map_err(vault_failure)?;
    let names: Vec<String> = contents
        .iter()
        .filter(|(entry, _)| is_meant(entry))
        .map(|(entry, _)| entry.name.as_str().to_owned())
        .collect();
    drop(contents);
    if names.is_empty() {
        note(&format!("there was no login at {place}"));
        return Ok(ExitCode::SUCCESS);
    }
    let recorded = Recorded { global, host_environment: &host_environment };
    recorded.change("forge_logout", &json!({ "names": names }), || {
        for name in &names {
            vault.remove(name)?;
        }
        Ok(())
    })?;
    note(&format!("logged out of {place}; the token stays valid there until you revoke it"));
    Ok(ExitCode::SUCCESS)
}

/// Returns the name of the secret. A secret that is no login is never replaced.
fn name_of(
    vault: &Vault,
    place: &Place,
    kind: ForgeKind,
    options: &ForgeLoginOptions,
) -> Result<String, Failure> {
    let name = options.name.clone().unwrap_or_else(|| match (kind, place.host.as_str()) {
        (ForgeKind::Github, "github.com") => "github_token".to_owned(),
        (ForgeKind::Gitlab, "gitlab.com") => "gitlab_token".to_owned(),
        (kind, _) => {
            let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '_' };
            format!("{}_{}", kind.as_str(), place.to_string().chars().map(plain).collect::<String>())
        }
    });
    let contents = vault.contents().map_err(vault_failure)?;
    match contents.get(&name) {
        Some((entry, _)) if entry.login.is_none() => Err(Failure::usage(format!(
            "the vault has a secret {name} that is no login; choose another name with --name"
        ))),
        _ => Ok(name),
    }
}

/// Returns the token and its expiry, or `None` if the user does not want to give it.
fn token(
    global: &Global,
    place: &Place,
    kind: ForgeKind,
    options: &ForgeLoginOptions,
) -> Result<Option<(FoundToken, Option<Timestamp>)>, Failure> {
    let taken = |program: &str| {
        let question = format!(
            "Take the token that {program} uses for {place}? Calls never see it, but it may reach everything \
             that you reach there."
        );
        confirmed(global, options.yes, &question)
    };
    Ok(match options.from {
        TokenSource::Paste => Some((token_source::pasted(place, kind)?, None)),
        TokenSource::Gh if kind != ForgeKind::Github => {
            return Err(Failure::usage(
                "gh has tokens for GitHub only; use `handfast login github --from gh`",
            ));
        }
        TokenSource::Gh => {
            if taken("gh")? {
                Some((token_source::of_gh(place)?, None))
            } else {
                None
            }
        }
        TokenSource::Git => {
            if taken("git")? {
                Some((token_source::of_git(place)?, None))
            } else {
                None
            }
        }
        TokenSource::Device => {
            let clients = login_clients()?;
            let client = options.client_id.as_ref().or_else(|| clients.get(&place.to_string()));
            let client = client.ok_or_else(|| {
                Failure::usage(format!(
                    "{place} has to know the program that asks: register an OAuth app with the device flow \
                     there, and name its client id with --client-id, or as `login_clients: {{{place}: ID}}` in \
                     your configuration"
                ))
            })?;
            let now = SystemClock.now();
            let web = Web::default();
            let granted = interruptible(device::token(&web, place, kind, client, now))??;
            Some((FoundToken { token: granted.token, user: None }, granted.expires_at))
        }
    })
}

/// Returns the ids of OAuth clients in the user's configuration, by host.
fn login_clients() -> Result<BTreeMap<String, String>, Failure> {
    let Some(folder) = HostEnvironment::of_this_process().configuration else { return Ok(BTreeMap::new()) };
    let file = ConfigFile::read(&folder.join(USER_FILE)).map_err(Failure::usage)?;
    Ok(file.and_then(|file| file.settings.login_clients).unwrap_or_default())
}

/// Runs a request to the forge until it ends or a signal does.
fn interruptible<T>(work: impl Future<Output = T>) -> Result<T, Failure> {
    tokio_runtime()?.block_on(async {
        let mut signals = Signals::listen()?;
        tokio::select! {
            done = work => Ok(done),
            code = signals.next() => Err(Failure { exit_code: code, ..Failure::from("nobody was logged in") }),
        }
    })
}

/// Refuses a token that can do more than work in repositories, unless the user accepts it.
fn check_powers(account: &ForgeAccount, options: &ForgeLoginOptions) -> Result<(), Failure> {
    if account.powers.is_empty() {
        return Ok(());
    }
    let powers = visible(&account.powers.join(", "));
    if options.any_scope {
        warn(&format!("the token can do more than work in repositories: {powers}"));
        return Ok(());
    }
    Err(Failure::usage(format!(
        "the token can do more than work in repositories: {powers}; nothing was stored. Create a token with \
         fewer scopes, best a fine-grained one for some repositories, or accept this one with --any-scope"
    )))
}

/// Adds the rules that calls need, after a yes.
fn add_rules(
    global: &Global,
    name: &str,
    hosts: &[String],
    place: &Place,
    options: &ForgeLoginOptions,
) -> Result<(), Failure> {
    let missing = rules::missing(global, name, hosts, place.port)?;
    if missing.is_empty() {
        note("calls can use it: reading passes, and what writes asks");
        return Ok(());
    }
    let shown = rules::shown(&missing);
    let asks = format!("Calls need these rules:\n{shown}\nAdd them to your configuration?");
    if options.no_rules || !confirmed(global, options.yes, &asks)? {
        note(&format!("calls cannot use it before your configuration has\n{shown}"));
        return Ok(());
    }
    rules::add(global, &missing)
}
