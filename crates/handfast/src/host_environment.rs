//! Environment of the process: variables, home folder, toolchains.
//!
//! No other module reads the environment.

#![allow(clippy::disallowed_methods, reason = "this module is where the environment is read")]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use vault::{Keys, SecretBytes};

use crate::toolchains::table;
use crate::traces::{VARIABLES, Variables};

/// The values found.
#[derive(Debug, Clone)]
pub(crate) struct HostEnvironment {
    /// Home folder of the user, without links.
    pub(crate) home: Option<PathBuf>,
    /// Default state folder.
    pub(crate) state: Option<PathBuf>,
    /// Folder of the user's own configuration.
    pub(crate) configuration: Option<PathBuf>,
    /// Current directory.
    pub(crate) directory: Option<PathBuf>,
    /// Current directory as the user's shell names it, possibly through links.
    pub(crate) named_directory: Option<PathBuf>,
    /// Name and id of the user that this process runs as.
    pub(crate) user: String,
    /// Id of the user who called sudo, if sudo was used.
    pub(crate) called_by: Option<u32>,
    /// Existing entries of `PATH`.
    pub(crate) search_path: Vec<PathBuf>,
    /// Terminal type and language, for the cell.
    pub(crate) passed_on: BTreeMap<OsString, OsString>,
    /// Environment variables that look like credentials: never passed on, and covered wherever they
    /// appear.
    pub(crate) credentials: Vec<(String, String)>,
    /// Variables about traces.
    pub(crate) traces: Variables,
    /// Folders that variables of toolchains name, by variable.
    pub(crate) folders: BTreeMap<&'static str, PathBuf>,
    /// Folders of agent clients' configurations, by the client's own variable.
    pub(crate) client_folders: BTreeMap<&'static str, PathBuf>,
}

/// Variables that a command in the cell may see unchanged.
const PASSED_ON: [&str; 8] =
    ["LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LC_MESSAGES", "TERM", "TZ", "NO_COLOR"];

impl HostEnvironment {
    /// Reads the host environment of this process.
    pub(crate) fn of_this_process() -> Self {
        let directory_from =
            |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let home = std::env::home_dir()
            .filter(|home| home.is_absolute())
            .map(|home| home.canonicalize().unwrap_or(home));
        let below_home = |name: &str| home.as_ref().map(|home| home.join(name));
        let traces = Variables(
            VARIABLES.into_iter().filter_map(|name| Some((name, std::env::var(name).ok()?))).collect(),
        );
        Self {
            state: directory_from("XDG_STATE_HOME")
                .or_else(|| below_home(".local/state"))
                .map(|base| base.join("handfast")),
            configuration: directory_from("XDG_CONFIG_HOME")
                .or_else(|| below_home(".config"))
                .map(|base| base.join("handfast")),
            directory: std::env::current_dir().ok(),
            named_directory: directory_from("PWD"),
            user: user(),
            called_by: std::env::var("SUDO_UID").ok().and_then(|id| id.parse().ok()),
            search_path: search_path(),
            passed_on: PASSED_ON
                .into_iter()
                .filter_map(|name| Some((OsString::from(name), std::env::var_os(name)?)))
                .collect(),
            credentials: std::env::vars_os()
                .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
                .filter(|(name, value)| is_credential(name, value))
                .chain(traces.secrets())
                .collect(),
            traces,
            folders: table::variables()
                .filter_map(|name| {
                    // In a list of folders, as in Go's variable, the first folder is the one to
                    // install to.
                    let first = std::env::split_paths(&std::env::var_os(name)?).next()?;
                    Some((name, first.canonicalize().ok().filter(|_| first.is_absolute())?))
                })
                .collect(),
            client_folders: ["CODEX_HOME", "CLAUDE_CONFIG_DIR"]
                .into_iter()
                .filter_map(|name| Some((name, directory_from(name)?)))
                .collect(),
            home,
        }
    }
}

/// Returns the vault keys of the host environment: a key file, a passphrase, the kernel's key ring. If
/// the environment provides neither of the first two, the configured key file is used.
pub(crate) fn vault_keys(configured: Option<PathBuf>) -> Keys {
    let given = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let passphrase = given("HANDFAST_VAULT_PASSPHRASE");
    let named = given("HANDFAST_VAULT_KEY_FILE").map(PathBuf::from);
    Keys {
        key_file: named.or(configured.filter(|_| passphrase.is_none())),
        passphrase: passphrase.map(|text| SecretBytes::copy_of(text.as_encoded_bytes())),
        key_ring: true,
    }
}

/// Returns the arguments as they were typed, for a command line that cannot be parsed.
pub(crate) fn typed() -> Vec<String> {
    std::env::args_os().skip(1).map(|typed| typed.to_string_lossy().into_owned()).collect()
}

/// Returns the value of a variable that the user permits to be sent.
pub(crate) fn variable(name: &str) -> Option<SecretBytes> {
    std::env::var_os(name).map(|value| SecretBytes::copy_of(value.as_encoded_bytes()))
}

/// Returns the user that this process runs as, as known to the system.
fn user() -> String {
    let id = rustix::process::getuid().as_raw();
    // Users of a directory service are identified by their number only.
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let named = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(id)).then(|| name.to_owned())
    });
    named.map_or_else(|| format!("uid {id}"), |name| format!("{name} (uid {id})"))
}

fn search_path() -> Vec<PathBuf> {
    let listed = std::env::var_os("PATH").unwrap_or_default();
    let mut entries: Vec<PathBuf> = Vec::new();
    for entry in std::env::split_paths(&listed) {
        if entry.is_absolute() && entry.is_dir() && !entries.contains(&entry) {
            entries.push(entry);
        }
    }
    entries
}

fn is_credential(name: &str, value: &str) -> bool {
    // A path to a credential is no credential, and covering it would only confuse.
    tool::is_credential_name(name) && !Path::new(value).is_absolute()
}

#[cfg(test)]
mod tests {
    use super::is_credential;

    #[test]
    fn credentials_are_told_by_their_names() {
        assert!(is_credential("GITHUB_TOKEN", "ghp_x"));
        assert!(is_credential("GITHUB_PAT", "ghp_x") && is_credential("DB_PASS", "x"));
        assert!(!is_credential("GOOGLE_APPLICATION_CREDENTIALS", "/home/someone/key.json"));
        assert!(!is_credential("EDITOR", "vi"));
    }
}
