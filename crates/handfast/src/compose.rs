//! Puts the runtime together: surroundings, configuration, policy, store, tools, engine.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::traces::Exporter;
use dialects::Dialect;
use embed::OpenModel;
use engine::{CellSetup, DuplicateTool, Engine, Parts, Redactor, Registry, Summarizer, Tracer};
use fetch::web::Web;
use jiff::Timestamp;
use outgoing::EnvironmentSecrets;
use policy::Policy;
use sandbox::{Entrance, SessionLimits, Spawner};
use store::Store;
use tool::{AnyTool, Clock, Services, SessionId};
use vault::{HostRule, Keys, LEAST_CHARACTERS, Vault, VaultError};

use crate::cli::Global;
use crate::commands::Failure;
use crate::config::Elicitation;
use crate::configuration::{Configuration, compile};
use crate::exec_log::WorkspaceLog;
use crate::identity::OAuth;
use crate::places::{
    DOWNLOADS_FOLDER, VAULT_FOLDER, create_as_its_parent, create_private, place, program, real, state_folder,
};
use crate::report::{Warn, warn};
use crate::surroundings::{Surroundings, variable, vault_keys};
use crate::toolchains;
use crate::toolset::{Toolset, catalogue};
use crate::traces::{FAREWELL, exporter};

/// A runtime, put together for one command of the program.
pub(crate) struct Composed {
    pub(crate) engine: Arc<Engine>,
    pub(crate) store: Arc<Store>,
    pub(crate) session: SessionId,
    pub(crate) workspace: PathBuf,
    /// What its tools are called, and which are listed.
    pub(crate) toolset: Toolset,
    /// Where everything durable lies.
    pub(crate) state: PathBuf,
    /// Which questions may be put to the user of an MCP client, where a file that counts says so.
    pub(crate) elicitation: Option<Elicitation>,
    /// Whose tokens are good for `up` beside its own, where such a file says so.
    pub(crate) oauth: Option<OAuth>,
    /// What opens the model that makes vectors of texts.
    pub(crate) embeddings: Option<OpenModel>,
    /// What sends the traces of calls.
    traces: Option<Arc<Exporter>>,
}

/// What to compose a runtime of, beside what the configuration says.
pub(crate) struct Wanted<'a> {
    pub(crate) global: &'a Global,
    /// The folder of the user's configuration, where it is not the usual one.
    pub(crate) configuration: Option<PathBuf>,
    /// The user's home folder, where it is not that of this process.
    pub(crate) home: Option<PathBuf>,
    /// Where waiting cells come from, started before anything else was.
    pub(crate) spawner: Option<Arc<Spawner>>,
    /// How commands may run on between calls, where this runtime serves many.
    pub(crate) sessions: Option<SessionLimits>,
    /// How this program begins a cell of bwrap's.
    pub(crate) entrance: Option<Entrance>,
    /// What opens the vault, where it is not what the surroundings give.
    pub(crate) keys: Option<Keys>,
    /// Tools beside the built-in ones.
    pub(crate) tools: Vec<Arc<dyn AnyTool>>,
    /// Who hears what is not as it should be.
    pub(crate) warn: Warn<'a>,
}

impl<'a> Wanted<'a> {
    /// A runtime for one command of the program.
    pub(crate) fn once(global: &'a Global) -> Self {
        Self {
            global,
            configuration: None,
            home: None,
            spawner: None,
            sessions: None,
            entrance: entrance(),
            keys: None,
            tools: Vec::new(),
            warn: &warn,
        }
    }

    /// A runtime that serves many calls.
    pub(crate) fn serving(global: &'a Global, spawner: Option<Arc<Spawner>>) -> Self {
        Self { spawner, sessions: Some(SessionLimits::default()), ..Self::once(global) }
    }
}

/// Composes the runtime.
pub(crate) fn compose(wanted: Wanted) -> Result<Composed, Failure> {
    let Wanted { global, configuration, home, spawner, sessions, entrance, keys, tools, warn } = wanted;
    let mut surroundings = Surroundings::of_this_process();
    surroundings.configuration = configuration.or(surroundings.configuration);
    if home.is_some() {
        // With it goes all that this process was told of the user's own.
        (surroundings.home, surroundings.folders) = (home, std::collections::BTreeMap::new());
    }
    let place = place(global, &surroundings, warn)?;
    let state = state_folder(global, &surroundings)?;
    if place.workspace.starts_with(&state) {
        return Err(Failure::usage(format!(
            "the workspace {} lies in the state folder {}, which no tool may change; name another one with --state",
            place.workspace.display(),
            state.display()
        )));
    }
    if let Some(folder) = surroundings.configuration.as_deref().map(real)
        && place.workspace.starts_with(&folder)
    {
        return Err(Failure::usage(format!(
            "the workspace {} lies in the folder of your configuration, {}, which no tool may change; work in another folder",
            place.workspace.display(),
            folder.display()
        )));
    }
    let store = Arc::new(Store::open(&state)?);
    let configuration = Configuration::read(global, &surroundings, &place, &state, &store, tools, warn)?;
    let policy = Arc::new(compile(&configuration, warn)?);
    keep_closed(surroundings.configuration.as_deref(), &policy)?;
    let vault =
        vault(&state, keys.unwrap_or_else(|| vault_keys(configuration.key_file.clone())), &policy, warn)?;
    // Nobody has set it before.
    let _ = configuration.vault.set(vault.clone());
    let registry = Registry::new(configuration.tools())
        .map_err(|DuplicateTool(name)| format!("two tools are named {name}"))?;
    let clock = Arc::new(SystemClock);
    let mut services = Services::default();
    services.insert(Arc::new(Web::default()));
    // What versions up to 0.1 kept of downloads that broke off. Nobody goes on with it.
    let _gone = std::fs::remove_dir_all(state.join(DOWNLOADS_FOLDER));
    let mut secrets = std::mem::take(&mut surroundings.credentials);
    if configuration.toolset.dialect == Dialect::Sluagh {
        let (environment, named) = environment_secrets(&configuration.environment_secrets, warn);
        services.insert(Arc::new(environment));
        secrets.extend(named);
    }
    let traces = exporter(configuration.traces, &surroundings.traces, warn);
    let cell = CellSetup { entrance, ..cell(&surroundings, &state, spawner)? };
    let workspace = place.workspace.clone();
    let summarizer = match configuration.toolset.dialect {
        Dialect::Csp1 => Some(exec_log(&workspace, &store)?),
        _ => None,
    };
    let engine = Engine::new(Parts {
        place,
        policy,
        store: store.clone(),
        catalogue: catalogue(registry.tools(), configuration.toolset.dialect, vault.clone())?,
        registry,
        clock,
        cell,
        redactor: Redactor::new(secrets),
        vault: Some(vault),
        databases: Some(configuration.needed.databases.clone()),
        embeddings: configuration.embeddings.clone(),
        sessions,
        tracer: traces.clone().map(|exporter| exporter as Arc<dyn Tracer>),
        summarizer,
        user: Some(surroundings.user.clone()),
        services,
        program: program(&state, &surroundings),
    })?;
    for notice in engine.notices() {
        warn(notice);
    }
    Ok(Composed {
        engine: Arc::new(engine),
        store,
        session: new_session(),
        workspace,
        state,
        toolset: configuration.toolset,
        elicitation: configuration.elicitation,
        oauth: configuration.oauth,
        embeddings: configuration.embeddings,
        traces,
    })
}

impl Composed {
    /// Gives what was followed of calls a last chance to be sent. Nothing is lost by it that anybody asked for, so it is the last thing
    /// that a command does.
    pub(crate) fn close_traces(&self) {
        if let Some(traces) = &self.traces {
            traces.close(FAREWELL);
        }
    }
}

/// The exec log of the dialect `csp1`, by which every door sums up what commands print.
fn exec_log(workspace: &Path, store: &Arc<Store>) -> Result<Arc<dyn Summarizer>, Failure> {
    let log = WorkspaceLog::open(workspace, store.clone()).map_err(|error| {
        let folder = workspace.join("memory/exec-logs");
        Failure::from(format!("the exec log {} cannot be used: {error}", folder.display()))
    })?;
    Ok(Arc::new(log))
}

/// The variables of the environment that may be sent, and the same for the redactor, whatever they are called.
fn environment_secrets(
    named: &BTreeMap<String, Vec<HostRule>>,
    warn: Warn,
) -> (EnvironmentSecrets, Vec<(String, String)>) {
    let (mut covered, mut entries, mut unset) = (Vec::new(), Vec::new(), Vec::new());
    for (name, hosts) in named {
        let Some(value) = variable(name) else {
            warn(&format!("the variable {name} of `environment_secrets` is not set"));
            unset.push(name.clone());
            continue;
        };
        match std::str::from_utf8(&value) {
            Ok(text) if text.chars().count() >= LEAST_CHARACTERS => {
                covered.push((name.clone(), text.to_owned()));
                entries.push((name.clone(), value, hosts.clone()));
            }
            _ => warn(&format!(
                "the variable {name} of `environment_secrets` is not sent: a secret is a text of at least {LEAST_CHARACTERS} \
                 characters, or covering it would tell it"
            )),
        }
    }
    (EnvironmentSecrets::new(entries).without(unset), covered)
}

/// The vault, opened where it can be, so that its secrets are covered from the first call on.
fn vault(state: &Path, keys: Keys, policy: &Policy, warn: Warn) -> Result<Arc<Vault>, Failure> {
    let reached = |path: &Path| policy.roots().iter().any(|root| path.starts_with(&root.path));
    if let Some(path) = keys.key_file.as_deref().map(real).filter(|path| reached(path)) {
        return Err(Failure::usage(format!(
            "the key file of the vault, {}, lies within reach of the tools; keep it elsewhere",
            path.display()
        )));
    }
    let vault = Vault::new(state.join(VAULT_FOLDER), keys);
    match vault.contents() {
        Ok(contents) if !contents.is_locked_in_memory() => {
            warn(
                "the system lets this program keep no more memory out of swap (ulimit -l), so the vault's secrets may be swapped out",
            );
        }
        // Who uses no secret need not unlock them.
        Ok(_) | Err(VaultError::Locked) => {}
        Err(error) => {
            warn(&format!("{error}; until that is mended its secrets are neither used nor covered"));
        }
    }
    Ok(Arc::new(vault))
}

/// Makes the folder of the user's configuration where a command could: a cell freezes what is there, and what is not there a command
/// that writes directly could make, for the next run to obey.
fn keep_closed(folder: Option<&Path>, policy: &Policy) -> Result<(), Failure> {
    let Some(folder) = folder.map(real) else { return Ok(()) };
    if !policy.roots().iter().any(|root| folder.starts_with(&root.path)) {
        return Ok(());
    }
    match create_as_its_parent(&folder) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::ReadOnlyFilesystem => Ok(()),
        // Where this user may not make it, no command may, since commands are this user's. Those of root are the workspace's owner's.
        Err(error)
            if error.kind() == ErrorKind::PermissionDenied && !rustix::process::geteuid().is_root() =>
        {
            Ok(())
        }
        Err(error) => Err(Failure::from(format!(
            "the folder of your configuration, {}, lies within reach of commands and cannot be made ({error}), while \
             one of them could make it; make it yourself, or work in another folder",
            folder.display()
        ))),
    }
}

fn cell(
    surroundings: &Surroundings,
    state: &Path,
    spawner: Option<Arc<Spawner>>,
) -> Result<CellSetup, Failure> {
    let spool = state.join("spool");
    create_private(&spool)?;
    let setup = toolchains::cell_setup(surroundings, spool, spawner);
    let [changes, records, homes, certificates] =
        ["changes", "sessions", "homes", "certificates"].map(|name| Some(state.join(name)));
    let toolchains_seen = Some(state.join("toolchains"));
    Ok(CellSetup { changes, records, homes, certificates, toolchains_seen, ..setup })
}

/// How this program begins a cell that the system's bwrap makes. One that was removed or replaced since it was started
/// cannot.
pub(crate) fn entrance() -> Option<Entrance> {
    let program = std::env::current_exe().and_then(|path| path.canonicalize()).ok()?;
    Some(Entrance { program, arguments: vec!["enter-cell".into()] })
}

/// A session's id: the process and when it began.
fn new_session() -> SessionId {
    let began = SystemClock.now().as_millisecond();
    SessionId(format!("s{began:x}-{}", std::process::id()))
}

/// The machine's clock.
pub(crate) struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the clock that everything else goes through")]
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}
