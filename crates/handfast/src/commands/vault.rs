//! `handfast vault`: manages the user's secrets. None of its commands prints a value.

use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use store_api::StoreError;
use tool::{Clock, Code, visible};
use vault::{Change, Contents, ForgeLogin, Keys, RequestPart, RequestParts, SecretBytes, Vault, VaultError};
use zeroize::Zeroizing;

use super::{Failure, print, print_json};
use crate::cli::Global;
use crate::cli_vault::{Bound, End, VaultCommand};
use crate::clock::SystemClock;
use crate::configuration::key_file;
use crate::hidden_line::{ask, ask_twice, is_possible};
use crate::host_environment::{HostEnvironment, vault_keys};
use crate::places::{VAULT_FOLDER, open_store, state_folder};
use crate::report::{note, warn};

/// Maximum number of bytes read from an import.
const LARGEST_IMPORT: u64 = 16 * 1024 * 1024;

pub(super) fn run(global: &Global, command: Option<VaultCommand>) -> Result<ExitCode, Failure> {
    let host_environment = HostEnvironment::of_this_process();
    let folder = state_folder(&global.run_options(), &host_environment)?.join(VAULT_FOLDER);
    let now = SystemClock.now();
    let recorded = Recorded { global, host_environment: &host_environment };
    match command.unwrap_or(VaultCommand::List { json: false }) {
        VaultCommand::Set { values, .. } if !values.is_empty() => {
            return Err(Failure::usage(
                "nothing was stored: others on this machine can see arguments, and the shell may \
                 have saved them; create a new value, and type it or pipe it to `handfast vault set \
                 NAME`",
            ));
        }
        VaultCommand::Set { name, bound, login, user, .. } => {
            let login = login.zip(user).map(|(forge, user)| ForgeLogin::new(forge.into(), &user, None));
            let login = login.transpose().map_err(Failure::usage)?;
            let change = Change { login, ..change(&name, &bound, now)? };
            let value = value_of(&name)?;
            let vault = opened(global, &host_environment, folder, true)?;
            let value = value.trim_end_matches(['\r', '\n']).as_bytes();
            let replaced =
                recorded.change("vault_set", &asked(&name, &bound), || vault.set(&change, value, now))?;
            let verb = if replaced { "replaced" } else { "stored" };
            note(&format!("{name} is {verb}{}", if bound.hosts.is_empty() { goes_nowhere() } else { "" }));
        }
        VaultCommand::Import { file, bound } => {
            return import(&opened(global, &host_environment, folder, true)?, &recorded, &file, &bound, now);
        }
        VaultCommand::List { json } => {
            list(
                &*opened(global, &host_environment, folder, false)?.contents().map_err(vault_failure)?,
                json,
                now,
            )?;
        }
        VaultCommand::Remove { name } => {
            let vault = opened(global, &host_environment, folder, false)?;
            let contents = vault.contents().map_err(vault_failure)?;
            if contents.get(&name).is_none()
                && let Some(near) =
                    tool::nearest(&name, contents.iter().map(|(entry, _)| entry.name.as_str()))
            {
                return Err(Failure::from(format!(
                    "there is no secret named {}; did you mean `{near}`?",
                    visible(&name)
                )));
            }
            drop(contents);
            let remove =
                || vault.remove(&name).and_then(|was| if was { Ok(()) } else { Err(VaultError::Unknown) });
            recorded.change("vault_delete", &json!({ "name": name }), remove)?;
            note(&format!("{name} is removed"));
        }
        VaultCommand::Rotate => {
            let vault = opened(global, &host_environment, folder, false)?;
            // Check that the vault opens before anything is typed in vain.
            vault.contents().map_err(vault_failure)?;
            let new = vault.has_passphrase().then(new_passphrase).transpose()?;
            recorded
                .change("vault_rotate", &json!({}), || vault.rotate(new.as_deref().map(String::as_bytes)))?;
            note("the vault has a new key; if it was unlocked, unlock it again");
        }
        VaultCommand::Unlock { lasts } => {
            let vault = opened(global, &host_environment, folder, false)?;
            recorded.change("vault_unlock", &json!({"seconds": lasts.as_secs()}), || vault.unlock(lasts))?;
            note("the vault is unlocked; `handfast vault lock` locks it");
        }
        VaultCommand::Lock => {
            let vault = Vault::new(folder, Keys::default());
            let was = recorded.change("vault_lock", &json!({}), || vault.lock())?;
            note(if was { "the vault is locked" } else { "the vault was not unlocked" });
        }
        VaultCommand::Restore => {
            let vault = opened(global, &host_environment, folder, false)?;
            recorded.change("vault_restore", &json!({}), || vault.restore())?;
            note("the secrets before the last change are restored");
        }
        VaultCommand::MakeKey { file } => {
            vault::make_key_file(&file).map_err(vault_failure)?;
            note(&format!(
                "{} is the new key: keep a copy, because nothing opens the vault without it",
                file.display()
            ));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Recorder of changes to the vault. The audit shows them in the same way as changes by tools.
pub(super) struct Recorded<'a> {
    pub(super) global: &'a Global,
    pub(super) host_environment: &'a HostEnvironment,
}

impl Recorded<'_> {
    pub(super) fn change<T>(
        &self,
        what: &str,
        arguments: &Value,
        work: impl FnOnce() -> Result<T, VaultError>,
    ) -> Result<T, Failure> {
        self.attempt(what, arguments, work)?.map_err(vault_failure)
    }

    /// Records a change like [`Recorded::change`], but returns the vault's error, so that the
    /// caller can continue.
    fn attempt<T>(
        &self,
        what: &str,
        arguments: &Value,
        work: impl FnOnce() -> Result<T, VaultError>,
    ) -> Result<Result<T, VaultError>, Failure> {
        let store = open_store(&self.global.run_options(), self.host_environment)?;
        let code = |error: &ChangeError| match error {
            ChangeError::Vault(error) => tools_self::code_of_vault(error),
            ChangeError::Store(_) => Code::Runtime,
        };
        match engine::by_hand((store.as_ref(), &SystemClock), what, arguments, code, || Ok(work()?)) {
            Ok(done) => Ok(Ok(done)),
            Err(ChangeError::Vault(error)) => Ok(Err(error)),
            Err(ChangeError::Store(error)) => Err(error.into()),
        }
    }
}

/// The reason why a change was refused.
enum ChangeError {
    Vault(VaultError),
    Store(StoreError),
}

impl From<VaultError> for ChangeError {
    fn from(error: VaultError) -> Self {
        Self::Vault(error)
    }
}

impl From<StoreError> for ChangeError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Returns the arguments that the audit records for a stored secret.
fn asked(name: &str, bound: &Bound) -> Value {
    json!({"name": name, "hosts": bound.hosts})
}

fn goes_nowhere() -> &'static str {
    "; it is sent nowhere until a host is named with --host"
}

fn hosts(bound: &Bound) -> Option<Vec<vault::HostRule>> {
    (!bound.hosts.is_empty()).then(|| bound.hosts.clone())
}

fn change(name: &str, bound: &Bound, now: Timestamp) -> Result<Change, Failure> {
    let positions: Vec<RequestPart> = bound.places.iter().copied().map(RequestPart::from).collect();
    let expires_at = match bound.expires {
        None => None,
        Some(End::At(at)) => Some(at),
        Some(End::In(time)) => Some(
            now.checked_add(SignedDuration::try_from(time)?)
                .map_err(|_| Failure::usage("the text is too long"))?,
        ),
    };
    let named = Change::named(name).map_err(Failure::usage)?;
    let places = (!positions.is_empty()).then(|| RequestParts::of(&positions));
    let fields = (!bound.fields.is_empty()).then(|| bound.fields.clone());
    Ok(Change { hosts: hosts(bound), places, expires_at, fields, ..named })
}

/// Reads the value from the terminal if there is one, or else from standard input.
fn value_of(name: &str) -> Result<Zeroizing<String>, Failure> {
    if std::io::stdin().is_terminal() {
        return Ok(ask(&format!("Value of {}: ", visible(name)))?);
    }
    let mut value = Zeroizing::new(String::with_capacity(vault::MAX_BYTES + 3));
    std::io::stdin().lock().take(vault::MAX_BYTES as u64 + 3).read_to_string(&mut value)?;
    Ok(value)
}

fn new_passphrase() -> Result<Zeroizing<String>, Failure> {
    if !is_possible() {
        return Err(Failure::usage("a new passphrase needs a terminal"));
    }
    Ok(ask_twice("New passphrase: ")?)
}

/// Opens the vault with the keys of the host environment, or else with a typed passphrase.
pub(super) fn opened(
    global: &Global,
    host_environment: &HostEnvironment,
    folder: PathBuf,
    may_make: bool,
) -> Result<Vault, Failure> {
    let keys = || Ok::<_, Failure>(vault_keys(key_file(host_environment)?));
    let vault = Vault::new(folder.clone(), keys()?);
    let asks = match vault.contents() {
        Err(VaultError::Locked) => vault.has_passphrase(),
        Ok(_) | Err(_) => may_make && !vault.exists() && !vault.can_be_made(),
    };
    if !asks || global.no_input || !is_possible() {
        return Ok(vault);
    }
    let typed = if vault.exists() {
        ask("Passphrase of the vault: ")?
    } else {
        ask_twice("Passphrase for a new vault: ")?
    };
    Ok(Vault::new(folder, Keys { passphrase: Some(SecretBytes::copy_of(typed.as_bytes())), ..keys()? }))
}

/// Converts an error of the vault to a failure with advice.
pub(super) fn vault_failure(error: VaultError) -> Failure {
    let what = match &error {
        VaultError::Locked | VaultError::NoVault => {
            "; name a key file with HANDFAST_VAULT_KEY_FILE or as `vault: {key_file: FILE}` in your \
             configuration (`handfast vault make-key FILE` creates one), set \
             HANDFAST_VAULT_PASSPHRASE, or run the command on a terminal"
        }
        VaultError::Damaged { .. } => {
            "; `handfast vault restore` restores the secrets before the last change"
        }
        _ => return Failure::from(error),
    };
    Failure::from(format!("{error}{what}"))
}

fn list(contents: &Contents, as_json: bool, now: Timestamp) -> Result<(), Failure> {
    if as_json {
        let rows = contents.iter().map(|(entry, _)| {
            json!({
                "name": entry.name, "hosts": entry.hosts, "places": entry.places.names(), "set_at": entry.set_at,
                "last_used_at": entry.last_used_at, "expires_at": entry.expires_at, "login": entry.login,
                "fields": entry.fields,
            })
        });
        return print_json(&rows.collect::<Vec<_>>());
    }
    if contents.iter().next().is_none() {
        note("the vault holds no secret; `handfast vault set NAME --host HOST` stores one");
    }
    let mut text = String::new();
    for (entry, _) in contents.iter() {
        let hosts: Vec<String> = entry.hosts.iter().cloned().map(String::from).collect();
        let hosts = if hosts.is_empty() { "no host".to_owned() } else { hosts.join(", ") };
        let ends = match entry.expires_at {
            Some(end) if end <= now => ", expired".to_owned(),
            Some(end) => format!(", until {end:.0}"),
            None => String::new(),
        };
        let used = entry.last_used_at.map_or("never used".to_owned(), |time| format!("used {time:.0}"));
        let login =
            entry.login.as_ref().map(|login| format!("login {} at {}; ", login.user, login.kind.as_str()));
        let fields = if entry.fields.is_empty() {
            String::new()
        } else {
            format!("; fields {}", tool::visible(&entry.fields.join(", ")))
        };
        text.push_str(&format!(
            "{}  {hosts}  ({}{}{fields}; set {:.0}, {used}{ends})\n",
            entry.name.as_str(),
            login.unwrap_or_default(),
            entry.places.names().join(", "),
            entry.set_at
        ));
    }
    print(&text)
}

fn import(
    vault: &Vault,
    recorded: &Recorded<'_>,
    file: &Path,
    bound: &Bound,
    now: Timestamp,
) -> Result<ExitCode, Failure> {
    let mut text = Zeroizing::new(String::new());
    if file == Path::new("-") {
        std::io::stdin().lock().take(LARGEST_IMPORT).read_to_string(&mut text)?;
    } else {
        let unread = |error| Failure::usage(format!("cannot read {}: {error}", file.display()));
        std::fs::File::open(file)
            .map_err(unread)?
            .take(LARGEST_IMPORT)
            .read_to_string(&mut text)
            .map_err(unread)?;
    }
    let (mut stored, mut refused) = (0, 0);
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let Some((name, value)) = line.strip_prefix("export ").unwrap_or(line).split_once('=') else {
            warn(&format!("line {} is not NAME=VALUE", number + 1));
            refused += 1;
            continue;
        };
        let (name, value) = (name.trim(), unquoted(value.trim()));
        let done = match change(name, bound, now) {
            Ok(change) => recorded
                .attempt("vault_set", &asked(name, bound), || vault.set(&change, value.as_bytes(), now))?,
            Err(_) => Err(VaultError::Name),
        };
        match done {
            Ok(_) => stored += 1,
            Err(error @ (VaultError::Name | VaultError::Short | VaultError::Long)) => {
                warn(&format!("line {}: {error}", number + 1));
                refused += 1;
            }
            Err(error) => return Err(vault_failure(error)),
        }
    }
    note(&format!(
        "{stored} stored, {refused} left out{}",
        if bound.hosts.is_empty() { goes_nowhere() } else { "" }
    ));
    Ok(if refused == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Removes the quotes around a value.
fn unquoted(value: &str) -> &str {
    let within = |quote| value.strip_prefix(quote).and_then(|rest: &str| rest.strip_suffix(quote));
    within('"').or_else(|| within('\'')).unwrap_or(value)
}
