//! The configuration files: where they lie, what keys they may have, and whether one is trusted.

mod lines;
mod profiles;
mod wording;

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use dialects::{CatalogueKind, Dialect};
use policy::{Mode, Profiles};
use serde::Deserialize;

use crate::identity::OAuth;
use crate::traces::Collector;
use lines::FileLines;

/// The name of the workspace's own configuration.
pub(crate) const WORKSPACE_FILE: &str = "handfast.yaml";
/// The name of the user's configuration in its folder.
pub(crate) const USER_FILE: &str = "config.yaml";
/// Where the administrator's configuration lies.
pub(crate) const MANAGED_FOLDER: &str = "/etc/handfast";
/// The administrator's configuration of this machine. It beats every other.
pub(crate) const MANAGED_FILE: &str = "/etc/handfast/config.yaml";
/// A larger file is refused: nobody writes such a configuration by hand.
const LARGEST_FILE: u64 = 1024 * 1024;

/// The keys of a configuration file, the same in all of them.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The profiles, by name.
    #[serde(deserialize_with = "profiles::read")]
    pub sandbox_config: Profiles,
    /// The profile that decides.
    pub profile: Option<String>,
    /// Profiles that are bound to a label of the model's provider, by the label.
    pub labels: Option<BTreeMap<String, String>>,
    /// When to ask a human.
    pub mode: Option<Mode>,
    /// The tool names and shapes to speak.
    pub dialect: Option<Dialect>,
    /// Which tools are listed.
    pub catalogue: Option<CatalogueKind>,
    /// Databases beside the usual one: their files, relative to the workspace, by the names that calls know them by.
    pub databases: Option<BTreeMap<String, PathBuf>>,
    /// Which questions may be put to the user of an MCP client. A workspace's file may not say so.
    pub elicitation: Option<Elicitation>,
    /// Whose tokens are good for `up` beside its own. A workspace's file may not say so.
    pub oauth: Option<OAuth>,
    /// Where traces of calls go. A workspace's file may not say so.
    pub traces: Option<Collector>,
    /// Which variables of the environment `$NAME` may mean in the dialect `sluagh`, each with the hosts that it may be sent to. A
    /// workspace's file may not say so.
    pub environment_secrets: Option<BTreeMap<String, Vec<String>>>,
    /// Where Linear is. A workspace's file may not say so.
    pub linear: Option<LinearPlace>,
    /// Where Gmail is. A workspace's file may not say so.
    pub gmail: Option<GmailPlace>,
    /// What opens the vault. A workspace's file may not say so.
    pub vault: Option<VaultPlace>,
    /// What makes vectors of texts in place of the model on this machine. A workspace's file may not say so.
    pub embeddings: Option<EmbeddingsPlace>,
}

/// Where Linear is, where that is not its usual place.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinearPlace {
    /// The URL of its API, such as that of a proxy before it; https, or http on this machine.
    pub endpoint: String,
}

/// Where Gmail is and where its logins are given out, where that is not Google's usual place. Each is a URL: https, or http on this
/// machine.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GmailPlace {
    /// Of its API, such as that of a proxy before it.
    pub endpoint: Option<String>,
    /// Where a person logs in.
    pub authorization: Option<String>,
    /// Where tokens are given out.
    pub token: Option<String>,
    /// Where they are taken back.
    pub revocation: Option<String>,
}

/// What opens the vault, where the environment does not say so.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VaultPlace {
    /// A key file, as `handfast vault make-key` makes it: an absolute path, or one that begins with `~/`.
    pub key_file: PathBuf,
}

/// A server that makes vectors of texts. Every text of the knowledge and of the memory, and every question, is sent there.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EmbeddingsPlace {
    /// Where it takes texts, as in `https://api.example.com/v1/embeddings`.
    pub endpoint: String,
    /// The model's name there.
    pub model: String,
    /// The numbers of a vector, where the server is to be asked for so many.
    pub dimensions: Option<usize>,
    /// The name of its key in the vault, where it needs one.
    pub key: Option<String>,
}

/// Which questions may be put to the user of an MCP client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Elicitation {
    /// None.
    Off,
    /// Those that a yes for the call or the session answers. This is built in.
    Ordinary,
    /// All, with every reach that a yes may have: the client shows its forms to a person and to nobody else.
    Trusted,
}

/// One configuration file as it was read.
#[derive(Debug, Clone)]
pub struct ConfigFile {
    /// Where it lies.
    pub path: PathBuf,
    /// The hash of exactly the bytes that were parsed: what trust is bound to.
    pub hash: store::Hash,
    /// What it says.
    pub settings: Settings,
    /// Where it says so.
    pub(crate) lines: FileLines,
    /// Whether somebody other than root could have written it.
    pub(crate) belongs_to_root: bool,
}

/// What is wrong with the configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// cannot read the configuration {}
    #[error("cannot read the configuration {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        cause: io::Error,
    },
    /// the configuration {} is larger than 1 MiB
    #[error("the configuration {} is larger than 1 MiB", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// others than root can write it
    #[error(
        "the administrator's configuration {} has to be root's, and so has its folder, with no right to write for others: \
         as root, `chown root:root` and `chmod go-w` them, or remove them",
        path.display()
    )]
    NotRoots {
        /// The file.
        path: PathBuf,
    },
    /// {}: {problem}
    #[error("{}{position}: {problem}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Where what was read really lies, where the system says so.
        real: Option<PathBuf>,
        /// `:line:column`, where it is known.
        position: String,
        /// What is wrong, naming the key.
        problem: String,
    },
}

impl ConfigError {
    /// The same error, without a word of a file that is named in the workspace and lies elsewhere: whoever can write a link into
    /// the workspace must not have other files read out to them.
    #[must_use]
    pub(crate) fn without_what_lies_outside(self, workspace: &Path) -> Self {
        match self {
            Self::Syntax { path, real, position, .. }
                if path.starts_with(workspace)
                    && !real.as_ref().is_some_and(|real| real.starts_with(workspace)) =>
            {
                let problem = "this is no configuration, and as it is a link out of the workspace, nothing of it is shown";
                Self::Syntax { path, real, position, problem: problem.to_owned() }
            }
            other => other,
        }
    }
}

impl ConfigFile {
    /// Reads a file; none where it does not exist.
    ///
    /// # Errors
    /// An unreadable file, broken YAML, an unknown key or a wrong value, each with file, line and key.
    pub(crate) fn read(path: &Path) -> Result<Option<Self>, ConfigError> {
        let read = |cause| ConfigError::Read { path: path.to_owned(), cause };
        // Without waiting: a FIFO of this name must not hang the start.
        let opened = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path);
        let file = match opened {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(read(error)),
        };
        let metadata = file.metadata().map_err(read)?;
        if !metadata.is_file() {
            return Err(read(io::Error::other("it is not a regular file")));
        }
        // Of what was opened, so that no link can be swapped between the reading and the asking.
        let real = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok();
        let mut text = String::new();
        file.take(LARGEST_FILE + 1).read_to_string(&mut text).map_err(read)?;
        if text.len() as u64 > LARGEST_FILE {
            return Err(ConfigError::TooLarge { path: path.to_owned() });
        }
        let settings = parse(&text).map_err(|(position, problem)| ConfigError::Syntax {
            path: path.to_owned(),
            real,
            position,
            problem,
        })?;
        Ok(Some(Self {
            path: path.to_owned(),
            hash: store::Hash::of(text.as_bytes()),
            settings,
            lines: FileLines::of(&text),
            belongs_to_root: belongs_to_root(&metadata),
        }))
    }
}

/// Whether nobody but root can have written what has these properties.
fn belongs_to_root(metadata: &std::fs::Metadata) -> bool {
    metadata.uid() == 0 && metadata.mode() & 0o022 == 0
}

/// The administrator's configuration; none where there is none.
///
/// # Errors
/// Those of [`ConfigFile::read`], and [`ConfigError::NotRoots`] where it is not certain that the administrator wrote it: it is
/// not left out, because then whoever changes its owner would be rid of it.
pub(crate) fn managed() -> Result<Option<ConfigFile>, ConfigError> {
    let Some(file) = ConfigFile::read(Path::new(MANAGED_FILE))? else { return Ok(None) };
    let folder = std::fs::metadata(MANAGED_FOLDER)
        .map_err(|cause| ConfigError::Read { path: MANAGED_FOLDER.into(), cause })?;
    if file.belongs_to_root && belongs_to_root(&folder) {
        return Ok(Some(file));
    }
    Err(ConfigError::NotRoots { path: file.path })
}

/// The profiles that a text defines.
///
/// # Errors
/// What is wrong with the text, with its place in it.
pub(crate) fn parse_profiles(text: &str) -> Result<Profiles, String> {
    let settings = parse(text).map_err(|(position, problem)| format!("{position} {problem}"))?;
    Ok(settings.sandbox_config)
}

fn parse(text: &str) -> Result<Settings, (String, String)> {
    serde_saphyr::from_str(text).map_err(|error| {
        let position =
            error.location().map(|at| format!(":{}:{}", at.line(), at.column())).unwrap_or_default();
        (position, wording::in_plain_words(&error))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str) -> String {
        let (position, problem) = parse(text).unwrap_err();
        format!("{position} {problem}")
    }

    #[test]
    fn an_unknown_key_is_named_with_its_line() {
        let shown = problem("mode: smart_auto\nsandbox_config:\n  normal:\n    allow_read: [x]\n");
        assert!(shown.starts_with(":4:5 there is no key `allow_read`"), "{shown}");
        let shown = problem("modus: smart_auto\n");
        assert!(shown.starts_with(":1:1 there is no key `modus`"), "{shown}");
    }

    #[test]
    fn a_wrong_value_and_broken_yaml_are_named_with_their_line() {
        assert!(problem("mode: sometimes\n").starts_with(":1:7 `sometimes` is not known"));
        assert!(problem("mode: [\n").starts_with(':'));
        assert!(problem("mode: smart_auto\nmode: full_auto\n").starts_with(":2:1 the key `mode`"));
    }

    #[test]
    fn what_is_missing_is_named_in_plain_words() {
        for (text, expected) in [
            ("sandbox_config:\n  normal:\n", "keys with values are expected here"),
            ("sandbox_config: x\n", "keys with values are expected here"),
            ("sandbox_config:\n  normal:\n    deny_read_paths: x\n", "a list is expected here"),
        ] {
            let shown = problem(text);
            assert!(shown.contains(expected), "{text}: {shown}");
        }
    }

    #[test]
    fn the_example_of_the_msc_source_is_valid_as_it_stands() {
        let settings = parse(
            r#"
sandbox_config:
  # 标准策略
  normal:
    allowed_read_paths:
      - "./src"
      - "./tests"
    allowed_write_paths:
      - "./src"
    deny_read_paths:
      - ".env"
      - "**/*.key"
    deny_write_paths:
      - "pyproject.toml"
    allowed_exec_command:
      - "pnpm"
      - "uv sync"
    deny_exec_command:
      - "git rm"
      - "rm -rf *"
  green_tea:
    inherit: "normal"
    allowed_read_paths:
      - "$HOME/.msc"
    deny_read_paths: []
    allowed_exec_command:
      - "git"
"#,
        )
        .unwrap();
        assert_eq!(settings.sandbox_config["green_tea"].inherit.as_deref(), Some("normal"));
        assert_eq!(settings.sandbox_config["green_tea"].deny_read_paths, Some(vec![]));
    }

    #[test]
    fn allowed_paths_are_both_lists_of_their_profile_or_of_normal() {
        let paths = |text: &str, profile: &str| {
            let profile = parse(text).unwrap().sandbox_config.remove(profile).unwrap();
            let rules = |list: Option<Vec<policy::ListEntry>>| {
                list.into_iter().flatten().map(|entry| entry.rule).collect::<Vec<_>>()
            };
            assert_eq!(profile.allowed_paths, None);
            (rules(profile.allowed_read_paths), rules(profile.allowed_write_paths))
        };
        let both = |list: &[&str]| {
            let list: Vec<String> = list.iter().map(|path| (*path).to_owned()).collect();
            (list.clone(), list)
        };
        assert_eq!(
            paths("sandbox_config:\n  allowed_paths: [./src, ./doc]\n", "normal"),
            both(&["./src", "./doc"])
        );
        let text = "sandbox_config:\n  other:\n    allowed_paths: [./a]\n    allowed_read_paths: [./b]\n  allowed_paths: [./c]\n";
        assert_eq!(paths(text, "other"), (vec!["./b".to_owned(), "./a".to_owned()], vec!["./a".to_owned()]));
        assert_eq!(paths(text, "normal"), both(&["./c"]));
        assert!(problem("sandbox_config:\n  allowed_paths: x\n").contains("a list is expected here"));
    }

    #[test]
    fn an_empty_file_says_nothing_and_a_missing_one_is_none() {
        assert!(parse("").unwrap().profile.is_none());
        assert!(parse("# only a comment\n").unwrap().mode.is_none());
        assert!(ConfigFile::read(Path::new("/nonexistent/handfast.yaml")).unwrap().is_none());
    }
}
