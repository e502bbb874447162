//! `handfast login` and `handfast logout`: grants and revokes the use of an account. Tokens are
//! never printed.

mod asking;
mod client;
mod device;
mod forge;
mod forge_account;
mod loopback;
mod mcp;
mod rules;
mod token_source;

use std::path::PathBuf;
use std::process::ExitCode;

use fetch::HeaderValue;
use fetch::address::Target;
use fetch::web::Web;
use serde_json::{Value, json};
use tool::{Clock, visible};
use tools_work::Gmail;
use tools_work::oauth::{
    self, Attempt, CLIENT_SECRET, Client, Grant, LOGIN, Login, OauthRefusal, REFRESH, SECRETS,
};
use vault::{ForgeKind, RequestPart, SecretBytes, Vault, VaultError};

use super::vault::{Recorded, opened, vault_failure};
use super::{Failure, print, tokio_runtime};
use crate::cli::Global;
use crate::cli_login::{GmailLogin, LoginCommand, LogoutCommand, Place};
use crate::clock::SystemClock;
use crate::configuration::Configuration;
use crate::host_environment::HostEnvironment;
use crate::places::{VAULT_FOLDER, state_folder};
use crate::report::{note, warn};
use crate::signals::Signals;
use asking::{ask, bearer, confirmed};
use loopback::{Answer, Loopback};

pub(super) fn login(global: &Global, command: LoginCommand) -> Result<ExitCode, Failure> {
    match command {
        LoginCommand::Gmail(arguments) => gmail(global, &arguments),
        LoginCommand::Github(arguments) => {
            let host = arguments.host.clone().unwrap_or_else(|| Place::named("github.com"));
            forge::login(global, &host, ForgeKind::Github, &arguments.login)
        }
        LoginCommand::Gitlab(arguments) => {
            let host = arguments.host.clone().unwrap_or_else(|| Place::named("gitlab.com"));
            forge::login(global, &host, ForgeKind::Gitlab, &arguments.login)
        }
        LoginCommand::Host(arguments) => {
            forge::login(global, &arguments.host, arguments.kind.into(), &arguments.login)
        }
        LoginCommand::Mcp(arguments) => mcp::login(global, &arguments),
    }
}

/// Checks that the vault takes secrets, before the user does anything in vain.
fn check_vault(vault: &Vault) -> Result<(), Failure> {
    match vault.contents() {
        Err(error) => Err(vault_failure(error)),
        Ok(_) if !vault.exists() && !vault.can_be_made() => Err(vault_failure(VaultError::NoVault)),
        Ok(_) => Ok(()),
    }
}

fn gmail(global: &Global, arguments: &GmailLogin) -> Result<ExitCode, Failure> {
    let at = Account::of(global, true)?;
    check_vault(&at.vault)?;
    let client = client::of(arguments, &at.vault, &at.gmail)?;
    let scopes = if arguments.scope.is_empty() { oauth::SCOPES.join(" ") } else { arguments.scope.join(" ") };
    tokio_runtime()?.block_on(async {
        let mut signals = Signals::listen()?;
        tokio::select! {
            done = at.log_in(arguments, &client, &scopes) => done,
            code = signals.next() => {
                note("nobody was logged in");
                Ok(ExitCode::from(code))
            }
        }
    })
}

pub(super) fn logout(global: &Global, command: &LogoutCommand) -> Result<ExitCode, Failure> {
    match command {
        LogoutCommand::Gmail { forget_client } => {
            let at = Account::of(global, false)?;
            tokio_runtime()?.block_on(at.log_out(*forget_client))
        }
        LogoutCommand::Github { host } => {
            let host = host.clone().unwrap_or_else(|| Place::named("github.com"));
            forge::logout(global, &host, Some(ForgeKind::Github))
        }
        LogoutCommand::Gitlab { host } => {
            let host = host.clone().unwrap_or_else(|| Place::named("gitlab.com"));
            forge::logout(global, &host, Some(ForgeKind::Gitlab))
        }
        LogoutCommand::Host { host } => forge::logout(global, host, None),
        LogoutCommand::Mcp { server } => mcp::logout(global, server),
    }
}

/// An account and the storage of its login.
struct Account<'a> {
    gmail: Gmail,
    vault: Vault,
    recorded: (&'a Global, HostEnvironment),
    web: Web,
}

impl<'a> Account<'a> {
    fn of(global: &'a Global, may_make: bool) -> Result<Self, Failure> {
        let host_environment = HostEnvironment::of_this_process();
        let folder: PathBuf = state_folder(&global.run_options(), &host_environment)?.join(VAULT_FOLDER);
        let gmail = Configuration::of(&global.run_options())?.needed.work.gmail;
        let vault = opened(global, &host_environment, folder, may_make)?;
        Ok(Self { gmail, vault, recorded: (global, host_environment), web: Web::default() })
    }

    fn recorded(&self) -> Recorded<'_> {
        Recorded { global: self.recorded.0, host_environment: &self.recorded.1 }
    }

    async fn log_in(
        &self,
        arguments: &GmailLogin,
        client: &Client,
        scopes: &str,
    ) -> Result<ExitCode, Failure> {
        let attempt = Attempt::begin()?;
        let listening = Loopback::listen(arguments.port).await?;
        let redirect = listening.address();
        let address = attempt.address(&self.gmail, client, &redirect, scopes, arguments.account.as_deref());
        note(&format!(
            "open this address in a browser and give access; waiting {} s for the answer at \
             {redirect} (Ctrl-C ends the wait)",
            arguments.wait.as_secs()
        ));
        print(&format!("{address}\n"))?;
        if arguments.open {
            open_browser(&address);
        }
        let answer =
            tokio::time::timeout(arguments.wait, listening.answer(|state| attempt.is_answered_by(state)))
                .await;
        let code = match answer.map(|answered| answered.answer) {
            Err(_) => {
                return Err("nobody answered in time; run the command again with a longer --wait".into());
            }
            Ok(Answer::Denied(why)) => {
                return Err(format!("access was refused: {}; nobody was logged in", visible(&why)).into());
            }
            Ok(Answer::Code(code)) => code,
        };
        let grant = self.granted(attempt.exchange(client, &code, &redirect)).await?;
        if grant.refresh.is_none() {
            return Err("Google gave no refresh token; remove Handfast's access in your Google \
                        account, and log in again"
                .into());
        }
        self.keep(client, scopes, &grant).await?;
        Ok(ExitCode::SUCCESS)
    }

    /// Stores the grant in the vault, and reports the login.
    async fn keep(&self, client: &Client, scopes: &str, grant: &Grant) -> Result<(), Failure> {
        let account = self.account(&grant.access).await;
        let given = grant.scopes.clone().unwrap_or_else(|| scopes.to_owned());
        let login = Login { client_id: client.id.clone(), account: account.clone(), scopes: given.clone() };
        let asked = json!({"account": account, "scopes": given, "host": self.gmail.api().host().to_string()});
        self.recorded().change("gmail_login", &asked, || {
            let now = SystemClock.now();
            login.keep(&self.vault, &self.gmail, client, now)?;
            grant.keep(&self.vault, &self.gmail, now)
        })?;
        let missing: Vec<&str> =
            scopes.split(' ').filter(|scope| !given.split(' ').any(|one| one == *scope)).collect();
        if !missing.is_empty() {
            warn(&format!("not all access was given: {} is missing", visible(&missing.join(", "))));
        }
        let whose =
            account.map_or_else(|| "Gmail".to_owned(), |account| format!("Gmail as {}", visible(&account)));
        note(&format!("logged in to {whose}; `handfast logout gmail` ends the login"));
        Ok(())
    }

    /// Returns the address of the mailbox, if the token permits the request.
    async fn account(&self, token: &SecretBytes) -> Option<String> {
        let target = self.gmail.api().join("gmail/v1/users/me/profile").ok()?;
        let headers = [bearer(token)?].into_iter().collect();
        let (status, body) = ask(&self.web, fetch::Method::GET, &target, headers, Vec::new()).await.ok()?;
        let said: Value = serde_json::from_slice(&body).ok().filter(|_| status == 200)?;
        let address = said["emailAddress"].as_str()?;
        // The address becomes the sender of outgoing mail.
        let plain = |c: char| c.is_ascii_graphic() && !"<>,;:\"()".contains(c);
        (address.contains('@') && address.chars().all(plain)).then(|| address.to_owned())
    }

    async fn granted(&self, form: Vec<u8>) -> Result<Grant, Failure> {
        let (status, mut body) = self.post(self.gmail.token(), form).await?;
        Grant::read(status, &mut body, SystemClock.now()).map_err(|refused| {
            let what = match &refused {
                OauthRefusal::Said { error, .. } if error == "invalid_client" => {
                    "; check the client (--client) and its type, which must be \"Desktop app\""
                }
                _ => "; nobody was logged in",
            };
            Failure::from(format!("Google gave no token ({}){what}", visible(&refused.to_string())))
        })
    }

    async fn log_out(&self, forget_client: bool) -> Result<ExitCode, Failure> {
        let host = self.gmail.revocation().host().to_string();
        let token = match self.vault.value_for(REFRESH, &host, RequestPart::Body, SystemClock.now()) {
            Ok(token) => Some(token),
            Err(VaultError::Unknown | VaultError::NoVault) => None,
            // A login bound to another address is not sent to this one.
            Err(VaultError::NotForHost | VaultError::NotForPlace { .. } | VaultError::Expired) => {
                warn(
                    "the login was made for another address, so Google was not asked to revoke it; \
                     revoke it in your Google account",
                );
                None
            }
            Err(error) => return Err(vault_failure(error)),
        };
        let was = self.vault.contents().map_err(vault_failure)?.get(REFRESH).is_some();
        if let Some(token) = token {
            let taken = self.post(self.gmail.revocation(), oauth::revocation(&token)).await;
            let what = match taken {
                // Status 400 means that the token is unknown to Google, and thus already revoked.
                Ok((200 | 400, _)) => None,
                Ok((status, _)) => Some(format!("the answer has status {status}")),
                Err(failure) => Some(failure.error.to_string()),
            };
            if let Some(what) = what {
                warn(&format!(
                    "cannot ask Google to revoke the login ({what}); revoke it in your Google account"
                ));
            }
        }
        self.recorded().change("gmail_logout", &json!({ "forget_client": forget_client }), || {
            for name in
                SECRETS.into_iter().filter(|name| forget_client || ![CLIENT_SECRET, LOGIN].contains(name))
            {
                self.vault.remove(name)?;
            }
            Ok(())
        })?;
        note(if was { "logged out of Gmail" } else { "there was no login to Gmail" });
        Ok(ExitCode::SUCCESS)
    }

    async fn post(&self, target: &Target, form: Vec<u8>) -> Result<(u16, Vec<u8>), Failure> {
        let kind = HeaderValue::from_static("application/x-www-form-urlencoded");
        ask(&self.web, fetch::Method::POST, target, [(fetch::CONTENT_TYPE, kind)].into_iter().collect(), form)
            .await
    }
}

/// Asks the desktop to open the address. Without a desktop, the user opens it by hand.
#[expect(
    clippy::disallowed_methods,
    reason = "the user's own command starts the user's own browser, outside of any call"
)]
fn open_browser(address: &str) {
    use std::process::{Command, Stdio};
    let mut command = Command::new("xdg-open");
    command.arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if let Err(error) = command.spawn() {
        warn(&format!("cannot open a browser (xdg-open: {error}); open the address yourself"));
    }
}
