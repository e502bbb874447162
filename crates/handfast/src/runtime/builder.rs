//! Builder of the library's runtime.

use std::error::Error;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use dialects::Dialect;
use engine::{Asker, NoAsker};
use policy::{DEFAULT_PROFILE, EffectKind, Mode, ProfileSource};
use sandbox::{Pool, SessionLimits, StartingSpawner};
use tool::{AnyTool, ErasedTool, Tool, subset_violations};
use vault::{Keys, Vault};

use super::Runtime;
use crate::compose::{RuntimeOptions, compose};
use crate::failure::Failure;
use crate::report;
use crate::run_options::{Author, RunOptions};
use crate::run_secrets;

/// The reason why a [`Runtime`] could not be built. [`Error::source`] returns the cause.
#[derive(Debug)]
pub struct BuildError(Box<dyn Error + Send + Sync>);

impl fmt::Display for BuildError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl Error for BuildError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}

impl From<Failure> for BuildError {
    fn from(failure: Failure) -> Self {
        Self(failure.error)
    }
}

/// A builder for a [`Runtime`]. All defaults, including configuration files, are those of the program.
pub struct Builder {
    options: RunOptions,
    configuration: Option<PathBuf>,
    tools: Vec<Arc<dyn AnyTool>>,
    asker: Arc<dyn Asker>,
    waiting: Option<u8>,
    key_file: Option<PathBuf>,
    vault: Option<Arc<Vault>>,
    hosts: Vec<String>,
    warn: Box<dyn Fn(&str) + Send + Sync>,
}

impl Builder {
    /// Creates a builder with the program's defaults in the current directory.
    pub(super) fn new() -> Self {
        let hint = "the calling program does not ask for approvals; answer with `handfast \
                    approvals`, or loosen the rule in the configuration";
        Self {
            options: RunOptions { author: Author::Program, ..RunOptions::default() },
            configuration: None,
            tools: Vec::new(),
            asker: Arc::new(NoAsker { hint: hint.to_owned() }),
            waiting: None,
            key_file: None,
            vault: None,
            hosts: Vec::new(),
            warn: Box::new(report::warn),
        }
    }

    /// Sets the folder that the tools work in. Default: the current directory.
    #[must_use]
    pub fn workspace(mut self, folder: impl Into<PathBuf>) -> Self {
        self.options.workspace = Some(folder.into());
        self
    }

    /// Sets the folder of the audit, the checkpoints and all other durable state. Default:
    /// `$XDG_STATE_HOME/handfast`.
    #[must_use]
    pub fn state(mut self, folder: impl Into<PathBuf>) -> Self {
        self.options.state = Some(folder.into());
        self
    }

    /// Sets the folder of the user's `config.yaml`. Default: `$XDG_CONFIG_HOME/handfast`. The
    /// administrator's and the workspace's files apply as usual.
    #[must_use]
    pub fn configuration(mut self, folder: impl Into<PathBuf>) -> Self {
        self.configuration = Some(folder.into());
        self
    }

    /// Sets the profile of `sandbox_config` that the policy uses. Default: `normal`.
    #[must_use]
    pub fn profile(mut self, name: impl Into<String>) -> Self {
        self.options.profile = Some(name.into());
        self
    }

    /// Sets the rules of a profile. Its lists and settings precede those of the user's files, and the
    /// administrator's file precedes both. A key that is `None` is left to the files, then to the
    /// built-in default.
    ///
    /// ```
    /// # use handfast::{ProfileSource, Runtime};
    /// # use serde_json::json;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (project, state) = (tempfile::tempdir()?, tempfile::tempdir()?);
    /// # let (project, state) = (project.path(), state.path());
    /// let rules = ProfileSource {
    ///     deny_write_paths: Some(vec!["./vendor/**".into()]),
    ///     ..ProfileSource::default()
    /// };
    /// let runtime = Runtime::builder().workspace(project).state(state).rules("normal", rules).build()?;
    /// let denied = runtime.call("file_write", json!({"path": "vendor/a.rs", "content": ""})).await;
    /// assert_eq!(denied.error().map(|error| error.code.as_str()), Some("EPERMISSION"));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn rules(mut self, profile: impl Into<String>, rules: ProfileSource) -> Self {
        self.options.profiles.insert(profile.into(), rules);
        self
    }

    /// Allows connections to a host, in addition to hosts named before: `example.com`,
    /// `*.example.com`, each with an optional `:PORT`. The host is added to the rules of the chosen
    /// profile when the runtime is built.
    #[must_use]
    pub fn allow_host(mut self, host: impl Into<String>) -> Self {
        self.hosts.push(host.into());
        self
    }

    /// Reads neither the user's nor the workspace's configuration files. The administrator's file
    /// still applies.
    #[must_use]
    pub fn without_configuration_files(mut self) -> Self {
        self.options.ignores_files = true;
        self
    }

    /// Sets when a human is asked. Default: [`Mode::SmartAuto`].
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Self {
        self.options.mode = Some(mode);
        self
    }

    /// Sets the names and schemas of the tools.
    #[must_use]
    pub fn dialect(mut self, dialect: Dialect) -> Self {
        self.options.dialect = Some(dialect);
        self
    }

    /// Offers only tools that read.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.options.read_only = true;
        self
    }

    /// Makes every call a dry run, which changes nothing and reports what it would do. Tools that
    /// change something and have no dry run are unavailable.
    ///
    /// ```
    /// # use handfast::Runtime;
    /// # use serde_json::json;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (project, state) = (tempfile::tempdir()?, tempfile::tempdir()?);
    /// # let (project, state) = (project.path(), state.path());
    /// let runtime = Runtime::builder().workspace(project).state(state).dry_run().build()?;
    /// let tried = runtime.call("file_write", json!({"path": "notes.txt", "content": "one"})).await;
    /// assert!(tried.ok());
    /// assert!(!project.join("notes.txt").exists());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn dry_run(mut self) -> Self {
        self.options.dry_run = true;
        self
    }

    /// Permits calls to have this kind of effect, in addition to kinds named before. Without any
    /// named kind, only the policy limits calls. A permission never overrides a denial of the
    /// policy.
    ///
    /// ```
    /// # use handfast::{EffectKind, Runtime};
    /// # use serde_json::json;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (project, state) = (tempfile::tempdir()?, tempfile::tempdir()?);
    /// # let (project, state) = (project.path(), state.path());
    /// # std::fs::write(project.join("notes.txt"), "one")?;
    /// let builder = Runtime::builder().workspace(project).state(state);
    /// let runtime = builder.permission(EffectKind::Read).permission(EffectKind::Run).build()?;
    /// assert!(runtime.call("file_read", json!({"path": "notes.txt"})).await.ok());
    /// let denied = runtime.call("file_write", json!({"path": "notes.txt", "content": "two"})).await;
    /// assert_eq!(denied.error().map(|error| error.code.as_str()), Some("EPERMISSION"));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn permission(mut self, kind: EffectKind) -> Self {
        self.options.permissions.push(kind);
        self
    }

    /// Sets the only key file of the vault. Default: the environment, the configuration and the key
    /// rings. [`vault::make_key_file`](crate::vault::make_key_file) creates a key file.
    #[must_use]
    pub fn vault_key_file(mut self, file: impl Into<PathBuf>) -> Self {
        self.key_file = Some(file.into());
        self
    }

    /// Sets the vault, in place of the one in the state folder.
    #[must_use]
    pub fn vault(mut self, vault: Arc<Vault>) -> Self {
        self.vault = Some(vault);
        self
    }

    /// Adds a tool whose type is not known at compile time. [`Builder::tool`] describes its calls.
    #[must_use]
    pub fn erased_tool(mut self, tool: Arc<dyn AnyTool>) -> Self {
        self.tools.push(tool);
        self
    }

    /// Adds a tool to the built-in ones. The tool has the same name in every dialect, and its calls
    /// are decided, audited, bounded and undone like those of built-in tools. If its plan names
    /// secrets ([`Effect::UseSecret`](tool::Effect::UseSecret)), `context.service::<Secrets>()`
    /// provides them, see [`Secrets`](crate::Secrets).
    #[must_use]
    pub fn tool(mut self, tool: impl Tool) -> Self {
        self.tools.push(ErasedTool::tool(tool));
        self
    }

    /// Sets who answers the questions of the policy. Without an asker, calls with a question end as
    /// `EAPPROVAL`, and `handfast approvals` answers them.
    #[must_use]
    pub fn asker(mut self, asker: impl Asker + 'static) -> Self {
        self.asker = Arc::new(asker);
        self
    }

    /// Keeps this number of cells waiting, which halves the start time of a command. Waiting cells
    /// are children of a copy of the present process. Build the runtime at the beginning of `main`,
    /// before a second thread exists.
    #[must_use]
    pub fn waiting_cells(mut self, cells: u8) -> Self {
        self.waiting = Some(cells);
        self
    }

    /// Sets the receiver of warnings, for example about a rule that can never apply. Default:
    /// standard error.
    #[must_use]
    pub fn on_warning(mut self, warn: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.warn = Box::new(warn);
        self
    }

    /// Reads the configuration, opens the state, and builds the runtime.
    ///
    /// # Errors
    /// - The workspace or the state cannot be used.
    /// - A configuration file is wrong.
    /// - Two tools have one name, or a tool's name has characters that some model providers reject.
    /// - A tool's schema has features that some model providers reject.
    /// - Waiting cells are requested, and threads already exist.
    pub fn build(mut self) -> Result<Runtime, BuildError> {
        if !self.hosts.is_empty() {
            let profile = self.options.profile.as_deref().unwrap_or(DEFAULT_PROFILE).to_owned();
            let rules = self.options.profiles.entry(profile).or_default();
            let hosts = self.hosts.iter().map(|host| host.as_str().into());
            rules.allowed_hosts.get_or_insert_default().extend(hosts);
        }
        for tool in &self.tools {
            if !is_portable_name(tool.name()) {
                return Err(BuildError(
                    format!(
                        "the tool name `{}` is not portable: use 1 to {MAX_NAME_BYTES} letters, digits, `_` and `-`",
                        tool.name()
                    )
                    .into(),
                ));
            }
            if let Some(violation) = subset_violations(tool.input_schema()).first() {
                return Err(BuildError(
                    format!("the arguments of the tool {}: {violation}", tool.name()).into(),
                ));
            }
        }
        run_secrets::begin(self.options.clone());
        let spawner = self.waiting.map(|waiting| StartingSpawner::begin(Pool { waiting })).transpose();
        let spawner = spawner.map_err(|error| BuildError(error.into()))?;
        let composed = compose(RuntimeOptions {
            options: self.options,
            configuration: self.configuration,
            home: None,
            spawner,
            sessions: Some(SessionLimits::default()),
            // The library cannot enter a cell that bwrap made.
            entrance: None,
            vault: self.vault,
            keys: self.key_file.map(|file| Keys { key_file: Some(file), ..Keys::default() }),
            tools: self.tools,
            warn: &self.warn,
        })?;
        Ok(Runtime { composed, asker: self.asker })
    }
}

/// Maximum length of a tool's name in bytes, the limit of common model providers.
const MAX_NAME_BYTES: usize = 64;

/// Returns true if every model provider accepts the name of a tool.
fn is_portable_name(name: &str) -> bool {
    let is_portable = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    (1..=MAX_NAME_BYTES).contains(&name.len()) && name.bytes().all(is_portable)
}
