//! Environment of the process: variables, home folder, toolchains.
//!
//! No other module reads the environment.

#![allow(clippy::disallowed_methods, reason = "this module is where the environment is read")]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use vault::{HostRule, Keys, SecretBytes};

use crate::failure::Failure;
use crate::toolchains::of_path::FoundPrograms;
use crate::toolchains::table;
use crate::traces::{VARIABLES, Variables};
use watch::LocalPaths;

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
    /// Homes of the other users who log in to this machine.
    pub(crate) other_homes: Vec<PathBuf>,
    /// Entries of `PATH` as they stand.
    pub(crate) search_path: Vec<PathBuf>,
    /// Variables that may tell programs where an installation lies, with their folders.
    pub(crate) installations: BTreeMap<OsString, PathBuf>,
    /// Terminal type and language, for the cell.
    pub(crate) passed_on: BTreeMap<OsString, OsString>,
    /// Environment variables that look like credentials: never passed on, and covered wherever they
    /// appear.
    pub(crate) credentials: Vec<(String, String)>,
    /// Variables about traces.
    pub(crate) traces: Variables,
    /// Folders that variables of toolchains name, by variable.
    pub(crate) folders: BTreeMap<&'static str, PathBuf>,
    /// Programs to which `PATH` leads, once they were looked for.
    pub(crate) found: OnceLock<Arc<FoundPrograms>>,
    /// Folders of agent clients' configurations, by the client's own variable.
    pub(crate) client_folders: BTreeMap<&'static str, PathBuf>,
}

/// Variables that a command in the cell may see unchanged.
const PASSED_ON: [&str; 8] =
    ["LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LC_MESSAGES", "TERM", "TZ", "NO_COLOR"];

impl HostEnvironment {
    /// Replaces the home of the user, and with it the folders that this process was given.
    pub(crate) fn move_home(&mut self, home: PathBuf) {
        self.other_homes.extend(self.home.replace(home));
        (self.folders, self.installations) = (BTreeMap::new(), BTreeMap::new());
        self.search_path.clear();
    }

    /// Returns the path that a key of the user's configuration names: absolute, or below the home.
    pub(crate) fn named_path(&self, key: &str, named: &Path) -> Result<PathBuf, Failure> {
        let below_home = named.strip_prefix("~").ok().and_then(|rest| Some(self.home.as_ref()?.join(rest)));
        Some(named.to_owned()).filter(|path| path.is_absolute()).or(below_home).ok_or_else(|| {
            let named = named.display();
            Failure::usage(format!("`{key}`: {named} must be an absolute path, or begin with ~/"))
        })
    }

    /// Reads the host environment of this process.
    pub(crate) fn of_this_process() -> Self {
        let directory_from =
            |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let home = std::env::home_dir()
            .filter(|home| home.is_absolute())
            .map(|home| home.canonicalize().unwrap_or(home));
        let below_home = |name: &str| home.as_ref().map(|home| home.join(name));
        let paths = LocalPaths::of_this_process(home.as_deref());
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
            other_homes: other_homes(),
            search_path: std::env::var_os("PATH").iter().flat_map(std::env::split_paths).collect(),
            installations: std::env::vars_os().filter_map(installation).collect(),
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
                    let first = Some(first).filter(|first| first.is_absolute())?;
                    Some((name, paths.resolve(&first).ok()?.real))
                })
                .collect(),
            found: OnceLock::new(),
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

/// Returns the homes of the users who have a shell, as the system lists them.
fn other_homes() -> Vec<PathBuf> {
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let home = |line: &str| {
        let mut fields = line.split(':').skip(5);
        let (home, shell) = (PathBuf::from(fields.next()?), fields.next()?);
        let logs_in = !["nologin", "false", "sync"].iter().any(|name| shell.ends_with(name));
        (logs_in && home.is_absolute() && home.parent().is_some()).then_some(home)
    };
    users.lines().filter_map(home).collect()
}

/// Returns the variable if its name and value are those of a folder in which programs are installed.
fn installation((name, value): (OsString, OsString)) -> Option<(OsString, PathBuf)> {
    const ENDINGS: [&str; 7] = ["_DIR", "_HOME", "_PREFIX", "_ROOT", "_SDK", "GOROOT", "VIRTUAL_ENV"];
    // These tell a program where to write, or each cell has its own.
    const NOT_INSTALLED: [&str; 4] = ["CONFIG", "DATA", "GIT_", "XDG_"];
    let text = name.to_str()?;
    let is_name = text.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
        && ENDINGS.iter().any(|ending| text.ends_with(ending))
        && !NOT_INSTALLED.iter().any(|part| text.contains(part))
        && !tool::is_credential_name(text);
    let folder = PathBuf::from(value);
    (is_name && folder.is_absolute()).then_some((name, folder))
}

fn is_credential(name: &str, value: &str) -> bool {
    // A path to a credential is no credential, and covering it would only confuse.
    tool::is_credential_name(name) && !Path::new(value).is_absolute()
}

/// Parses the hosts of each variable that may be sent.
pub(crate) fn hosts_of(
    named: Option<BTreeMap<String, Vec<String>>>,
) -> Result<BTreeMap<String, Vec<HostRule>>, Failure> {
    let rules = |(name, hosts): (String, Vec<String>)| {
        let rules = HostRule::parse_all(hosts.iter().map(String::as_str));
        let rules =
            rules.map_err(|error| Failure::usage(format!("`environment_secrets.{name}`: {error}")))?;
        Ok((name, rules))
    };
    named.unwrap_or_default().into_iter().map(rules).collect()
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::{installation, is_credential};

    #[test]
    fn credentials_are_told_by_their_names() {
        assert!(is_credential("GITHUB_TOKEN", "ghp_x"));
        assert!(is_credential("GITHUB_PAT", "ghp_x") && is_credential("DB_PASS", "x"));
        assert!(!is_credential("GOOGLE_APPLICATION_CREDENTIALS", "/home/someone/key.json"));
        assert!(!is_credential("EDITOR", "vi"));
    }

    #[test]
    fn the_variables_of_installations_are_told_by_name_and_value() {
        let is_told =
            |name: &str, value: &str| installation((OsString::from(name), OsString::from(value))).is_some();
        for name in ["JAVA_HOME", "GOROOT", "ANDROID_SDK_ROOT", "M2_HOME", "VIRTUAL_ENV", "CONDA_PREFIX"] {
            assert!(is_told(name, "/home/me/x"), "{name}");
        }
        for (name, value) in [
            ("JAVA_HOME", "jdk"),
            ("HOME", "/home/me"),
            ("XDG_DATA_HOME", "/home/me/x"),
            ("NPM_CONFIG_PREFIX", "/home/me/x"),
            ("GIT_DIR", "/home/me/x"),
            ("API_TOKEN_DIR", "/home/me/x"),
            ("LD_LIBRARY_PATH", "/home/me/x"),
            ("java_home", "/home/me/x"),
        ] {
            assert!(!is_told(name, value), "{name}");
        }
    }
}
