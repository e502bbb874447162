//! The configuration files: their locations, their permitted keys, and their trust.

mod lines;
mod profiles;
mod schema;
mod wording;

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use dialects::{CatalogueKind, Dialect};
use policy::{Mode, Profiles};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::identity::OAuth;
use crate::models::ModelsPlace;
use crate::notify::QuestionHandling;
use crate::own_projects::OwnProject;
use crate::traces::Collector;
use lines::FileLines;
#[cfg(feature = "cli")]
pub(crate) use schema::schema;

/// Name of the workspace's own configuration.
pub(crate) const WORKSPACE_FILE: &str = "handfast.yaml";
/// Name of the user's configuration within its folder.
pub(crate) const USER_FILE: &str = "config.yaml";
/// URL of the JSON Schema of these files, for editors.
pub(crate) const SCHEMA_URL: &str =
    concat!(env!("CARGO_PKG_REPOSITORY"), "/raw/main/docs/handfast.schema.json");
/// Folder of the administrator's configuration.
pub(crate) const MANAGED_FOLDER: &str = "/etc/handfast";
/// Path of the administrator's configuration of this machine, which overrides every other.
pub(crate) const MANAGED_FILE: &str = "/etc/handfast/config.yaml";
/// Maximum size of a file in bytes. No configuration written by hand is larger.
const LARGEST_FILE: u64 = 1024 * 1024;

/// The keys of a configuration file, the same in all of them.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Settings {
    /// Profiles by name.
    #[serde(deserialize_with = "profiles::read")]
    #[schemars(schema_with = "profiles::schema", extend("x-default" = "the built-in profile `normal`", "examples" = [{"normal": {"allowed_exec_command": ["cargo test"]}}]))]
    pub(crate) sandbox_config: Profiles,
    /// Name of the profile that the policy uses.
    #[schemars(extend("x-default" = "`normal`", "examples" = ["normal"]))]
    pub(crate) profile: Option<String>,
    /// Names of profiles that are bound to a label of the model's provider, by label.
    #[schemars(extend("x-default" = "none", "examples" = [{"provider-a": "careful"}]))]
    pub(crate) labels: Option<BTreeMap<String, String>>,
    /// Mode that decides when to ask a human.
    #[schemars(extend("x-default" = "`smart_auto`", "examples" = ["smart_auto"]))]
    pub(crate) mode: Option<Mode>,
    /// Tool names and schemas to use.
    #[schemars(extend("x-default" = "`handfast`", "examples" = ["msc"]))]
    pub(crate) dialect: Option<Dialect>,
    /// Selection of tools to list.
    #[schemars(extend("x-default" = "`core`", "examples" = ["full"]))]
    pub(crate) catalogue: Option<CatalogueKind>,
    /// Further databases besides the usual one: files relative to the workspace, by the names that
    /// calls use.
    #[schemars(extend("x-default" = "none", "examples" = [{"sales": "data/sales.db"}]))]
    pub(crate) databases: Option<BTreeMap<String, PathBuf>>,
    /// Questions that may be put to the user of an MCP client. Ignored in a workspace's file.
    #[schemars(extend("x-default" = "`ordinary`", "examples" = ["off"]))]
    pub(crate) elicitation: Option<Elicitation>,
    /// Handling of questions to a human. Ignored in a workspace's file.
    #[schemars(extend("x-default" = "none", "examples" = [{"notify": "notify-send Handfast 'a question waits'"}]))]
    pub(crate) approvals: Option<QuestionHandling>,
    /// Identity provider whose tokens `up` accepts besides its own. Ignored in a workspace's file.
    #[schemars(extend("x-default" = "none", "examples" = [{"issuer": "https://id.example.com", "resource": "https://tools.example.com/mcp", "keys": "/etc/handfast/keys.json"}]))]
    pub(crate) oauth: Option<OAuth>,
    /// Collector for the traces of calls. Ignored in a workspace's file.
    #[schemars(extend("x-default" = "none", "examples" = [{"endpoint": "http://127.0.0.1:4318"}]))]
    pub(crate) traces: Option<Collector>,
    /// Environment variables that `$NAME` may refer to in the dialect `sluagh`, each with the hosts
    /// that may receive it. Ignored in a workspace's file.
    #[schemars(extend("x-default" = "none", "examples" = [{"LINEAR_API_KEY": ["api.linear.app"]}]))]
    pub(crate) environment_secrets: Option<BTreeMap<String, Vec<String>>>,
    /// Location of Linear. Ignored in a workspace's file.
    #[schemars(extend("x-default" = "the usual one", "examples" = [{"endpoint": "https://proxy.example.com/graphql"}]))]
    pub(crate) linear: Option<LinearPlace>,
    /// Location of Gmail. Ignored in a workspace's file.
    #[schemars(extend("x-default" = "the usual ones", "examples" = [{"endpoint": "https://proxy.example.com"}]))]
    pub(crate) gmail: Option<GmailPlace>,
    /// Ids of OAuth clients with which `handfast login --from device` asks for tokens, by host.
    /// Ignored in a workspace's file.
    #[schemars(extend("x-default" = "none", "examples" = [{"github.com": "Iv1.0123456789abcdef"}]))]
    pub(crate) login_clients: Option<BTreeMap<String, String>>,
    /// Key of the vault. Ignored in a workspace's file.
    #[schemars(extend("x-default" = "the environment's", "examples" = [{"key_file": "~/.config/handfast-vault/key"}]))]
    pub(crate) vault: Option<VaultPlace>,
    /// Server that makes vectors of texts in place of the model on this machine. Ignored in a
    /// workspace's file.
    #[schemars(extend("x-default" = "the model on this machine, if it is set up", "examples" = [{"endpoint": "https://api.example.com/v1/embeddings", "model": "small"}]))]
    pub(crate) embeddings: Option<EmbeddingsPlace>,
    /// Models of language for `llm_call`. Ignored in a workspace's file.
    #[schemars(extend("x-default" = "none", "examples" = [{"providers": {"local": {"api": "ollama"}}, "routes": {"usual": ["local/small"]}}]))]
    pub(crate) models: Option<ModelsPlace>,
    /// Other MCP servers, in the shape of `mcpServers` in `.mcp.json`. A server may also have `level`,
    /// `trust_annotations`, `shared`, `workspace` (`read`, `write` or `none`), `shows`, `sampling`
    /// and `elicitation`.
    #[schemars(schema_with = "servers_schema", extend("x-default" = "none", "examples" = [{"git": {"command": "mcp-server-git", "level": "safe"}}]))]
    pub(crate) mcp_servers: Option<serde_json::Map<String, serde_json::Value>>,
    /// Folders of programs that commands see, read-only and without keys, in addition to those that
    /// `PATH` leads to: each absolute, or beginning with `~/`. Ignored in a workspace's file.
    #[schemars(extend("x-default" = "what `PATH` leads to", "examples" = [["~/tools/flutter"]]))]
    pub(crate) toolchains: Option<Vec<PathBuf>>,
    /// Projects for self-development, by name. Ignored in a workspace's file that is not trusted.
    #[serde(rename = "self")]
    #[schemars(extend("x-default" = "none", "examples" = [{"app": {"folder": ".", "tests": {"all": ["cargo", "test"]}}}]))]
    pub(crate) own_projects: Option<BTreeMap<String, OwnProject>>,
}

/// A location of Linear that differs from the usual one.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LinearPlace {
    /// URL of the API, for example of a proxy in front of it: https, or http on this machine.
    #[schemars(extend("examples" = ["https://proxy.example.com/graphql"]))]
    pub(crate) endpoint: String,
}

/// Locations of Gmail and its login servers that differ from Google's usual ones. Each is a URL:
/// https, or http on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GmailPlace {
    /// URL of the API, for example of a proxy in front of it.
    #[schemars(extend("x-default" = "Google's", "examples" = ["https://proxy.example.com"]))]
    pub(crate) endpoint: Option<String>,
    /// URL at which a person logs in.
    #[schemars(extend("x-default" = "Google's", "examples" = ["https://login.example.com/auth"]))]
    pub(crate) authorization: Option<String>,
    /// URL that issues tokens.
    #[schemars(extend("x-default" = "Google's", "examples" = ["https://login.example.com/token"]))]
    pub(crate) token: Option<String>,
    /// URL that revokes tokens.
    #[schemars(extend("x-default" = "Google's", "examples" = ["https://login.example.com/revoke"]))]
    pub(crate) revocation: Option<String>,
}

/// The key of the vault, used if the environment provides none.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct VaultPlace {
    /// Path of a key file as `handfast vault make-key` creates it: absolute, or beginning with `~/`.
    #[schemars(extend("examples" = ["~/.config/handfast-vault/key"]))]
    pub(crate) key_file: PathBuf,
}

/// A server that makes vectors of texts, and therefore receives every text of the knowledge and of
/// the memory, and every question.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EmbeddingsPlace {
    /// URL that accepts texts, for example `https://api.example.com/v1/embeddings`.
    #[schemars(extend("examples" = ["https://api.example.com/v1/embeddings"]))]
    pub(crate) endpoint: String,
    /// Name of the model on the server.
    #[schemars(extend("examples" = ["small"]))]
    pub(crate) model: String,
    /// Number of dimensions to request from the server, or `None` for the server's default.
    #[schemars(extend("x-default" = "the server's", "examples" = [512]))]
    pub(crate) dimensions: Option<usize>,
    /// Name of the server's key in the vault, if it needs one.
    #[schemars(extend("x-default" = "none", "examples" = ["embeddings_key"]))]
    pub(crate) key: Option<String>,
}

/// The questions that may be put to the user of an MCP client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Elicitation {
    /// Asks no questions.
    Off,
    /// Questions that an approval for the call or the session answers. The built-in value.
    Ordinary,
    /// All questions, with every scope of an approval. Requires that the client shows its forms to
    /// a person and to nobody else.
    Trusted,
}

/// One configuration file as it was read.
#[derive(Debug, Clone)]
pub(crate) struct ConfigFile {
    /// Path of the file.
    pub(crate) path: PathBuf,
    /// Hash of exactly the bytes that were parsed, which trust refers to.
    pub(crate) hash: store_api::Hash,
    /// Settings in the file.
    pub(crate) settings: Settings,
    /// Line numbers of the settings.
    pub(crate) lines: FileLines,
    /// True if nobody other than root could have written the file.
    pub(crate) belongs_to_root: bool,
}

/// An error in the configuration.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    /// A configuration file that cannot be read.
    #[error("cannot read the configuration {}", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Cause of the error.
        #[source]
        cause: io::Error,
    },
    /// A configuration file larger than 1 MiB.
    #[error("the configuration {} is larger than 1 MiB", path.display())]
    TooLarge {
        /// Path of the file.
        path: PathBuf,
    },
    /// An administrator's configuration that users other than root can write.
    #[error(
        "the administrator's configuration {} and its folder must belong to root, and others must \
         not be able to write to them: as root, `chown root:root` and `chmod go-w` them, or remove \
         them",
        path.display()
    )]
    NotRoots {
        /// Path of the file.
        path: PathBuf,
    },
    /// A configuration file with invalid content.
    #[error("{}{position}: {problem}", path.display())]
    Syntax {
        /// Path of the file.
        path: PathBuf,
        /// Real path of the opened file, if the system reports it.
        real: Option<PathBuf>,
        /// Position as `:line:column`, or empty if unknown.
        position: String,
        /// Description of the problem, with the name of the key.
        problem: String,
    },
}

impl ConfigError {
    /// Removes the content of a file outside the workspace from the error, if the path is in the
    /// workspace. Anyone who can create a link in the workspace must not be able to read other
    /// files through error messages.
    #[must_use]
    pub(crate) fn without_what_lies_outside(self, workspace: &Path) -> Self {
        match self {
            Self::Syntax { path, real, position, .. }
                if path.starts_with(workspace)
                    && !real.as_ref().is_some_and(|real| real.starts_with(workspace)) =>
            {
                let problem = "this is not a configuration; because it is a link out of the \
                               workspace, nothing of it is shown";
                Self::Syntax { path, real, position, problem: problem.to_owned() }
            }
            other => other,
        }
    }
}

impl ConfigFile {
    /// Reads a file. Returns `None` if the file does not exist.
    ///
    /// # Errors
    /// An unreadable file, broken YAML, an unknown key or a wrong value, each with file, line and key.
    pub(crate) fn read(path: &Path) -> Result<Option<Self>, ConfigError> {
        let Some(OpenedFile { text, real, metadata }) = OpenedFile::read(path)? else { return Ok(None) };
        let settings = parse(&text).map_err(|(position, problem)| ConfigError::Syntax {
            path: path.to_owned(),
            real,
            position,
            problem,
        })?;
        Ok(Some(Self {
            path: path.to_owned(),
            hash: store_api::Hash::of(text.as_bytes()),
            settings,
            lines: FileLines::of(&text),
            belongs_to_root: belongs_to_root(&metadata),
        }))
    }
}

/// Returns the text of a file of the user; `None` if the file does not exist.
///
/// # Errors
/// An unreadable file, or one that is too large.
pub(crate) fn text(path: &Path) -> Result<Option<String>, ConfigError> {
    Ok(OpenedFile::read(path)?.map(|file| file.text))
}

/// Schema of the servers, whose shape other programs define.
fn servers_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"type": "object", "additionalProperties": {"type": "object"}})
}

/// A file that was read.
struct OpenedFile {
    text: String,
    /// Real path of the opened file, if the system reports it.
    real: Option<PathBuf>,
    metadata: std::fs::Metadata,
}

impl OpenedFile {
    fn read(path: &Path) -> Result<Option<Self>, ConfigError> {
        let read = |cause| ConfigError::Read { path: path.to_owned(), cause };
        // Open without waiting, because a FIFO of this name must not hang the start.
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
        // Ask for the path of the open file, so that no link can be swapped between the two operations.
        let real = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok();
        let mut text = String::new();
        file.take(LARGEST_FILE + 1).read_to_string(&mut text).map_err(read)?;
        if text.len() as u64 > LARGEST_FILE {
            return Err(ConfigError::TooLarge { path: path.to_owned() });
        }
        Ok(Some(Self { text, real, metadata }))
    }
}

/// Returns true if, by this metadata, nobody but root can have written the file.
fn belongs_to_root(metadata: &std::fs::Metadata) -> bool {
    metadata.uid() == 0 && metadata.mode() & 0o022 == 0
}

/// Reads the administrator's configuration. Returns `None` if the file does not exist.
///
/// # Errors
/// Those of [`ConfigFile::read`], and [`ConfigError::NotRoots`] if it is not certain that the
/// administrator wrote the file. The file is not skipped in that case, because then anyone who
/// changes its owner could disable it.
pub(crate) fn managed() -> Result<Option<ConfigFile>, ConfigError> {
    let Some(file) = ConfigFile::read(Path::new(MANAGED_FILE))? else { return Ok(None) };
    let folder = std::fs::metadata(MANAGED_FOLDER)
        .map_err(|cause| ConfigError::Read { path: MANAGED_FOLDER.into(), cause })?;
    if file.belongs_to_root && belongs_to_root(&folder) {
        return Ok(Some(file));
    }
    Err(ConfigError::NotRoots { path: file.path })
}

/// Parses the profiles that a text defines.
///
/// # Errors
/// The problem in the text, with its position.
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
        assert!(problem("mode: sometimes\n").starts_with(":1:7 `sometimes` is unknown"));
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
