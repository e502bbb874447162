//! Secrets that the programs of one session may use but never see. Each secret has a placeholder in
//! their environment, which is meaningless outside the session.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use egress::{Authority, Position, Trust};
use fetch::address::Host;
use jiff::{SignedDuration, Timestamp};
use parking_lot::{Mutex, MutexGuard};
use policy::Policy;
use tempfile::NamedTempFile;
use vault::{Entry, HostRule, RequestPart, SecretBytes, Vault, VaultError};

use crate::rules_in_force::RulesInForce;

mod logins;

use logins::SessionLogin;

/// Variables in which programs look for trusted certificates: OpenSSL and programs built on it,
/// curl, requests, Node, git, pip, cargo, npm.
const TRUSTING: [&str; 8] = [
    "SSL_CERT_FILE",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
    "GIT_SSL_CAINFO",
    "PIP_CERT",
    "CARGO_HTTP_CAINFO",
    "npm_config_cafile",
];

/// The secrets of one session.
pub(crate) struct Placeholders {
    vault: Arc<Vault>,
    policy: RulesInForce,
    pub(crate) authority: Authority,
    /// File with the certificates that the programs trust, for as long as the session lives.
    bundle: NamedTempFile,
    /// Folder of the session's files.
    folder: PathBuf,
    /// File with the logins at registries, and its content.
    npm: Mutex<Option<(NamedTempFile, String)>>,
    given: Arc<SessionPlaceholders>,
}

/// Placeholders that a session was given. Their meaning lasts as long as the session.
#[derive(Default)]
pub(crate) struct SessionPlaceholders(Mutex<Names>);

/// Names by placeholder, and placeholders by name.
#[derive(Default)]
struct Names {
    names: HashMap<String, String>,
    placeholders: BTreeMap<String, String>,
}

impl Placeholders {
    /// Builds the placeholders of a session. Returns `None` if the policy hands out no secrets, or
    /// the vault has none that it could hand out.
    ///
    /// # Errors
    /// Returns the reason why they are not available, in words for the agent.
    pub(crate) fn of(
        vault: &Arc<Vault>,
        policy: &RulesInForce,
        folder: &Path,
        given: &Arc<SessionPlaceholders>,
        now: Timestamp,
    ) -> Result<Option<Self>, String> {
        let entries = match vault.contents() {
            Ok(contents) => contents,
            Err(VaultError::Locked) => return Ok(None),
            Err(error) => return Err(format!("this command cannot use secrets: {error}")),
        };
        if !entries.iter().any(|(entry, _)| is_handed_out(&policy.get(), entry, now)) {
            return Ok(None);
        }
        let failed = |error: io::Error| format!("this command cannot use secrets: {error}");
        let authority = Trust::of_system().and_then(|trust| Authority::make(&trust)).map_err(failed)?;
        remove_those_left_over(folder, now);
        let bundle = write(folder, BUNDLE, authority.bundle()).map_err(failed)?;
        let (vault, policy, given) = (vault.clone(), policy.clone(), given.clone());
        let folder = folder.to_owned();
        Ok(Some(Self { vault, policy, authority, bundle, folder, npm: Mutex::default(), given }))
    }

    /// Returns the variables with the placeholders, those with the path of the bundle, and those by
    /// which programs use logins. A variable that is already in `taken` is left out.
    ///
    /// # Errors
    /// Fails if there are no random bytes for placeholders, or if the vault cannot be read.
    pub(crate) fn variables(
        &self,
        now: Timestamp,
        taken: &BTreeMap<OsString, OsString>,
    ) -> Result<Vec<(OsString, OsString)>, String> {
        let contents = self.vault.contents().map_err(|error| error.to_string())?;
        let mut given = self.given.names();
        let bundle = self.bundle.path().as_os_str();
        let mut variables: Vec<_> =
            TRUSTING.iter().map(|name| (OsString::from(name), bundle.to_owned())).collect();
        let policy = self.policy.get();
        let mut usable = Vec::new();
        for (entry, _) in contents.iter().filter(|(entry, _)| is_handed_out(&policy, entry, now)) {
            let name = entry.name.as_str();
            let placeholder = given.placeholder(name).map_err(|error| error.to_string())?;
            let variable = variable(name);
            if !taken.contains_key(OsStr::new(&variable)) && !is_of_the_system(&variable) {
                variables.push((variable.into(), placeholder.clone().into()));
            }
            if let Some(login) = &entry.login {
                let hosts = entry.hosts.iter().filter_map(HostRule::single_host);
                let hosts = hosts.filter(|host| policy.lists_secret(name, host)).collect();
                usable.push(SessionLogin { login, hosts, placeholder });
            }
        }
        variables.extend(logins::variables(&usable, taken));
        if let Some(file) = self.npm_file(&usable).map_err(|error| error.to_string())? {
            variables.extend(logins::npm_variable(&file, taken));
        }
        Ok(variables)
    }

    /// Writes the logins at registries to a file. Returns the path of the file, or `None` if there
    /// are no such logins.
    fn npm_file(&self, usable: &[SessionLogin<'_>]) -> io::Result<Option<PathBuf>> {
        let text = logins::npm_configuration(usable);
        let mut npm = self.npm.lock();
        if text.is_empty() {
            *npm = None;
        } else if npm.as_ref().is_none_or(|(_, written)| *written != text) {
            *npm = Some((write(&self.folder, NPM_CONFIGURATION, &text)?, text));
        }
        Ok(npm.as_ref().map(|(file, _)| file.path().to_owned()))
    }

    /// Removes the files, after the session has ended.
    pub(crate) fn close(&self) {
        *self.npm.lock() = None;
        // If it cannot be removed, a certificate without a key remains, which a later session
        // removes.
        let _left = fs::remove_file(self.bundle.path());
    }

    /// Returns the files that the programs read.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let npm = self.npm.lock();
        let npm = npm.as_ref().map(|(file, _)| file.path());
        npm.into_iter().chain([self.bundle.path()]).map(Path::to_owned).collect()
    }

    /// Returns true if a secret that may be sent to the host belongs to it.
    pub(crate) fn belong_to(&self, host: &Host) -> bool {
        self.any(host, |_| true)
    }

    /// Returns true if one of the host's secrets is a login at a forge.
    pub(crate) fn has_login_at(&self, host: &Host) -> bool {
        self.any(host, |entry| entry.login.is_some())
    }

    /// Returns true if one of the host's secrets may stand in a body.
    pub(crate) fn stand_in_bodies(&self, host: &Host) -> bool {
        self.any(host, |entry| entry.places.has(RequestPart::Body))
    }

    fn any(&self, host: &Host, suits: impl Fn(&Entry) -> bool) -> bool {
        let host = host.to_string();
        // If the vault can no longer be read, nothing is swapped, and programs that try get an
        // error.
        let Ok(contents) = self.vault.contents() else { return false };
        contents.iter().any(|(entry, _)| {
            entry.hosts.iter().any(|rule| rule.matches(&host))
                && self.policy.get().lists_secret(entry.name.as_str(), &host)
                && suits(entry)
        })
    }

    /// Returns the name of the secret that a placeholder of this session represents.
    pub(crate) fn name_of(&self, placeholder: &str) -> Option<String> {
        self.given.names().names.get(placeholder).cloned()
    }

    /// Returns the value of a secret that is to be sent to `host` now. Blocks while the use is
    /// recorded.
    ///
    /// # Errors
    /// Returns the reason why the secret may not be sent.
    pub(crate) fn value(
        &self,
        name: &str,
        host: &str,
        place: Position,
        now: Timestamp,
    ) -> Result<SecretBytes, String> {
        if !self.policy.get().lists_secret(name, host) {
            return Err(format!(
                "the secret {name} is not sent to {host}: `allowed_secrets` of profile `{}` does not \
                 list it for that host",
                self.policy.get().profile()
            ));
        }
        let position = match place {
            Position::Header => RequestPart::Header,
            Position::Query => RequestPart::Query,
            Position::Body => RequestPart::Body,
        };
        let value = self.vault.value_for(name, host, position, now);
        value.map_err(|error| format!("the secret {name} is not sent to {host}: {error}"))
    }
}

impl SessionPlaceholders {
    fn names(&self) -> MutexGuard<'_, Names> {
        self.0.lock()
    }
}

impl Names {
    fn placeholder(&mut self, name: &str) -> io::Result<String> {
        if let Some(placeholder) = self.placeholders.get(name) {
            return Ok(placeholder.clone());
        }
        let placeholder = egress::placeholder()?;
        self.placeholders.insert(name.to_owned(), placeholder.clone());
        self.names.insert(placeholder.clone(), name.to_owned());
        Ok(placeholder)
    }
}

fn is_handed_out(policy: &Policy, entry: &Entry, now: Timestamp) -> bool {
    let lives = entry.expires_at.is_none_or(|end| end > now);
    lives && !entry.hosts.is_empty() && policy.names_secret(entry.name.as_str())
}

/// Returns the name of the variable for a secret: its own name, with characters replaced that no
/// variable may have.
fn variable(name: &str) -> String {
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '_' };
    let name: String = name.chars().map(plain).collect();
    if name.starts_with(|first: char| first.is_ascii_digit()) { format!("_{name}") } else { name }
}

/// Returns true if programs use such a variable for another purpose than a secret.
fn is_of_the_system(variable: &str) -> bool {
    const NAMES: [&str; 12] = [
        "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TERM", "TMPDIR", "PWD", "IFS", "ENV", "BASH_ENV",
    ];
    variable.starts_with("LD_") || variable.starts_with("LC_") || NAMES.contains(&variable)
}

/// Suffix of the files with certificates.
const BUNDLE: &str = ".crt";
/// Suffix of the files with logins at registries.
const NPM_CONFIGURATION: &str = ".npmrc";

/// Writes a file that every user of a cell can read. The folder is closed to other users.
fn write(folder: &Path, suffix: &str, text: &str) -> io::Result<NamedTempFile> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let mut file = tempfile::Builder::new()
        .suffix(suffix)
        .permissions(Permissions::from_mode(0o644))
        .tempfile_in(folder)?;
    file.as_file().lock()?;
    file.write_all(text.as_bytes())?;
    Ok(file)
}

/// Minimum age of a file whose process has certainly had the time to lock it.
const LOCKED_WITHIN: SignedDuration = SignedDuration::from_secs(60);

/// Removes the files of killed programs, which nobody has locked. A file that cannot be opened
/// stays.
fn remove_those_left_over(folder: &Path, now: Timestamp) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(file) = File::open(entry.path()) else { continue };
        let modified = file.metadata().and_then(|metadata| metadata.modified()).ok();
        let modified = modified.and_then(|time| Timestamp::try_from(time).ok());
        let is_old = modified.is_some_and(|modified| now.duration_since(modified) > LOCKED_WITHIN);
        if is_old && file.try_lock().is_ok() {
            let _left = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets_become_variables_and_none_that_means_something_else() {
        for (name, expected) in [("api_key", "api_key"), ("github.com", "github_com"), ("1-a", "_1_a")] {
            assert_eq!(variable(name), expected);
        }
        for (name, system) in [("LD_PRELOAD", true), ("PATH", true), ("api_key", false), ("PATH_KEY", false)]
        {
            assert_eq!(is_of_the_system(name), system, "{name}");
        }
    }

    #[test]
    fn what_a_killed_program_left_is_removed_and_what_is_in_use_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let used = write(folder.path(), BUNDLE, "used").unwrap();
        fs::write(folder.path().join("left.crt"), "left").unwrap();
        let modified = used.as_file().metadata().unwrap().modified().unwrap();
        let now = Timestamp::try_from(modified).unwrap();
        let count = || fs::read_dir(folder.path()).unwrap().count();
        remove_those_left_over(folder.path(), now);
        assert_eq!(count(), 2, "it may be about to be locked");
        remove_those_left_over(folder.path(), now + SignedDuration::from_secs(120));
        assert_eq!(count(), 1);
        assert!(used.path().exists());
        drop(used);
        assert_eq!(count(), 0);
    }
}
